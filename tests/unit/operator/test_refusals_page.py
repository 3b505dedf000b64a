"""docs/reference/refusals.md shows what the API server refuses: the table is made of tests/e2e/rejected.yaml.

After a change there: UPDATE_DOCS=1 pytest tests/unit/operator/test_refusals_page.py
"""

import os
import pathlib

from tests.support.yaml_documents import load_yaml

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "refusals.md"
BEGIN = "tests/unit/operator/test_refusals_page.py -->\n"
END = "<!-- end -->"


def row(case: dict) -> str:
    said = f"`{case['reads']}`" if "`" not in case["reads"] else f"`` {case['reads']} ``"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (case["mistake"], said)) + " |\n"


def table() -> str:
    cases = load_yaml((ROOT / "tests" / "e2e" / "rejected.yaml").read_text())
    return "| mistake | message |\n|---|---|\n" + "".join(map(row, cases))


def test_every_mistake_is_on_the_page():
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    there, end, after = rest.partition(END)
    assert begin, "the page has lost its mark"
    assert end, "the page has lost its mark"
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(before + begin + table() + end + after)
        there = table()
    assert there == table(), (
        "docs/reference/refusals.md is behind tests/e2e/rejected.yaml: "
        "UPDATE_DOCS=1 .venv/bin/python -m pytest tests/unit/operator/test_refusals_page.py"
    )
