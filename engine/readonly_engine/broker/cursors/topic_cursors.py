"""The local cursors of one topic, and the records that store their changes. A pure state machine.

The records are in wire/cursor_records.py. Each list of changes is in the order in which it must be stored. A broker may die after
any record. Then nothing counts as acked that was not acked since the cursor's last move. Later acks are lost, and their messages
are delivered again.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.cursors.local_cursor import LocalCursor
from readonly_engine.topic.position import Position, PositionRanges
from readonly_engine.wire.cursor_records import (
    ACKED,
    DEFINITIONS,
    MARK_DELETES,
    MAX_PAGES,
    PAGE,
    MarkDelete,
    PageDefinitions,
    RecordKey,
    SubscriptionDefinition,
    decode_acked,
    decode_definitions,
    decode_key,
    decode_mark_deletes,
    encode_definitions,
    encode_key,
    encode_mark_deletes,
    encode_segment,
    split_acked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from readonly_engine.wire.cursor_records import AckedSegment, Range


MAX_DEFINITION_BYTES: Final = 8 << 10
"""Bound of a subscription's name and properties: a page of them is one message, which may have 5 MB by default."""


class CursorLimitError(Exception):
    """A subscription exceeds a limit of local cursors."""


class TopicCursors:
    """The local cursors of one topic.

    Args:
        topic: name of the topic.

    Attributes:
        topic: as above.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._created_ms = 0
        self._by_name: dict[str, LocalCursor] = {}
        self._pages: list[dict[int, LocalCursor]] = []  # the cursors of each page by their numbers
        self._last_generation = 0
        self._free: list[tuple[int, int]] = []  # heap of (page, number) below the end of the last page
        self._redefined: set[int] = set()
        self._changed: dict[LocalCursor, None] = {}
        self._removed: dict[RecordKey, None] = {}  # records of acks without a subscription

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[LocalCursor]:
        return iter(self._by_name.values())

    def find(self, name: str) -> LocalCursor | None:
        """Return the cursor of a subscription; None without one."""
        return self._by_name.get(name)

    @property
    def slowest(self) -> Position | None:
        """The lowest mark-delete position; None without a subscription.

        Right after `take_changes`, nothing before it is needed any more, as soon as those changes are stored.
        """
        return min((cursor.mark_delete for cursor in self), default=None)

    @property
    def created_ms(self) -> int:
        """When the topic of these subscriptions was created, ms since the epoch; 0 if unknown."""
        return self._created_ms

    def created(self, created_ms: int) -> None:
        """Set when the topic was created."""
        if created_ms != self._created_ms:
            self._created_ms = created_ms
            self._redefined.update(page for page, cursors in enumerate(self._pages) if cursors)

    @property
    def has_changes(self) -> bool:
        """Whether `take_changes` has something to return."""
        return bool(self._redefined or self._changed or self._removed)

    # Changes

    def create(
        self, name: str, start: Position, created_ms: int = 0, properties: Sequence[tuple[str, str]] = ()
    ) -> LocalCursor:
        """Create a subscription that does not exist.

        Args:
            name: the name.
            start: its mark-delete position.
            created_ms: the time, ms since the epoch.
            properties: the application's properties.

        Raises:
            CursorLimitError: the name and the properties are too long, or the topic has too many subscriptions.
        """
        if name in self._by_name:
            raise ValueError(f"the subscription {name} exists")
        _check_size(name, properties)
        if not self._free and len(self._by_name) >= MAX_PAGES * PAGE:
            raise CursorLimitError(f"{self.topic} has {len(self._by_name):,} local subscriptions, and may have no more")
        page, number = heappop(self._free) if self._free else self._new_place()
        self._last_generation += 1
        definition = SubscriptionDefinition(number, name, self._last_generation, start, created_ms, tuple(properties))
        cursor = self._pages[page][number] = self._by_name[name] = LocalCursor(page, definition)
        self._redefined.add(page)
        return cursor

    def delete(self, cursor: LocalCursor) -> None:
        """Delete a subscription."""
        number = cursor.definition.number
        del self._by_name[cursor.name], self._pages[cursor.page][number]
        self._changed.pop(cursor, None)
        self._redefined.add(cursor.page)
        for segment in range(cursor.segments):
            self._removed[self._acked_key(cursor, segment)] = None
        heappush(self._free, (cursor.page, number))

    def set_properties(self, cursor: LocalCursor, properties: Sequence[tuple[str, str]]) -> None:
        """Replace the application's properties.

        Raises:
            CursorLimitError: they are too long.
        """
        _check_size(cursor.name, properties)
        cursor.definition = cursor.definition._replace(properties=tuple(properties))
        self._redefined.add(cursor.page)

    def reset(
        self,
        cursor: LocalCursor,
        mark_delete: Position,
        batches: Iterable[tuple[Position, int]] = (),
        ranges: Iterable[Range] = (),
    ) -> None:
        """Move a cursor back or forth: all acks of before are void. A served cursor must be replaced by the caller.

        Args:
            cursor: the cursor.
            mark_delete: its new mark-delete position.
            batches: partly acked batches after it, with the bits of their unacked messages.
            ranges: acked ranges after it.
        """
        self._last_generation += 1
        cursor.generation = self._last_generation
        cursor.mark_delete, cursor.ranges, cursor.batches = mark_delete, tuple(ranges), tuple(batches)
        cursor.served = None
        self._changed[cursor] = None

    def expire(self, cursor: LocalCursor, mark_delete: Position) -> None:
        """Ack everything up to a position for a subscription without consumers."""
        if mark_delete > cursor.mark_delete:
            cursor.mark_delete = mark_delete
            cursor.ranges = tuple(
                (max(lower, mark_delete), upper) for lower, upper in cursor.ranges if upper > mark_delete
            )
            cursor.batches = tuple((position, bits) for position, bits in cursor.batches if position > mark_delete)
            self._changed[cursor] = None

    def acked(self, cursor: LocalCursor) -> None:
        """Record that the served cursor has changed. This is called for each ack."""
        self._changed[cursor] = None

    def released(self, cursor: LocalCursor) -> None:
        """Copy the state of the served cursor, which is not used any more."""
        cursor.refresh()
        cursor.served = None
        self._changed[cursor] = None

    # Records

    def take_changes(self) -> list[tuple[str, bytes]]:
        """Return the records since the last call, in the order in which they must be stored; b"" removes a key."""
        return [(key, value if isinstance(value, bytes) else value()) for key, value in self.begin_changes()]

    def begin_changes(self) -> list[tuple[str, bytes | Callable[[], bytes]]]:
        """Return the records as `take_changes`; a record of acks is made by a call, which later changes do not affect.

        One subscription may have 64 such records, each of which takes milliseconds.
        """
        records: dict[str, bytes | Callable[[], bytes]] = {
            self._key(DEFINITIONS, page): self._definitions(page) for page in sorted(self._redefined)
        }
        changed, removed = self._changed, self._removed
        self._redefined, self._changed, self._removed = set(), {}, {}
        for cursor in changed:
            cursor.refresh()
        for page in sorted({cursor.page for cursor in changed}):
            marks = [(number, cursor.generation, cursor.mark_delete) for number, cursor in self._pages[page].items()]
            records[self._key(MARK_DELETES, page)] = encode_mark_deletes(marks)
        for cursor in changed:
            if cursor.segments or cursor.ranges or cursor.batches:
                records.update(self._acks(cursor))
        if not self._by_name:
            # Without records a topic is as new. A crash leaves at worst mark-deletes, which `restore` removes.
            records.update(
                (self._key(kind, page), b"") for kind in (DEFINITIONS, MARK_DELETES) for page in range(len(self._pages))
            )
            self._pages, self._free = [], []
        for key in removed:
            records.setdefault(encode_key(key), b"")  # unless the place has acks of a new subscription
        return list(records.items())

    def _acks(self, cursor: LocalCursor) -> Iterator[tuple[str, bytes | Callable[[], bytes]]]:
        """Yield the records of a cursor's acks, and remove those that it no longer has."""
        parts = split_acked(cursor.ranges, cursor.batches)
        before, cursor.segments = cursor.segments, len(parts)
        for segment, part in enumerate(parts):
            yield encode_key(self._acked_key(cursor, segment)), partial(encode_segment, cursor.generation, *part)
        for segment in range(cursor.segments, before):
            yield encode_key(self._acked_key(cursor, segment)), b""

    def _definitions(self, page: int) -> bytes:
        definitions = tuple(cursor.definition for cursor in self._pages[page].values())
        return encode_definitions(PageDefinitions(self._last_generation, definitions, self._created_ms))

    def _key(self, kind: str, page: int) -> str:
        return encode_key(RecordKey(kind, page, self.topic))

    def _acked_key(self, cursor: LocalCursor, segment: int) -> RecordKey:
        return RecordKey(ACKED, cursor.page, self.topic, cursor.definition.number, segment)

    def _new_place(self) -> tuple[int, int]:
        if not self._pages or len(self._pages[-1]) == PAGE:
            self._pages.append({})
        return len(self._pages) - 1, len(self._pages[-1])

    # Restoring

    def restore(self, records: Iterable[tuple[RecordKey, bytes]]) -> None:
        """Restore the state from the last records of all keys of this topic.

        Raises:
            MalformedFrameError: a record is damaged.
        """
        acked: list[tuple[RecordKey, AckedSegment]] = []
        marks: list[tuple[int, MarkDelete]] = []
        for key, value in records:
            if key.kind == ACKED:
                acked.append((key, decode_acked(value)))
            elif key.kind == MARK_DELETES:
                marks += ((key.page, mark) for mark in decode_mark_deletes(value))
            else:
                self._restore_page(key.page, decode_definitions(value))
        self._restore_marks(marks)
        self._restore_acked(acked)
        for page in {page for page, _ in marks if page >= len(self._pages) or not self._pages[page]}:
            self._removed[RecordKey(MARK_DELETES, page, self.topic)] = None
        if not self._by_name:
            self._redefined.update(range(len(self._pages)))  # the records of empty pages go
        self._free = [
            (page, number)
            for page, cursors in enumerate(self._pages)
            for number in range(PAGE if page < len(self._pages) - 1 else max(cursors, default=-1) + 1)
            if number not in cursors
        ]

    def _restore_page(self, page: int, definitions: PageDefinitions) -> None:
        self._pages += [{} for _ in range(len(self._pages), page + 1)]
        self._last_generation = max(self._last_generation, definitions.last_generation)
        if definitions.subscriptions and definitions.topic_created_ms:
            # Two times mean that a broker died between two records. The earlier one is compared with the topic again.
            self._created_ms = min(self._created_ms or definitions.topic_created_ms, definitions.topic_created_ms)
        for definition in definitions.subscriptions:
            cursor, other = LocalCursor(page, definition), self._by_name.get(definition.name)
            if other is not None:
                # It was deleted and created again in another page, and its broker died between the two records.
                old, cursor = sorted((cursor, other), key=lambda one: one.generation)
                self._pages[old.page].pop(old.definition.number, None)
                self._redefined.add(old.page)
            self._pages[cursor.page][cursor.definition.number] = self._by_name[cursor.name] = cursor

    def _restored(self, page: int, number: int) -> LocalCursor | None:
        return self._pages[page].get(number) if page < len(self._pages) else None

    def _restore_marks(self, marks: Iterable[tuple[int, MarkDelete]]) -> None:
        for page, mark in marks:
            self._last_generation = max(self._last_generation, mark.generation)
            cursor = self._restored(page, mark.number)
            if cursor is not None and mark.generation >= cursor.generation:
                cursor.generation, cursor.mark_delete = mark.generation, mark.position

    def _restore_acked(self, segments: Iterable[tuple[RecordKey, AckedSegment]]) -> None:
        found: dict[LocalCursor, tuple[PositionRanges, dict[Position, int]]] = {}
        for key, segment in segments:
            self._last_generation = max(self._last_generation, segment.generation)
            cursor = self._restored(key.page, key.number)
            if cursor is None:
                self._removed[key] = None
                continue
            cursor.segments = max(cursor.segments, key.segment + 1)
            if segment.generation == cursor.generation:
                ranges, batches = found.setdefault(cursor, (PositionRanges(), {}))
                ranges.add_ranges((max(lower, cursor.mark_delete), upper) for lower, upper in segment.ranges)
                for position, unacked in segment.batches:
                    batches[position] = unacked & batches.get(position, unacked)
        for cursor, (ranges, batches) in found.items():
            cursor.ranges = tuple(ranges)
            cursor.batches = tuple(
                (position, unacked)
                for position, unacked in batches.items()
                if position > cursor.mark_delete and position not in ranges and unacked
            )


def _check_size(name: str, properties: Sequence[tuple[str, str]]) -> None:
    size = len(name.encode()) + sum(len(key.encode()) + len(value.encode()) + 8 for key, value in properties)
    if size > MAX_DEFINITION_BYTES:
        raise CursorLimitError(
            f"the name and the properties of the subscription {name[:100]!r} have {size} bytes; a local subscription may have"
            f" {MAX_DEFINITION_BYTES}"
        )


def by_topic(records: Iterable[tuple[str, bytes]]) -> dict[str, dict[RecordKey, bytes]]:
    """Return the last records of all keys by topic, from messages of the compacted topic in order.

    Raises:
        MalformedFrameError: a message is no such record.
    """
    found: dict[str, dict[RecordKey, bytes]] = {}
    for text, value in records:
        key = decode_key(text)
        of_topic = found.setdefault(key.topic, {})
        of_topic.pop(key, None)
        if value:
            of_topic[key] = value
        elif not of_topic:
            del found[key.topic]
    return found
