"""The messages of a batch as columns, while they are decoded. Pure.

`ListRows` keeps them in lists. `native_rows.NativeRows` is its twin, in C: it writes the memory that Arrow gets, and takes usual
entries whole. Both are tested in the same way.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from readonly_spark.values.type_names import PROPERTIES, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_engine.wire.entry import Entry

ROW_BYTES: Final = 96
"""What a row costs beside its payload, about: to know when a batch is full."""

NO_INDEX: Final = -1
"""As the batch index of a message: it is in no batch."""

_MOST_MS: Final = ((1 << 63) - 1) // 1000
_MOST_INT64: Final = (1 << 63) - 1
_SIZE: Final = struct.Struct(">i")
_SIZE_BYTES: Final = 4
_PAYLOAD_SIZE_TAG: Final = 0x18
_SEQUENCE_ID_TAG: Final = 0x40
_CONTINUES: Final = 0x7F


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns of messages are kept.

    Attributes:
        values: payloads.
        keys: keys and ordering keys.
        properties: properties.
        times: event times.
        sequence: sequence ids.
    """

    values: bool = True
    keys: bool = True
    properties: bool = True
    times: bool = True
    sequence: bool = True


class Facts(NamedTuple):
    """What all messages of an entry share.

    Attributes:
        ledger_id: the ledger.
        entry_id: the entry.
        batch_size: messages of the batch; None for no batch.
        publish_time: ms since the epoch.
        broker_time: ms since the epoch, 0 for not noted.
        producer_name: the producer.
        schema_version: as it is stored; None for none.
        replicated_from: the cluster; None for this one.
        encryption: the value of the column of this name.
    """

    ledger_id: int
    entry_id: int
    batch_size: int | None
    publish_time: int
    broker_time: int
    producer_name: str
    schema_version: bytes | None
    replicated_from: str | None
    encryption: dict[str, Any] | None


class Taken(NamedTuple):
    """All rows, as Arrow's arrays; of a column that is not wanted nothing is to be relied on.

    Attributes:
        rows: how many.
        facts: of each entry, in the order of Facts.
        spread: for each row the number of its entry; None where each entry has one row.
        batch_indexes: null outside of a batch.
        values: payloads.
        keys: keys.
        ordering_keys: ordering keys.
        properties: maps.
        event_times: null for none, and for what no timestamp can be.
        sequence_ids: the producers' numbers.
    """

    rows: int
    facts: Sequence[tuple[Any, ...]]
    spread: pa.Array | None
    batch_indexes: pa.Array
    values: pa.Array
    keys: pa.Array
    ordering_keys: pa.Array
    properties: pa.Array
    event_times: pa.Array
    sequence_ids: pa.Array


class Rows(Protocol):
    """Rows under construction."""

    @property
    def count(self) -> int:
        """Rows whose entries were told."""

    @property
    def size(self) -> int:
        """What they take in bytes, about."""

    def decode(self, entries: list[Entry], start: int, most_bytes: int, refuse_transactions: bool, /) -> int:
        """Take entries from `start` on as long as they are usual.

        Args:
            entries: of one topic, in order.
            start: the first one.
            most_bytes: stop behind the entry with which `size` reaches this.
            refuse_transactions: whether messages of transactions are unusual.

        Returns:
            The index behind the last one that was taken. Where there is room left, the entry there is unusual.
        """

    def batch(self, body: bytes, count: int, first_sequence_id: int, /) -> bool:
        """Take the messages of a decompressed batch; False, and nothing is taken, where it is not a usual one."""

    def append(
        self,
        value: bytes | None,
        batch_index: int,
        key: bytes | None,
        ordering_key: bytes | None,
        properties: Mapping[str, str],
        event_time: int,
        sequence_id: int,
        /,
    ) -> None:
        """Take one message."""

    def entry(self, facts: Facts, /) -> None:
        """Say where the messages since the last call come from."""

    def take(self) -> Taken:
        """Give out all rows, and begin anew."""

    def message_ids(self, entries: list[str], taken: Taken, /) -> pa.Array:
        """Ids of messages as text: in a batch that of their entry, a colon and their place; else that of the entry.

        Args:
            entries: ids of the entries.
            taken: what was given out.
        """


class ListRows:
    """Rows in lists.

    Args:
        wanted: the columns that are kept.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.size = 0
        self._facts: list[Facts] = []
        self._counts: list[int] = []
        self._batch_indexes = array("i")
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self._ordering_keys: list[bytes | None] = []
        self._properties: list[Mapping[str, str]] = []
        self._event_times: list[int] = []
        self._sequence_ids: list[int] = []

    def decode(self, entries: list[Entry], start: int, most_bytes: int, refuse_transactions: bool, /) -> int:  # noqa: ARG002
        """No entry is usual here."""
        return start

    def append(
        self,
        value: bytes | None,
        batch_index: int,
        key: bytes | None,
        ordering_key: bytes | None,
        properties: Mapping[str, str],
        event_time: int,
        sequence_id: int,
        /,
    ) -> None:
        """Take one message."""
        wanted = self._wanted
        self._batch_indexes.append(batch_index)
        self.size += len(value or b"")
        if wanted.values:
            self._values.append(value)
        if wanted.keys:
            self._keys.append(key)
            self._ordering_keys.append(ordering_key)
            self.size += len(key or b"")
        if wanted.properties:
            self._properties.append(properties)
            self.size += sum(len(name) + len(text) for name, text in properties.items())
        if wanted.times:
            self._event_times.append(event_time)
        if wanted.sequence:
            self._sequence_ids.append(sequence_id)

    def batch(self, body: bytes, count: int, first_sequence_id: int, /) -> bool:
        """Take a batch whose messages have nothing but a payload and perhaps a sequence id: the most frequent by far."""
        wanted = self._wanted
        values: list[bytes | None] = []
        sequence_ids: list[int] = []
        append = values.append
        number = sequence_ids.append if wanted.sequence else None
        size_at = _SIZE.unpack_from
        position = 0
        try:
            for index in range(count):
                (size,) = size_at(body, position)
                at = position + _SIZE_BYTES
                end = at + size
                if size < 2 or body[at] != _PAYLOAD_SIZE_TAG:
                    return False
                length = body[at + 1]
                at += 2
                if length > _CONTINUES:
                    length &= _CONTINUES
                    shift = 7
                    while True:
                        byte = body[at]
                        at += 1
                        length |= (byte & _CONTINUES) << shift
                        if byte <= _CONTINUES:
                            break
                        shift += 7
                sequence_id = first_sequence_id + index
                if at < end:
                    if body[at] != _SEQUENCE_ID_TAG:
                        return False
                    at += 1
                    sequence_id = shift = 0
                    while True:
                        byte = body[at]
                        at += 1
                        sequence_id |= (byte & _CONTINUES) << shift
                        if byte <= _CONTINUES:
                            break
                        shift += 7
                if at != end or sequence_id > _MOST_INT64:
                    return False
                position = end + length
                append(body[end:position])
                if number is not None:
                    number(sequence_id)
        except (IndexError, struct.error):
            return False  # damaged: the careful way says how
        if position > len(body):
            return False
        self._batch_indexes.extend(array("i", range(count)))
        self.size += len(body)
        self._sequence_ids += sequence_ids
        if wanted.values:
            self._values += values
        if wanted.keys:
            self._keys += [None] * count
            self._ordering_keys += [None] * count
        if wanted.properties:
            self._properties += [{}] * count
        if wanted.times:
            self._event_times += [0] * count
        return True

    def entry(self, facts: Facts, /) -> None:
        """Say where the messages since the last call come from."""
        added = len(self._batch_indexes) - self.count
        if added:
            self.count += added
            self._counts.append(added)
            self._facts.append(facts)
            self.size += added * ROW_BYTES

    def take(self) -> Taken:
        """Give out all rows, and begin anew."""
        rows = self.count
        taken = Taken(
            rows=rows,
            facts=self._facts,
            spread=self._spread(),
            batch_indexes=indexes_array(pa.py_buffer(self._batch_indexes), rows, outside=min(self._batch_indexes) < 0),
            values=binary_array(self._values),
            keys=pa.array(self._keys, pa.binary()),
            ordering_keys=pa.array(self._ordering_keys, pa.binary()),
            properties=self._property_maps(),
            event_times=times_array(self._event_times),
            sequence_ids=pa.array(self._sequence_ids, pa.int64()),
        )
        self._clear()
        return taken

    def message_ids(self, entries: list[str], taken: Taken, /) -> pa.Array:
        """Ids of messages as text, of what their entries have."""
        return joined_ids(entries, taken)

    def _spread(self) -> pa.Array | None:
        if len(self._counts) == self.count:
            return None
        spread = array("i")
        for number, count in enumerate(self._counts):
            spread.extend(array("i", (number,)) * count)
        return pa.Array.from_buffers(pa.int32(), self.count, [None, pa.py_buffer(spread)])

    def _property_maps(self) -> pa.Array:
        if any(self._properties):
            return pa.array(self._properties, PROPERTIES)
        return no_properties(self.count)


_NO_INDEX: Final = pa.scalar(None, pa.int32())


def indexes_array(indexes: Any, rows: int, *, outside: bool) -> pa.Array:
    """Batch indexes.

    Args:
        indexes: their memory.
        rows: how many.
        outside: whether some are NO_INDEX.
    """
    found = pa.Array.from_buffers(pa.int32(), rows, [None, indexes])
    return pc.replace_with_mask(found, pc.less(found, 0), _NO_INDEX) if outside else found


def joined_ids(entries: list[str], taken: Taken) -> pa.Array:
    """As `Rows.message_ids`, by Arrow."""
    ids = pa.array(entries, pa.string())
    whole = ids if taken.spread is None else ids.take(taken.spread)
    in_batch = taken.batch_indexes
    if in_batch.null_count == taken.rows:
        return whole
    with_index = pc.binary_join_element_wise(whole, pc.cast(in_batch, pa.string()), ":")
    return with_index if not in_batch.null_count else pc.coalesce(with_index, whole)


def no_properties(rows: int) -> pa.Array:
    """So many empty maps."""
    offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(bytes(4 * (rows + 1)))])
    return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.string()))


def binary_array(values: Sequence[bytes | None]) -> pa.Array:
    """Byte strings as one buffer and its offsets: a third of the time that Arrow takes for a list of objects."""
    try:
        data = b"".join(values)  # type: ignore[arg-type]
    except TypeError:  # some are None
        return pa.array(values, pa.binary())
    offsets = array("i", accumulate(map(len, values), initial=0))  # type: ignore[arg-type]
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def times_array(times: Sequence[int]) -> pa.Array:
    """Times in ms as timestamps; null for 0, and for what no timestamp can be."""
    if not any(times):
        return pa.nulls(len(times), TIMESTAMP)
    found = [time * 1000 if time and abs(time) <= _MOST_MS else None for time in times]
    return pa.array(found, pa.int64()).cast(TIMESTAMP)
