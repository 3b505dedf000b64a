"""Columns with the option `fieldColumns`: the fields of the decoded struct, and all other columns with a prefix. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from readonly_spark.rows.columns import BY_NAME
from readonly_spark.values.type_names import spark_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PREFIX: Final = "__"
"""Prefix of the other columns, as in the connector pulsar-spark."""


class FieldColumnsError(ValueError):
    """Values whose fields cannot be columns."""


def source_column(name: str) -> str | None:
    """Return the column of the source behind a prefixed name; None for a field of the value."""
    inner = name.removeprefix(PREFIX)
    return inner if inner != name and inner in BY_NAME and inner != "value" else None


def field_types(value: pa.DataType, others: Iterable[str]) -> list[tuple[str, str]]:
    """Return name and Spark type of each field.

    Args:
        value: the type of decoded values.
        others: the names of the other columns.

    Raises:
        FieldColumnsError: the type is no struct, or a field has the name of another column. Spark ignores the case of names.
    """
    if not pa.types.is_struct(value):
        raise FieldColumnsError(f"fieldColumns requires values with fields; those of the topic are {spark_name(value)}")
    taken = {f"{PREFIX}{name}".lower(): f"{PREFIX}{name}" for name in others}
    fields = [value.field(index) for index in range(value.num_fields)]
    for field in fields:
        other = taken.get(field.name.lower())
        if other is not None:
            raise FieldColumnsError(
                f"fieldColumns: the field {field.name} has the name of the column {other}; use the column value.{field.name}"
            )
        taken[field.name.lower()] = field.name
    return [(field.name, spark_name(field.type)) for field in fields]


def with_field_columns(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return a record batch with these columns; a null value has null in each of its fields.

    Args:
        batch: columns of the source, with `value` if a field of it is among the names.
        names: fields of the value and prefixed columns of the source.
    """
    arrays = {}
    if "value" in batch.schema.names:
        value = batch.column("value")
        fields = (value.type.field(index).name for index in range(value.type.num_fields))
        arrays = dict(zip(fields, value.flatten(), strict=True))
    for name in names:
        inner = source_column(name)
        if inner is not None:
            arrays[name] = batch.column(inner)
    return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names)) if names else batch
