"""Names of fields that differ in case only: Spark writes such a table, and cannot read it (COLUMN_ALREADY_EXISTS). Pure."""

from __future__ import annotations

from typing import Any

from readonly_spark.export.errors import ExportError


def check_field_names(kind: Any, path: str) -> None:
    """Check that no record has two fields whose names differ in case only.

    Args:
        kind: the JSON of a Spark type (`DataType.jsonValue`).
        path: the name of the column, for the error.

    Raises:
        ExportError: a record has two such fields; the error names both.
    """
    if not isinstance(kind, dict):
        return
    known: dict[str, str] = {}
    for field in kind.get("fields", ()):
        name = field["name"]
        other = known.setdefault(name.lower(), name)
        if other is not name:
            raise ExportError(
                f"the fields {path}.{other} and {path}.{name} differ in case only, so Spark could not read the table; use "
                "--option valueSchema=raw to export bytes, or a valueSchema without one of them"
            )
        check_field_names(field["type"], f"{path}.{name}")
    check_field_names(kind.get("elementType"), f"{path}[]")
    check_field_names(kind.get("keyType"), f"{path}{{key}}")
    check_field_names(kind.get("valueType"), f"{path}{{}}")
