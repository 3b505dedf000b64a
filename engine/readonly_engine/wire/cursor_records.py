"""Records of local cursors, as messages of a compacted topic: the last record of a key counts, and an empty one removes it.

The subscriptions of a topic are numbered in pages of PAGE. Key | value:

- `d|PAGE|TOPIC` | Definitions: the page's subscriptions, with names, properties and the positions at which they began.
- `m|PAGE|TOPIC` | MarkDeletes: their mark-delete positions.
- `a|PAGE|NUMBER|SEGMENT|TOPIC` | Acked: what one of them has acked after its mark-delete position, in segments of MAX_RANGES.

A subscription gets a new generation at its creation and at each reset of its cursor (SEEK). Generations are unique in the topic.
A position or an ack counts only if its generation is the current one, and within a generation acks only grow. So a mixture of
older and newer records never has an ack that was not sent, and no ack of before a SEEK hides an entry after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from readonly_engine.wire.cursor_records_pb2 import Acked, Definition, Definitions, MarkDeletes
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.position import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE: Final = 256
"""Subscriptions of a page. A page of mark-delete positions has some 3 KB."""

MAX_PAGES: Final = 4_096
"""Pages of a topic, so 1,048,576 subscriptions."""

MAX_RANGES: Final = 4_096
"""Ranges and batches in one record; ranges alone have up to 160 KB."""

MAX_SEGMENT_BYTES: Final = 1 << 20
"""Size at which a record of acks ends. A message of the source cluster may have 5 MB by default (maxMessageSize)."""

MAX_SEGMENTS: Final = 64
"""Records for the acks of one subscription. Acks above that are delivered again after a restart."""

Range = tuple[Position, Position]
Batch = tuple[Position, int]
_Parsed = TypeVar("_Parsed", bound=Message)


class SubscriptionDefinition(NamedTuple):
    """A subscription at its creation.

    Attributes:
        number: number within the page.
        name: the name.
        generation: its first generation.
        start: its first mark-delete position.
        created_ms: time of creation, ms since the epoch.
        properties: the application's properties.
    """

    number: int
    name: str
    generation: int
    start: Position
    created_ms: int = 0
    properties: tuple[tuple[str, str], ...] = ()


class PageDefinitions(NamedTuple):
    """The subscriptions of a page.

    Attributes:
        last_generation: the topic's highest generation at that time.
        subscriptions: the subscriptions.
        topic_created_ms: time of the topic's creation, ms since the epoch; 0 if unknown.
    """

    last_generation: int
    subscriptions: tuple[SubscriptionDefinition, ...]
    topic_created_ms: int = 0


class MarkDelete(NamedTuple):
    """The mark-delete position of a subscription.

    Attributes:
        number: number within the page.
        generation: generation of the cursor.
        position: every entry up to here is acked.
    """

    number: int
    generation: int
    position: Position


class AckedSegment(NamedTuple):
    """A segment of the acks of a subscription after its mark-delete position.

    Attributes:
        generation: generation of the cursor.
        ranges: ranges (lower, upper] of complete entries.
        batches: partly acked batches, with the bits of their unacked messages.
    """

    generation: int
    ranges: tuple[Range, ...]
    batches: tuple[tuple[Position, int], ...]


class RecordKey(NamedTuple):
    """Key of a record.

    Attributes:
        kind: `d`, `m` or `a`.
        page: number of the page.
        topic: name of the topic.
        number: of `a`: the subscription within the page.
        segment: of `a`: the segment.
    """

    kind: str
    page: int
    topic: str
    number: int = 0
    segment: int = 0


DEFINITIONS: Final = "d"
MARK_DELETES: Final = "m"
ACKED: Final = "a"


def encode_key(key: RecordKey) -> str:
    """Encode the key of a record."""
    numbers = (key.page, key.number, key.segment) if key.kind == ACKED else (key.page,)
    return "|".join((key.kind, *map(str, numbers), key.topic))


def decode_key(text: str) -> RecordKey:
    """Decode the key of a record.

    Raises:
        MalformedFrameError: not a key of these records.
    """
    kind, _, rest = text.partition("|")
    count = {DEFINITIONS: 1, MARK_DELETES: 1, ACKED: 3}.get(kind)
    if count is None:
        raise MalformedFrameError(f"a record of cursors has the unknown key {text[:100]!r}")
    *numbers, topic = rest.split("|", count)
    limits = (MAX_PAGES, PAGE, MAX_SEGMENTS)
    if (
        len(numbers) != count
        or not topic
        or not all(
            number.isascii() and number.isdigit() and len(number) <= 10 and int(number) < limit
            for number, limit in zip(numbers, limits, strict=False)
        )
    ):
        raise MalformedFrameError(f"a record of cursors has the malformed key {text[:100]!r}")
    page, number, segment = (*map(int, numbers), 0, 0)[:3]
    return RecordKey(kind, page, topic, number, segment)


def encode_definitions(definitions: PageDefinitions) -> bytes:
    """Encode the subscriptions of a page."""
    encoded = Definitions(last_generation=definitions.last_generation)
    if definitions.topic_created_ms:
        encoded.topic_created_ms = definitions.topic_created_ms
    for one in definitions.subscriptions:
        found = encoded.subscriptions.add(
            number=one.number,
            name=one.name,
            generation=one.generation,
            ledger_id=one.start.ledger_id,
            entry_id=one.start.entry_id,
            created_ms=one.created_ms,
        )
        for key, value in one.properties:
            found.properties.add(key=key, value=value)
    return encoded.SerializeToString()


def decode_definitions(value: bytes) -> PageDefinitions:
    """Decode the subscriptions of a page.

    Raises:
        MalformedFrameError: not such a record, or one with a number beyond its page.
    """
    decoded = _parse(Definitions(), value)
    subscriptions = tuple(map(_definition, decoded.subscriptions))
    if len({one.number for one in subscriptions}) != len(subscriptions):
        raise MalformedFrameError("a page of cursors has two subscriptions with one number")
    return PageDefinitions(decoded.last_generation, subscriptions, decoded.topic_created_ms)


def _definition(one: Definition) -> SubscriptionDefinition:
    _check_number(one.number)
    return SubscriptionDefinition(
        one.number,
        one.name,
        one.generation,
        Position(one.ledger_id, one.entry_id),
        one.created_ms,
        tuple((item.key, item.value) for item in one.properties),
    )


def encode_mark_deletes(marks: Sequence[tuple[int, int, Position]]) -> bytes:
    """Encode the mark-delete positions of a page, given as fields of a MarkDelete."""
    encoded = MarkDeletes()
    numbers, generations, positions = zip(*marks, strict=True) if marks else ((), (), ())
    ledger_ids, entry_ids = zip(*positions, strict=True) if positions else ((), ())
    encoded.number.extend(numbers)
    encoded.generation.extend(generations)
    encoded.ledger_id.extend(ledger_ids)
    encoded.entry_id.extend(entry_ids)
    return encoded.SerializeToString()


def decode_mark_deletes(value: bytes) -> list[MarkDelete]:
    """Decode the mark-delete positions of a page.

    Raises:
        MalformedFrameError: not such a record, or one with a number beyond its page.
    """
    decoded = _parse(MarkDeletes(), value)
    lists = (decoded.number, decoded.generation, decoded.ledger_id, decoded.entry_id)
    if len({len(one) for one in lists}) != 1:
        raise MalformedFrameError("a page of mark-delete positions has lists of different lengths")
    for number in decoded.number:
        _check_number(number)
    return [
        MarkDelete(number, generation, Position(ledger_id, entry_id))
        for number, generation, ledger_id, entry_id in zip(*lists, strict=True)
    ]


def split_acked(ranges: Sequence[Range], batches: Sequence[Batch]) -> list[tuple[Sequence[Range], Sequence[Batch]]]:
    """Return what each record of a subscription's acks has: at most MAX_SEGMENTS, of the first ranges and batches of the topic.

    Args:
        ranges: acked ranges, in order.
        batches: partly acked batches, with the bits of their unacked messages.
    """
    if not batches:
        last = min(len(ranges), MAX_SEGMENTS * MAX_RANGES)
        return [(ranges[begin : begin + MAX_RANGES], ()) for begin in range(0, last, MAX_RANGES)]
    rows: list[tuple[Position, Position | int]] = sorted([*ranges, *batches], key=lambda row: row[0])
    parts: list[tuple[list[Range], list[Batch]]] = [([], [])]
    count = 0
    for first, second in rows:
        if count >= MAX_RANGES:
            if len(parts) == MAX_SEGMENTS:
                break
            parts.append(([], []))
            count = 0
        if isinstance(second, int):
            parts[-1][1].append((first, second))
            count += 1 + _size(second) * MAX_RANGES // MAX_SEGMENT_BYTES
        else:
            parts[-1][0].append((first, second))
            count += 1
    return list(parts)


def encode_segment(generation: int, ranges: Sequence[Range], batches: Sequence[Batch]) -> bytes:
    """Encode one record of a subscription's acks."""
    segment = Acked(generation=generation)
    if ranges:
        lowers, uppers = zip(*ranges, strict=True)
        for ledger_ids, entry_ids, positions in (
            (segment.lower_ledger_id, segment.lower_entry_id, lowers),
            (segment.upper_ledger_id, segment.upper_entry_id, uppers),
        ):
            ledgers, entries = zip(*positions, strict=True)
            ledger_ids.extend(ledgers)
            entry_ids.extend(entries)
    for position, bits in batches:
        segment.batches.add(
            ledger_id=position.ledger_id, entry_id=position.entry_id, unacked=bits.to_bytes(_size(bits), "little")
        )
    return segment.SerializeToString()


def _size(bits: int) -> int:
    return (bits.bit_length() + 7) // 8


def decode_acked(value: bytes) -> AckedSegment:
    """Decode a segment of a subscription's acks.

    Raises:
        MalformedFrameError: not such a record.
    """
    decoded = _parse(Acked(), value)
    lists = (decoded.lower_ledger_id, decoded.lower_entry_id, decoded.upper_ledger_id, decoded.upper_entry_id)
    if len({len(one) for one in lists}) != 1:
        raise MalformedFrameError("acked ranges have lists of different lengths")
    ranges = tuple((Position(a, b), Position(c, d)) for a, b, c, d in zip(*lists, strict=True))
    batches = tuple(
        (Position(one.ledger_id, one.entry_id), int.from_bytes(one.unacked, "little")) for one in decoded.batches
    )
    return AckedSegment(decoded.generation, ranges, batches)


def _check_number(number: int) -> None:
    if number >= PAGE:
        raise MalformedFrameError(f"a page of cursors has the number {number}; the highest is {PAGE - 1}")


def _parse(message: _Parsed, value: bytes) -> _Parsed:
    try:
        message.ParseFromString(value)
    except DecodeError as error:
        raise MalformedFrameError(f"a record of cursors is no {type(message).__name__}") from error
    return message
