"""Meanings of numbers and bytes: the logical types of Avro and JSON schemas, and of the columns that they go to. Pure.

Java applies the logical type of the reader's schema to the stored number. So does this, unless the writer's schema has another
logical type: then the value is converted, or it is an error where Java would misread it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from readonly_spark.values.avro import logical_type
from readonly_spark.values.schema import names_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Convert = Callable[[Any], Any]
    """A function of a decoded value that returns what Arrow accepts for the column."""

_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""The years 1 to 9999, as Python and SQL have them."""

_US_PER_DAY: Final = 86_400 * 10**6
_FIRST_US: Final = _FIRST_DAY * _US_PER_DAY
_LAST_US: Final = (_LAST_DAY + 1) * _US_PER_DAY - 1
_US: Final = {"timestamp-millis": 1000, "timestamp-micros": 1}
_EXACT: Final = Context(prec=100)


class MeaningError(ValueError):
    """A value that means something else than the column."""


def refusing(message: str) -> Convert:
    """Return a function that refuses each value."""
    return _Refusal(message)


def is_refusing(convert: Convert | None) -> bool:
    """Return whether a function refuses each value."""
    return isinstance(convert, _Refusal)


@dataclass(frozen=True, slots=True)
class _Refusal:
    message: str

    def __call__(self, _: Any) -> Any:
        raise MeaningError(self.message)


def meaning(writer: Any, reader: Any) -> Convert | None:
    """Return the conversion of a stored int, or of stored bytes, to the column of the reader's logical type.

    Args:
        writer: the definition that it was written with; None for none, as that of a default.
        reader: the definition to read it as.

    Returns:
        None if the stored value is that of the column.
    """
    written, read = logical_type(writer), logical_type(reader)
    if written is not None and read is not None and written != read and not {written, read} <= _US.keys():
        return refusing(f"a value was written as {written}, and is read as {read}")
    stated = reader if written is None else writer  # the unit, and the scale
    if read in _US:
        return micros_of(_US[stated["logicalType"]])
    if read == "date":
        return day_of
    return decimal_of(stated.get("scale", 0)) if read == "decimal" else None


def micros_of(unit: int) -> Convert:
    """Return the conversion of a time in units of so many us to us."""

    def micros(found: int) -> int:
        found *= unit
        if not _FIRST_US <= found <= _LAST_US:
            raise MeaningError("a time is outside of the years 1 to 9999")
        return found

    return micros


def day_of(found: int) -> int:
    """Return a day, counted from 1970-01-01."""
    if not _FIRST_DAY <= found <= _LAST_DAY:
        raise MeaningError("a date is outside of the years 1 to 9999")
    return found


def decimal_of(scale: int) -> Convert:
    """Return the conversion of the bytes of a decimal; Arrow refuses what the column's precision or scale cannot hold."""

    def decimal(found: bytes) -> Decimal:
        if not found:
            raise MeaningError("a decimal has no bytes")
        return Decimal(int.from_bytes(found, "big", signed=True)).scaleb(-scale, _EXACT)

    return decimal


def check_fits(found: pa.DataType, target: pa.DataType, where: str) -> None:
    """Check that Arrow does not reinterpret decoded values: it accepts an integer as a time, for example.

    Args:
        found: the type of the decoded values.
        target: the column's type.
        where: the field, for the error.

    Raises:
        MeaningError: Arrow may reinterpret a value. Arrow itself refuses types that do not fit at all.
    """
    types = pa.types
    if types.is_struct(found) and types.is_struct(target):
        for name in names_of(found) & names_of(target):
            check_fits(found.field(name).type, target.field(name).type, f"{where}.{name}".lstrip("."))
        return
    if types.is_list(found) and types.is_list(target):
        check_fits(found.value_type, target.value_type, f"{where}[]")
        return
    if types.is_map(found) and types.is_map(target):
        check_fits(found.item_type, target.item_type, f"{where}{{}}")
        return
    promoted = types.is_integer(found) and (types.is_integer(target) or types.is_floating(target))
    promoted = promoted or (types.is_float32(found) and types.is_float64(target))
    if found != target and not promoted:
        raise MeaningError(f"{where or 'the value'} was written as {found}, and is read as {target}")
