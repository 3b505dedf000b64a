"""docs/explanation/alternatives.md: its figures of a pool are figures of the page of measurements."""

import re

from docsite.__main__ import DOCS

MEASURED = "\n".join(
    page.read_text(encoding="utf-8") for page in sorted((DOCS / "explanation").glob("performance*.md"))
)
TEXT = (DOCS / "explanation" / "alternatives.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
ROWS = re.findall(
    r"^\| (?!work|---)(.+?) \|$", TEXT.partition("## Figures of a pool")[2].partition("\n## ")[0], re.MULTILINE
)


def lines_with(table: str, figures: set[str]) -> list[str]:
    """The rows of a table that have all of these figures."""
    return [line for line in table.splitlines() if figures <= set(NUMBER.findall(line))]


def test_every_row_has_the_bench_whose_table_has_its_figures():
    assert len(ROWS) == 8
    for row in ROWS:
        cells = row.split("|")
        (bench,) = re.findall(r"^ `python -m bench ([a-z-]+)`$", cells[-1])
        table = MEASURED.partition(f"<!-- {bench}: made by make bench -->")[2].partition("<!-- end")[0]
        figures = set(NUMBER.findall(" ".join(cells[1:-1])))
        assert len(figures) >= 2
        assert lines_with(table, figures), (bench, figures)


def test_no_figure_is_of_others():
    """Figures of other machines and programs could be taken for a comparison."""
    before, _, after = TEXT.partition("## Figures of a pool")
    prose = [line for line in after.splitlines() if not line.startswith("|")]
    assert re.findall(r"\d[\d,.]* (?:s|ms|minutes|µs|MB|%|KB)\b", "\n".join([before, *prose])) == []


def test_a_wrong_figure_is_found():
    assert lines_with(MEASURED, {"8.23", "2.34", "0.28"})
    assert not lines_with(MEASURED, {"8.24", "2.34", "0.28"})
