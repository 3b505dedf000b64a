"""Limits of a Protobuf payload, checked before it is parsed. Pure.

A message within another one may have two bytes, and takes memory for each of its fields: 4 kB with 1,000 numbers (upb, measured).
So 5 MiB could become 10 GB. Payloads that could do this are walked first, by the wire format.
"""

from __future__ import annotations

from typing import Any, Final

from readonly_spark.values.value_limits import MAX_VALUES, UNCOUNTED_PER_BYTE, check_values

MAX_NESTED: Final = 100
"""Messages within each other, as Protobuf's parsers have it."""

_SHORTEST: Final = 2
"""Bytes of a message within another one."""

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_MAX_VARINT: Final = 10


class ProtobufLimits:
    """Count the values of payloads.

    Args:
        descriptor: the Descriptor of their messages, which do not contain themselves.
    """

    def __init__(self, descriptor: Any) -> None:
        self._descriptor = descriptor
        self._widths: dict[str, int] = {}
        self._widest = 0
        self._width(descriptor)

    def check(self, payload: bytes) -> None:
        """Check a payload. What is malformed is left to the parser, which stops there too.

        Raises:
            ValueLimitError: it has more than MAX_VALUES values.
        """
        if self._widest > UNCOUNTED_PER_BYTE and len(payload) // _SHORTEST * self._widest > MAX_VALUES:
            _Walk(self._widths, payload).message(self._descriptor, 0, len(payload), 0)

    def _width(self, descriptor: Any) -> int:
        """Return the number of fields of a message and of the single messages within it."""
        known = self._widths.get(descriptor.full_name)
        if known is not None:
            return known
        width = 1
        for one in descriptor.fields:
            inner = 1 if one.message_type is None else self._width(one.message_type)
            if one.is_repeated:
                self._widest = max(self._widest, inner)
            width += 1 if one.is_repeated else inner
        self._widths[descriptor.full_name] = width
        return width


class _Walk:
    """A walk through one payload.

    Args:
        widths: number of fields of each message, by full name.
        payload: the payload.
    """

    def __init__(self, widths: dict[str, int], payload: bytes) -> None:
        self._widths = widths
        self._payload = payload
        self._values = 0

    def message(self, descriptor: Any, at: int, end: int, depth: int) -> int:
        """Walk a message up to `end`, or a group up to its own end; return the index behind it, or -1 if it is malformed."""
        if depth > MAX_NESTED:
            return -1
        fields = {} if descriptor is None else descriptor.fields_by_number
        while at < end:
            tag, at = self._varint(at, end)
            kind, field = tag & 7, fields.get(tag >> 3)
            inner = None if field is None else field.message_type
            if at < 0 or kind > _FIXED32:
                return -1
            if kind == _GROUP_END:
                return at
            if kind == _GROUP:
                self._count(field, inner)
                at = self.message(inner, at, end, depth + 1)
            elif kind == _BYTES:
                size, at = self._varint(at, end)
                if at >= 0 and inner is not None and at + size <= end:
                    self._count(field, inner)
                    if self.message(inner, at, at + size, depth + 1) < 0:
                        return -1
                at = at + size if at >= 0 else -1
            elif kind == _VARINT:
                _, at = self._varint(at, end)
            else:
                at += 8 if kind == _FIXED64 else 4
            if at < 0:
                return -1
        return at

    def _count(self, field: Any, inner: Any) -> None:
        if inner is not None and field.is_repeated:
            self._values += self._widths[inner.full_name]
            check_values(self._values)

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """Return a number and the index behind it; the index is -1 without an end."""
        value = shift = 0
        for place in range(at, min(at + _MAX_VARINT, end)):
            byte = self._payload[place]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, place + 1
            shift += 7
        return 0, -1
