"""Limits of decoded values, and the number of values that lists and maps bring to a column. Pure.

An item of a list is a value in each column below it, although it may have few bytes: two in JSON and Protobuf. So a message of
5 MiB can fill 1.7 GB at 100 columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_VALUES: Final = 1 << 23
"""Values of one payload. A payload of brokers' default size, 5 MiB, cannot have more if each value has a byte."""

MAX_BATCH_VALUES: Final = 1 << 26
"""Values of one record batch."""

UNCOUNTED_PER_BYTE: Final = 8
"""Values per byte of a payload that are not counted: a record batch of 8 MiB then has at most MAX_BATCH_VALUES."""


class ValueLimitError(ValueError):
    """A payload that is not read, because it would fill the memory or the stack."""


def check_values(values: int) -> None:
    """Check the number of values of a payload.

    Raises:
        ValueLimitError: there are more than MAX_VALUES.
    """
    if values > MAX_VALUES:
        raise ValueLimitError(f"the payload has more than {MAX_VALUES:,} values")


def column_count(kind: pa.DataType) -> int:
    """Return the number of columns of a type, down to its lists and maps."""
    if pa.types.is_struct(kind):
        return 1 + sum(column_count(kind.field(at).type) for at in range(kind.num_fields))
    return 1


def value_counter(kind: pa.DataType) -> Callable[[Any], int] | None:
    """Return a function that counts the values in lists and maps of a decoded value.

    Args:
        kind: the column's type.

    Returns:
        None if they are too few per byte to be counted.
    """
    if pa.types.is_struct(kind):
        return _struct_counter(kind)
    if not pa.types.is_list(kind) and not pa.types.is_map(kind):
        return None
    keyed = pa.types.is_map(kind)
    item = kind.item_type if keyed else kind.value_type
    width, inner = column_count(item), value_counter(item)
    if width <= UNCOUNTED_PER_BYTE and inner is None:
        return None

    def count(found: Any) -> int:
        if not isinstance(found, list):
            return 0  # null, or what Arrow refuses
        values = len(found) * width
        if inner is not None and values <= MAX_VALUES:
            values += sum(inner(one[1] if keyed else one) for one in found)
        return values

    return count


def _struct_counter(kind: pa.DataType) -> Callable[[Any], int] | None:
    found = {kind.field(at).name: value_counter(kind.field(at).type) for at in range(kind.num_fields)}
    counters = {name: one for name, one in found.items() if one is not None}
    if not counters:
        return None

    def count(found: Any) -> int:
        if not isinstance(found, dict):
            return 0
        return sum(counted(found[name]) for name, counted in counters.items() if name in found)

    return count
