"""Runs the plain Lua of health checks: locals, tables, conditions and `for _, x in ipairs(list)`, by translation to Python.

The package lupa, a real Lua, is used instead where it is installed. A statement outside of this part of Lua is an error.
"""

from __future__ import annotations

import re
from typing import Any

try:
    import lupa
except ImportError:
    lupa = None


class Table(dict):
    """A table: a missing key is nil."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __missing__(self, key: Any) -> None:
        return None


def table(value: Any) -> Any:
    """JSON as tables; arrays stay lists."""
    if isinstance(value, dict):
        return Table({name: table(one) for name, one in value.items()})
    return [table(one) for one in value] if isinstance(value, list) else value


_PATH = r"[a-z]\w*(?:\.\w+|\[[^\]]+\])*"
_OPERAND = rf"(?:{_PATH}|\"[^\"]*\"|\{{\}}|nil)"
_EXPRESSION = rf"{_OPERAND}(?: (?:==|~=) {_OPERAND})?(?: (?:and|or) {_OPERAND}(?: (?:==|~=) {_OPERAND})?)*"
_STATEMENTS = (
    (rf"(?:local )?({_PATH}) = ({_EXPRESSION})", r"\1 = \2", 0, 0),
    (rf"if ({_EXPRESSION}) then", r"if \1:", 0, 1),
    (rf"elseif ({_EXPRESSION}) then", r"elif \1:", -1, 1),
    (r"else", r"else:", -1, 1),
    (rf"for _, (\w+) in ipairs\(({_PATH})\) do", r"for \1 in \2:", 0, 1),
    (rf"return ({_PATH})", r"return \1", 0, 0),
    (r"end", r"pass", 0, -1),
)
"""Statement, its translation, and the change of indentation before and after it."""


def translate(script: str) -> str:
    """The script as a Python function `check(obj)`.

    Raises:
        SyntaxError: a line is outside of the part of Lua that is known.
    """
    lines, depth = ["def check(obj):"], 1
    for line in filter(None, map(str.strip, script.splitlines())):
        for pattern, made, before, after in _STATEMENTS:
            if found := re.fullmatch(pattern, line):
                depth += before
                text = re.sub(r"\bnil\b", "None", found.expand(made).replace("~=", "!=")).replace("{}", "Table()")
                lines.append("    " * depth + text)
                depth += after
                break
        else:
            raise SyntaxError(f"not translated: {line}")
    if depth != 1:
        raise SyntaxError("an `end` is missing or too much")
    return "\n".join(lines)


def run(script: str, body: dict[str, Any]) -> dict[str, Any]:
    """The table that a health check returns for an object."""
    if lupa is not None:
        lua = lupa.LuaRuntime()
        lua.execute("string = nil; io = nil; os = nil")
        return dict(lua.eval(f"function(obj) {script} end")(lua.table_from(body, recursive=True)))
    known: dict[str, Any] = {"Table": Table}
    exec(translate(script), known)
    return dict(known["check"](table(body)))
