from pathlib import Path

from readonly_spark.option_list import OPTIONS
from readonly_spark.reference import rewritten
from readonly_spark.rows.columns import COLUMNS

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "spark.md"


def test_the_document_has_every_option_and_column_as_the_code_has_them():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert rewritten(text) == text, (
        "docs/reference/spark.md is behind: .venv/bin/python -m readonly_spark.reference docs/reference/spark.md"
    )
    for name in (*(option.name for option in OPTIONS), *(column.name for column in COLUMNS)):
        assert f"| `{name}` |" in text
