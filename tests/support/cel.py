"""The part of the Common Expression Language that our admission policies use, to evaluate them without an API server.

Macros: has, all, exists, filter, map. Functions: size, startsWith, endsWith, contains. Texts have +. Values are JSON. An error of
one side of && and || does not count when the other side decides, as in the language's definition.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Node = Callable[[Mapping[str, Any]], Any]

_TOKEN = re.compile(r"\s*(?:(\d+)|('(?:[^'\\]|\\.)*')|([A-Za-z_]\w*)|(&&|\|\||[=!]=|[-+!?:.,()\[\]{}<>]))")
_MACROS = ("all", "exists", "filter", "map")
RESERVED = frozenset(
    {
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    }
)
"""Words that the language does not allow as names of variables."""


class CelError(Exception):
    """A text that is not an expression, or has no value."""


def compile_cel(text: str) -> Node:
    """Compile an expression.

    Raises:
        CelError: it is none, or has a part that this module does not know.
    """
    parser = _Parser(text)
    node = parser.ternary()
    if parser.peek() is not None:
        raise CelError(f"unexpected {parser.peek()!r} in {text}")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, Any]] = []
        at, text = 0, text.strip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise CelError(f"unexpected {text[at:]!r}")
            number, string, name, sign = found.groups()
            if number:
                self._tokens.append(("value", int(number)))
            elif string:
                self._tokens.append(("value", re.sub(r"\\(.)", r"\1", string[1:-1])))
            else:
                self._tokens.append(("name", name) if name else ("sign", sign))
            at = found.end()

    def peek(self) -> str | None:
        return str(self._tokens[0][1]) if self._tokens and self._tokens[0][0] != "value" else self._any()

    def _any(self) -> str | None:
        return "a value" if self._tokens else None

    def _take(self, kind: str) -> Any:
        if not self._tokens or self._tokens[0][0] != kind:
            raise CelError(f"a {kind} is missing before {self.peek()}")
        return self._tokens.pop(0)[1]

    def _skip(self, sign: str) -> bool:
        if self._tokens and self._tokens[0][0] in {"sign", "name"} and self._tokens[0][1] == sign:
            self._tokens.pop(0)
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._skip(sign):
            raise CelError(f"{sign} is missing before {self.peek()}")

    def ternary(self) -> Node:
        condition = self._either()
        if not self._skip("?"):
            return condition
        yes = self._either()
        self._expect(":")
        no = self.ternary()
        return lambda scope: yes(scope) if _flag(condition(scope)) else no(scope)

    def _either(self) -> Node:
        return self._logic("||", self._both, decisive=True)

    def _both(self) -> Node:
        return self._logic("&&", self._relation, decisive=False)

    def _logic(self, sign: str, below: Callable[[], Node], *, decisive: bool) -> Node:
        nodes = [below()]
        while self._skip(sign):
            nodes.append(below())
        return nodes[0] if len(nodes) == 1 else lambda scope: _decide(nodes, scope, decisive=decisive)

    def _sum(self) -> Node:
        nodes = [self._unary()]
        while self._skip("+"):
            nodes.append(self._unary())
        return nodes[0] if len(nodes) == 1 else lambda scope: "".join(node(scope) for node in nodes)

    def _relation(self) -> Node:
        left = self._sum()
        if self._skip("=="):
            right = self._sum()
            return lambda scope: left(scope) == right(scope)
        if self._skip("!="):
            right = self._sum()
            return lambda scope: left(scope) != right(scope)
        if self._skip("in"):
            right = self._sum()
            return lambda scope: left(scope) in _container(right(scope))
        return left

    def _unary(self) -> Node:
        if self._skip("!"):
            node = self._unary()
            return lambda scope: not _flag(node(scope))
        return self._member()

    def _member(self) -> Node:
        node = self._primary()
        while True:
            if self._skip("."):
                name = self._take("name")
                node = self._call(node, name) if self._skip("(") else _select(node, name)
            elif self._skip("["):
                node = _index(node, self.ternary())
                self._expect("]")
            else:
                return node

    def _call(self, target: Node, name: str) -> Node:
        if name in _MACROS:
            variable = self._take("name")
            _check(variable)
            self._expect(",")
            inner = self.ternary()
            self._expect(")")
            return _macro(name, target, variable, inner)
        arguments = [] if self._skip(")") else self._list(")")
        match name, arguments:
            case "size", []:
                return lambda scope: len(_container(target(scope)))
            case "startsWith", [prefix]:
                return lambda scope: str(target(scope)).startswith(prefix(scope))
            case "endsWith", [suffix]:
                return lambda scope: str(target(scope)).endswith(suffix(scope))
            case "contains", [part]:
                return lambda scope: part(scope) in str(target(scope))
            case _:
                raise CelError(f"{name} is no function that is known here")

    def _list(self, end: str) -> list[Node]:
        nodes = [self.ternary()]
        while self._skip(","):
            nodes.append(self.ternary())
        self._expect(end)
        return nodes

    def _primary(self) -> Node:
        if self._skip("("):
            node = self.ternary()
            self._expect(")")
            return node
        if self._skip("["):
            nodes = [] if self._skip("]") else self._list("]")
            return lambda scope: [node(scope) for node in nodes]
        if self._skip("{"):
            self._expect("}")  # others are not used
            return lambda _: {}
        if self._tokens and self._tokens[0][0] == "value":
            value = self._take("value")
            return lambda _: value
        name = self._take("name")
        if name == "has":
            self._expect("(")
            node = self._member()
            self._expect(")")
            return _has(node)
        if name in {"true", "false", "null"}:
            return lambda _: {"true": True, "false": False, "null": None}[name]
        _check(name)
        return lambda scope: _variable(scope, name)


def _check(name: str) -> None:
    if name in RESERVED:
        raise CelError(f"{name} is a reserved word")


def _variable(scope: Mapping[str, Any], name: str) -> Any:
    if name not in scope:
        raise CelError(f"{name} is not declared")
    return scope[name]


def _decide(nodes: list[Node], scope: Mapping[str, Any], *, decisive: bool) -> bool:
    error = None
    for node in nodes:
        try:
            if _flag(node(scope)) is decisive:
                return decisive
        except CelError as caught:
            error = caught
    if error is not None:
        raise error
    return not decisive


def _select(node: Node, name: str) -> Node:
    def find(scope: Mapping[str, Any]) -> Any:
        return _field(node(scope), name)

    find.parent, find.name = node, name  # type: ignore[attr-defined]
    return find


def _has(node: Any) -> Node:
    if not hasattr(node, "parent"):
        raise CelError("has() takes a field")
    return lambda scope: node.name in _mapping(node.parent(scope))


def _index(node: Node, key: Node) -> Node:
    def find(scope: Mapping[str, Any]) -> Any:
        value, index = node(scope), key(scope)
        if isinstance(value, list) and isinstance(index, int) and index < len(value):
            return value[index]
        return _field(value, index)

    return find


def _macro(name: str, target: Node, variable: str, inner: Node) -> Node:
    def run(scope: Mapping[str, Any]) -> Any:
        every = list(_container(target(scope)))
        nodes = [lambda outer, one=one: inner({**outer, variable: one}) for one in every]
        if name in {"all", "exists"}:
            return _decide(nodes, scope, decisive=name == "exists")
        found = [node(scope) for node in nodes]
        return found if name == "map" else [one for one, kept in zip(every, found, strict=True) if _flag(kept)]

    return run


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{value!r} is not true or false")
    return value


def _container(value: Any) -> Any:
    if not isinstance(value, list | dict):
        raise CelError(f"{value!r} is no list and no map")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    """What has fields: JSON, or an object that makes them on demand."""
    if not hasattr(value, "keys"):
        raise CelError(f"{value!r} has no fields")
    return value  # type: ignore[no-any-return]


def _field(value: Any, name: Any) -> Any:
    try:
        return _mapping(value)[name]
    except KeyError:
        raise CelError(f"no such key: {name}") from None
