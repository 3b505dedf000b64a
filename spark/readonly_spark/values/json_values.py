"""Values of Pulsar's JSON schemas, as Jackson writes them in Pulsar's Java client (4.0.8, JSONSchema). Pure.

Arrow cuts what does not fit: 1.5 becomes the integer 1, true the number 1, a text a list of letters. So each value is checked
against its field's type. Those that Arrow refuses by itself, such as a number for a text, are left to it.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from readonly_spark.values.avro import is_struct_union, logical_type, parsed_type
from readonly_spark.values.avro_resolution import item_type, kind_of, named_type, to_float
from readonly_spark.values.meaning import MeaningError, check_fits, day_of, meaning, micros_of
from readonly_spark.values.schema import names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from readonly_spark.values.meaning import Convert

_NUMBERS: Final = {"java.math.BigDecimal", "java.math.BigInteger"}
"""Classes that Avro stores as text, and Jackson writes as numbers."""

_TIMES: Final = {"timestamp-millis", "timestamp-micros"}
_NOT_FINITE: Final = {"NaN", "Infinity", "-Infinity"}
_EXACT: Final = 2**53
_FLOAT_END: Final = 2.0**128 - 2.0**103
"""Larger numbers round to no float."""

_LONG_DIGITS: Final = 19
_INSTANT_DIGITS: Final = 9
_US: Final = 10**6
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATE_PARTS: Final = 3


def json_reader(
    writer: tuple[Any, Mapping[str, Any]], reader: tuple[Any, Mapping[str, Any]], target: pa.DataType
) -> Callable[[bytes], Any]:
    """Return a function that decodes a payload.

    Args:
        writer: the schema that the payload was written with, and its named types, as `parse_avro` returns them.
        reader: the schema to read it as, and its named types.
        target: the column's type.

    Raises:
        MeaningError: a field that only the writer's schema has does not fit the column.
    """
    convert = _converting(*_Json(writer[1], reader[1]).of(writer[0], reader[0], target))
    exact = json.JSONDecoder(parse_float=Decimal).decode
    decode = json.JSONDecoder().decode  # three times as fast, if there are many fractions

    def read(value: bytes) -> Any:
        nonlocal decode
        try:
            return convert(decode(_text(value)))
        except _DigitsError:
            decode = exact
        return convert(decode(_text(value)))

    return read


def _text(value: bytes) -> str:
    if value[:1] == b"{" and value[1:2] != b"\0":
        return value.decode()
    return value.decode(json.detect_encoding(value), "surrogatepass")  # UTF-16, for example, as Jackson


class _DigitsError(MeaningError):
    """A fraction must be read as Decimal, with each digit."""


_Check = tuple[type | None, "Convert"]
"""The class of values that Arrow takes as they are, None for no class; and the conversion of other values."""


def _converting(exact: type | None, convert: Convert) -> Convert:
    return lambda found: found if found is None or type(found) is exact else convert(found)


class _Json:
    """Conversions of JSON values.

    Args:
        written: named types of the writer's schema.
        read: named types of the reader's schema.
    """

    def __init__(self, written: Mapping[str, Any], read: Mapping[str, Any]) -> None:
        self._written = written
        self._read = read

    def of(self, writer: Any, reader: Any, target: pa.DataType) -> _Check:
        """Return the conversion of a value; `writer` is None where the writer's schema has no such part."""
        writer, reader = _single(writer, self._written), _single(reader, self._read)
        kind, logical = kind_of(reader), logical_type(reader)
        if kind == "record":
            return None, self._record(writer if kind_of(writer) == kind else None, reader, target)
        if kind in {"array", "map"}:
            below = "items" if kind == "array" else "values"
            exact, convert = self.of(
                writer[below] if kind_of(writer) == kind else None, reader[below], item_type(target)
            )
            return None, _list(exact, convert) if kind == "array" else _map(exact, convert)
        if logical in _TIMES:
            return None, _time(meaning(writer, reader), _instant)
        if logical == "date":
            return None, _time(meaning(writer, reader), _day)
        if logical == "decimal":
            return None, _decimal
        if kind == "string" and isinstance(reader, dict) and reader.get("java-class") in _NUMBERS:
            return str, _big_integer if reader["java-class"].endswith("Integer") else _big_decimal
        if kind == "enum":
            symbols = {*reader["symbols"], *(writer["symbols"] if kind_of(writer) == kind else ())}
            return None, _enum(symbols)
        if kind in {"bytes", "fixed"}:
            return None, _bytes(reader["size"] if kind == "fixed" else None)
        if kind == "int" and isinstance(reader, dict) and reader.get("java-class") == "java.lang.Character":
            return int, _character
        simple: dict[str, _Check] = {
            "int": (int, _whole),
            "long": (int, _whole),
            "float": (None, _single_real),
            "double": (float, _real),
        }
        return simple.get(kind, (None, _as_is))

    def _record(self, writer: Any, reader: Any, target: pa.DataType) -> Convert:
        written = {} if writer is None else {one["name"]: one["type"] for one in writer["fields"]}
        read = {one["name"]: one["type"] for one in reader["fields"]}
        checks, unknown = [], []
        for name in names_of(target):
            kind = target.field(name).type
            if name in read:
                checks.append((name, *self.of(written.get(name), read[name], kind)))
            elif name in written:  # the newest version dropped it: see avro_resolution.py
                own = _Json(self._written, self._written)
                check_fits(parsed_type(written[name], self._written, unions=False), kind, name)
                checks.append((name, *own.of(written[name], written[name], kind)))
            else:
                unknown.append(name)
        checks = [one for one in checks if one[2] is not _as_is]

        def convert(found: Any) -> Any:
            if type(found) is not dict:
                raise MeaningError(f"{_shown(found)} is no object")
            for name, exact, convert_field in checks:
                value = found.get(name)
                if value is not None and type(value) is not exact:
                    found[name] = convert_field(value)
            for name in unknown:
                found.pop(name, None)
            return found

        return convert


def _single(definition: Any, named: Mapping[str, Any]) -> Any:
    """Return the type of a part that is one type or null; None for another part of a writer."""
    if isinstance(definition, list):
        members = [one for one in definition if one != "null"]
        definition = None if is_struct_union(definition) or not members else members[0]
    return named_type(definition, named)


def _as_is(found: Any) -> Any:
    return found


def _list(exact: type | None, convert: Convert) -> Convert:
    def convert_list(found: Any) -> list[Any]:
        if type(found) is not list:
            raise MeaningError(f"{_shown(found)} is no list")
        if convert is _as_is:
            return found
        return [one if one is None or type(one) is exact else convert(one) for one in found]

    return convert_list


def _map(exact: type | None, convert: Convert) -> Convert:
    def convert_map(found: Any) -> list[tuple[str, Any]]:
        if type(found) is not dict:
            raise MeaningError(f"{_shown(found)} is no object")
        return [(key, one if one is None or type(one) is exact else convert(one)) for key, one in found.items()]

    return convert_map


def _whole(found: Any) -> int:
    """Return a whole number, if no digit of it was lost."""
    if type(found) is int:
        return found
    if type(found) is float and found.is_integer() and abs(found) < _EXACT:
        return int(found)
    if type(found) is Decimal and found.adjusted() < _LONG_DIGITS and found == found.to_integral_value():
        return int(found)
    raise MeaningError(f"{_shown(found)} is no whole number")


def _real(found: Any) -> float:
    if type(found) in {int, float, Decimal} or (type(found) is str and found in _NOT_FINITE):
        return float(found)
    raise MeaningError(f"{_shown(found)} is no number")


def _single_real(found: Any) -> float:
    value = to_float(found) if type(found) is int else _real(found)
    if abs(value) >= _FLOAT_END and not math.isinf(value):
        raise MeaningError(f"{_shown(found)} is too large for a float")
    return value


def _character(found: Any) -> int:
    if type(found) is str and len(found) == 1:
        return ord(found)
    return _whole(found)


def _bytes(size: int | None) -> Convert:
    def convert_bytes(found: Any) -> bytes:
        if type(found) is not str:
            raise MeaningError(f"{_shown(found)} is no text with bytes in Base64")
        value = base64.b64decode(found, validate=True)
        if size is not None and len(value) != size:
            raise MeaningError(f"{_shown(found)} does not have {size} bytes")
        return value

    return convert_bytes


def _enum(symbols: set[str]) -> Convert:
    def convert_enum(found: Any) -> Any:
        if type(found) is not str or found not in symbols:
            raise MeaningError(f"{_shown(found)} is no symbol of its enum")
        return found

    return convert_enum


def _time(convert: Convert | None, other: Callable[[Any, Convert], Any]) -> Convert:
    """Return the conversion of a number by the schema's unit, and of what Jackson writes for a class of java.time."""
    assert convert is not None
    return lambda found: convert(found) if type(found) is int else other(found, convert)


def _instant(found: Any, convert: Convert) -> Any:
    """Return the time of a number that is not an int.

    Jackson writes an Instant as its seconds, and the nanoseconds that follow them as nine digits. They follow them in time
    before 1970 too: -1.500000000 is half a second before 1970.
    """
    _check_digits(found)
    if type(found) is Decimal and found.as_tuple().exponent == -_INSTANT_DIGITS:
        seconds, _, nanos = f"{found:f}".partition(".")
        return micros_of(1)(int(seconds) * _US + int(nanos) // 1000)
    return convert(_whole(found))


def _day(found: Any, convert: Convert) -> Any:
    """Return the date of the list that Jackson writes for a LocalDate, or of another number that is not an int."""
    if type(found) is list and len(found) == _DATE_PARTS and all(type(one) is int for one in found):
        return day_of(date(*found).toordinal() - _EPOCH)
    return convert(_whole(found))


def _check_digits(found: Any) -> None:
    if type(found) is float:
        raise _DigitsError(f"{_shown(found)} is no number with digits")


def _decimal(found: Any) -> Decimal:
    _check_digits(found)
    if type(found) is int or type(found) is Decimal:
        return Decimal(found)
    raise MeaningError(f"{_shown(found)} is no number")


def _big_decimal(found: Any) -> str:
    """Return the text of a number, as Java's BigDecimal has it."""
    value = _decimal(found)
    return str(value or value.copy_abs())


def _big_integer(found: Any) -> str:
    return str(_whole(found))


def _shown(found: Any) -> str:
    return repr(found)[:40]
