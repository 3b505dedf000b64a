"""One type for the values of several topics, whose schemas differ. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from readonly_spark.values.type_names import spark_name

if TYPE_CHECKING:
    from collections.abc import Mapping


class DifferentTypesError(ValueError):
    """Two topics have types that are not versions of one type; the message names topics, field and types."""


def merged_type(types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the type of values of all topics: structs have the fields of all, and a number has the widest type.

    Args:
        types: the type of each topic's values; at least one.

    Raises:
        DifferentTypesError: a field has types that cannot be merged.
    """
    (first, merged), *others = types.items()
    for name, kind in others:
        found = _merged(merged, kind, "")
        if isinstance(found, str):
            raise DifferentTypesError(f"{first} and {name} have different schemas: {found}; read them separately")
        merged = found
    return merged


def _merged(one: pa.DataType, other: pa.DataType, where: str) -> pa.DataType | str:
    """Return the merged type, or the difference in words."""
    types = pa.types
    if one == other:
        return one
    if types.is_struct(one) and types.is_struct(other):
        return _merged_structs(one, other, where)
    if types.is_list(one) and types.is_list(other):
        item = _merged(one.value_type, other.value_type, f"{where}[]")
        return item if isinstance(item, str) else pa.list_(pa.field("element", item))
    if types.is_map(one) and types.is_map(other) and one.key_type == other.key_type:
        item = _merged(one.item_type, other.item_type, f"{where}{{}}")
        return item if isinstance(item, str) else pa.map_(one.key_type, item)
    for alike in (types.is_integer, types.is_floating):
        if alike(one) and alike(other):
            return max(one, other, key=lambda kind: kind.bit_width)
    return f"{where or 'the value'} is {spark_name(one)} and {spark_name(other)}"


def _merged_structs(one: pa.StructType, other: pa.StructType, where: str) -> pa.DataType | str:
    fields = {one.field(index).name: one.field(index).type for index in range(one.num_fields)}
    for index in range(other.num_fields):
        field = other.field(index)
        if field.name not in fields:
            fields[field.name] = field.type
            continue
        found = _merged(fields[field.name], field.type, f"{where}.{field.name}".lstrip("."))
        if isinstance(found, str):
            return found
        fields[field.name] = found
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])
