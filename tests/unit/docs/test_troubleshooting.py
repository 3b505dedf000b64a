"""docs/how-to/troubleshooting.md quotes messages that the code has, and every reason of Ready that is False."""

import ast
import re

import pytest
from readonly_operator.api.reasons import OF_BINDINGS, OF_BOTH, OF_POOLS

from docsite.__main__ import DOCS

ROOT = DOCS.parent
TEXT = (DOCS / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
SOURCES = (ROOT / "engine" / "readonly_engine", ROOT / "operator" / "readonly_operator")
SHORTEST = 6
"""Parts of a quote with fewer characters prove nothing."""
NAMES = re.compile(r"[A-Za-z]+|pulsar_readonly_\w+")
"""Quotes that are a condition, a reason, a metric, an alert or a field; other tests check these."""


def section(heading: str) -> str:
    """The text below a heading, up to the next one."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found, heading
    return found[1]


def rows(text: str) -> list[dict[str, str]]:
    """The rows of all tables, by the names of their columns."""
    found, head = [], []
    for line in text.splitlines():
        if not line.startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not head:
            head = cells
        elif not set(line) <= set("|-: "):
            assert len(cells) == len(head), line
            found.append(dict(zip(head, cells, strict=True)))
    return found


def quotes(text: str) -> list[str]:
    """The quotes in the columns "message"."""
    spans = [span for row in rows(text) for span in re.findall(r"`([^`]+)`", row.get("message", ""))]
    return [span for span in spans if not NAMES.fullmatch(span)]


def literals() -> str:
    """The constant parts of all texts in the code, one a line; of formats for logs, those between the placeholders."""
    found: list[str] = []
    for folder in SOURCES:
        for path in folder.rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                    found += re.split(r"%[-.\d]*[sdgfr]", node.value)
    return "\n".join(found)


CODE = literals()


def parts(quote: str) -> list[str]:
    return [part for part in quote.split("…") if len(part) >= SHORTEST]


def lacking(quote: str) -> list[str]:
    """The parts of a quote that no text of the code has; the whole quote if nothing of it can be checked."""
    return [part for part in parts(quote) if part not in CODE] if parts(quote) else [quote]


@pytest.mark.parametrize("quote", quotes(TEXT))
def test_the_code_has_the_message(quote):
    assert lacking(quote) == []


def test_there_are_quotes_and_a_wrong_one_is_found():
    assert len(quotes(TEXT)) > 50
    assert lacking("no ZooKeeper answers at … within … s") == []
    assert lacking("no ZooKeeper responds at … within … s") == ["no ZooKeeper responds at "]
    assert lacking("… and …") == ["… and …"]


@pytest.mark.parametrize(
    ("heading", "reasons"), [("Ready of a pool is False", OF_POOLS), ("Ready of a binding is False", OF_BINDINGS)]
)
def test_every_reason_of_ready_is_there(heading, reasons):
    known = {row.reason for row in (*reasons, *OF_BOTH) if (row.condition, row.status) == ("Ready", "False")}
    told = {name for row in rows(section(heading)) for name in re.findall(r"`(\w+)`", row["reason"])}
    assert known - told == set()
    assert told <= {row.reason for row in (*OF_POOLS, *OF_BINDINGS, *OF_BOTH)}


def test_conditions_and_reasons_exist():
    known = {(row.condition, row.reason) for row in (*OF_POOLS, *OF_BINDINGS, *OF_BOTH)}
    for row in rows(section("Other conditions are False")):
        condition = re.findall(r"`(\w+)`", row["condition"])[0]
        assert condition in {one for one, _ in known}
        assert {(condition, reason) for reason in re.findall(r"`(\w+)`", row["reason"])} <= known
