"""readonly_operator.api.reasons has the reasons of conditions and events that the operator's code gives, and no others."""

import ast
import re
from pathlib import Path

from readonly_operator.api import reasons
from readonly_operator.api.reasons import CONDITIONS, EVENTS, OF_BINDINGS, OF_BOTH, OF_POOLS, OF_SOURCES
from readonly_operator.assembly import apply_events

OPERATOR = Path(reasons.__file__).parents[1]
POSITION = {"Condition": 2, "Notice": 1, "UnresolvedSourceError": 0, "_false": 0, "_all": 0}
"""Where these functions and classes take the reason."""
WORD = re.compile(r"(?:[A-Z][a-z]+)+")


def words(node: ast.AST) -> set[str]:
    """The CamelCase words below a node."""
    found = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return {word for word in found if WORD.fullmatch(word)}


def given() -> set[str]:
    """The reasons in the operator's code: where conditions and events are made, and where a name of a reason is set."""
    found: set[str] = set()
    for path in OPERATOR.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in POSITION:
                position = POSITION[node.func.id]
                if len(node.args) > position:
                    found |= words(node.args[position])
            elif isinstance(node, ast.Assign):
                names = {target.id for target in node.targets if isinstance(target, ast.Name)}
                if names & {"reason", "UNCHECKED"}:
                    found |= words(node.value)
    return found | {reason for reason, _ in apply_events._WORDS.values()}


def triples() -> set[tuple[str, str, str]]:
    """Condition, status and reason, where all three are literals."""
    found = set()
    for path in OPERATOR.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id="Condition"),
                    args=[ast.Constant(value=kind), ast.Attribute(attr=truth), ast.Constant(value=reason), *_],
                ):
                    found.add((kind, truth.capitalize(), reason))
    return found


def test_every_reason_has_its_meaning_and_none_is_made_up():
    known = {row.reason for row in (*OF_POOLS, *OF_BINDINGS, *OF_BOTH, *OF_SOURCES)} | set(EVENTS)
    code = given()
    assert len(code) > 40
    assert code - known == set(), "add them to readonly_operator/api/reasons.py"
    assert known - code == set(), "the code does not give these any more"


def test_conditions_have_these_reasons_with_this_status():
    known = {(row.condition, row.status, row.reason) for row in (*OF_POOLS, *OF_BINDINGS, *OF_BOTH, *OF_SOURCES)}
    code = triples()
    assert len(code) > 15
    # what a binding says of both is said once
    assert {one for one in code if one[0] != "LookupConfigured"} - known == set()


def test_every_condition_is_described_and_no_row_stands_twice():
    for rows in (OF_POOLS, OF_BINDINGS, OF_BOTH, OF_SOURCES):
        assert {row.condition for row in rows} <= set(CONDITIONS)
        keys = [(row.condition, row.status, row.reason) for row in rows]
        assert len(keys) == len(set(keys))
    assert {row.condition for row in (*OF_POOLS, *OF_BINDINGS, *OF_BOTH, *OF_SOURCES)} | {
        "Reconciling",
        "Stalled",
    } == set(CONDITIONS)
