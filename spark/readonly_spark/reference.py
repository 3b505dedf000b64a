"""Generate the tables of docs/reference/spark.md from the code: `python -m readonly_spark.reference FILE`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from readonly_spark.option_list import OPTIONS
from readonly_spark.rows.columns import COLUMNS, RAW_VALUE


def options_table() -> str:
    """Return the table of options."""
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for option in OPTIONS:
        default = option.default if not option.default or "`" in option.default else f"`{option.default}`"
        use = "" if option.use == "both" else f" *({option.use})*"
        rows.append(f"| `{option.name}` | {default} | {_cell(option.meaning)}{use} |")
    return "\n".join(rows)


def columns_table() -> str:
    """Return the table of columns."""
    rows = ["| column | type | meaning |", "|---|---|---|"]
    rows += [f"| `{column.name}` | `{column.spark}` | {_cell(column.meaning)} |" for column in (*COLUMNS, RAW_VALUE)]
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def rewritten(text: str) -> str:
    """Return a document with its tables replaced, each between `<!-- NAME -->` and `<!-- end -->`."""
    for name, table in (("options", options_table()), ("columns", columns_table())):
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(\n<!-- end -->)",
            lambda match, table=table: f"{match[1]}{table}{match[2]}",  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )
    return text


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
