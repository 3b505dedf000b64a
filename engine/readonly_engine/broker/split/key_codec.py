"""Reports and grants of a split Key_Shared subscription as bytes, as in `codec.py`."""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.dispatch.key_selectors import RANGE
from readonly_engine.broker.dispatch.leased_keys import ALL_SLOTS
from readonly_engine.broker.split.codec import VERSION, Numbers, encode_runs
from readonly_engine.broker.split.keys import (
    MAX_ALL_PENDING,
    MAX_CONSUMERS,
    MAX_HASH_RANGES,
    MAX_LOCAL_CONSUMERS,
    MAX_LOCAL_HASH_RANGES,
    MAX_NAME_BYTES,
    MAX_PENDING,
    KeyConsumer,
    KeyGrant,
    KeyReport,
    LocalConsumer,
)
from readonly_engine.broker.split.leases import MAX_MEMBERS
from readonly_engine.topic.position import Position
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_MEMBER_BYTES: Final = 1_000
"""Length of a member's name, the URL of its broker."""

_NO_CONSUMERS, _NO_RANGES, _RANGES = range(3)
"""Whether the consumers follow, and whether each has its ranges of hashes. Brokers without those get none: see KeyPolicy."""

_BITMAP_BYTES: Final = (ALL_SLOTS.bit_length() + 7) // 8
_MS: Final = 1000


def encode_key_report(report: KeyReport) -> str:
    """Return a report as text."""
    held, consumers = report.held, report.consumers
    encoded = [
        _numbers(
            VERSION,
            report.epoch,
            report.number,
            int(held is not None),
            _kind_of(consumers),
            int(report.indivisible),
        ),
        _slots(report.released if held is None else held),
    ]
    if consumers is not None:
        encoded.append(_numbers(len(consumers)))
        encoded += [_numbers(one.number) + _raw(one.name.encode()) for one in consumers]
        encoded.append(_ranges(consumers))
    encoded += [encode_runs(report.counts), _positions(report.pending)]
    return base64.b64encode(b"".join(encoded)).decode()


def decode_key_report(text: str) -> KeyReport:
    """Return the report in a text.

    Raises:
        MalformedFrameError: the bytes are none, or exceed a limit.
    """
    try:
        numbers = Numbers(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise MalformedFrameError("a report of a member is no base64") from error
    epoch, number, has_held, has_consumers, indivisible = (numbers.next() for _ in range(5))
    slots = _read_slots(numbers)
    consumers = None
    if has_consumers:
        count = _count(numbers, MAX_LOCAL_CONSUMERS, "consumers of a member")
        consumers = tuple(LocalConsumer(numbers.next(), _text(numbers, MAX_NAME_BYTES)) for _ in range(count))
        if has_consumers == _RANGES:
            read = _read_ranges(numbers, count, MAX_LOCAL_HASH_RANGES)
            consumers = tuple(one._replace(ranges=ranges) for one, ranges in zip(consumers, read, strict=True))
    counts, pending = numbers.runs(), _read_positions(numbers, MAX_PENDING)
    numbers.end()
    released, held = (0, slots) if has_held else (slots, None)
    return KeyReport(epoch, number, consumers, released, held, bool(indivisible), counts, pending)


def encode_key_grant(grant: KeyGrant) -> bytes:
    """Return a grant as bytes."""
    encoded = [_numbers(VERSION, grant.epoch, grant.number, int(grant.valid_s * _MS), _kind_of(grant.consumers))]
    if grant.consumers is not None:
        members = {name: number for number, name in enumerate(dict.fromkeys(one.member for one in grant.consumers))}
        encoded += [_slots(grant.slots), _numbers(len(members))]
        encoded += [_raw(name.encode()) for name in members]
        encoded.append(_numbers(len(grant.consumers)))
        for one in grant.consumers:
            encoded.append(_numbers(members[one.member], one.number, one.index) + _raw(one.name.encode()))
        encoded.append(_ranges(grant.consumers))
    encoded += [encode_runs(grant.counts), _positions(grant.pending)]
    return b"".join(encoded)


def decode_key_grant(encoded: bytes) -> KeyGrant:
    """Return the grant in bytes.

    Raises:
        MalformedFrameError: the bytes are none, or exceed a limit.
    """
    numbers = Numbers(encoded)
    epoch, number, valid_ms, has_slots = (numbers.next() for _ in range(4))
    consumers, slots = None, 0
    if has_slots:
        slots = _read_slots(numbers)
        count = _count(numbers, MAX_MEMBERS, "members of a subscription")
        members = [_text(numbers, MAX_MEMBER_BYTES) for _ in range(count)]
        count = _count(numbers, MAX_CONSUMERS, "consumers of a subscription")
        consumers = tuple(_consumer(numbers, members) for _ in range(count))
        if has_slots == _RANGES:
            read = _read_ranges(numbers, count, MAX_HASH_RANGES)
            consumers = tuple(replace(one, ranges=ranges) for one, ranges in zip(consumers, read, strict=True))
    counts, pending = numbers.runs(), _read_positions(numbers, MAX_ALL_PENDING)
    numbers.end()
    return KeyGrant(epoch, number, valid_ms / _MS, consumers, slots, counts, pending)


def _consumer(numbers: Numbers, members: list[str]) -> KeyConsumer:
    member, number, index = (numbers.next() for _ in range(3))
    if member >= len(members):
        raise MalformedFrameError(f"a consumer of member {member} of a split subscription, there are {len(members)}")
    return KeyConsumer(members[member], number, _text(numbers, MAX_NAME_BYTES), index)


def _kind_of(consumers: Sequence[LocalConsumer | KeyConsumer] | None) -> int:
    if consumers is None:
        return _NO_CONSUMERS
    return _RANGES if any(one.ranges for one in consumers) else _NO_RANGES


def _ranges(consumers: Sequence[LocalConsumer | KeyConsumer]) -> bytes:
    """Return the ranges of hashes of consumers; nothing if they have none."""
    if _kind_of(consumers) != _RANGES:
        return b""
    encoded = (
        _numbers(len(one.ranges), *(number for first, last in one.ranges for number in (first, last - first)))
        for one in consumers
    )
    return b"".join(encoded)


def _read_ranges(numbers: Numbers, consumers: int, limit: int) -> list[tuple[tuple[int, int], ...]]:
    """Return the ranges of hashes of a number of consumers, which have `limit` of them at most."""
    found = []
    for _ in range(consumers):
        count = _count(numbers, limit, "more ranges of hashes")
        limit -= count
        found.append(tuple(_range(numbers) for _ in range(count)))
    return found


def _range(numbers: Numbers) -> tuple[int, int]:
    first, more = numbers.next(), numbers.next()
    if first + more >= RANGE:
        raise MalformedFrameError(f"a range of hashes from {first} to {first + more}, the last hash is {RANGE - 1}")
    return first, first + more


def _positions(positions: tuple[Position, ...] | None) -> bytes:
    """Return positions, at the end of the bytes; nothing for None."""
    if positions is None:
        return b""
    return _numbers(len(positions), *(number for position in positions for number in position))


def _read_positions(numbers: Numbers, limit: int) -> tuple[Position, ...] | None:
    if not numbers.more:
        return None
    count = _count(numbers, limit, "pending entries")
    return tuple(Position(numbers.next(), numbers.next()) for _ in range(count))


def _numbers(*numbers: int) -> bytes:
    return b"".join(map(encode_varint, numbers))


def _raw(value: bytes) -> bytes:
    return encode_varint(len(value)) + value


def _slots(slots: int) -> bytes:
    return _raw(slots.to_bytes((slots.bit_length() + 7) // 8, "little"))


def _read_slots(numbers: Numbers) -> int:
    slots = int.from_bytes(numbers.raw(_BITMAP_BYTES), "little")
    if slots & ~ALL_SLOTS:
        raise MalformedFrameError("slot 0 in leases of a split subscription, which is not used")
    return slots


def _count(numbers: Numbers, limit: int, things: str) -> int:
    count = numbers.next()
    if count > limit:
        raise MalformedFrameError(f"{count} {things}, at most {limit} are allowed")
    return count


def _text(numbers: Numbers, limit: int) -> str:
    try:
        return numbers.raw(limit).decode()
    except UnicodeDecodeError as error:
        raise MalformedFrameError("a name in leases of a split subscription is no UTF-8") from error
