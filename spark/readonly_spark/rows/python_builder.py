"""The row builder in Python."""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from readonly_spark.rows.arrays import binary_array, empty_maps, indexes_array, joined_ids, times_array
from readonly_spark.rows.builder import ROW_BYTES, RowBatch
from readonly_spark.values.type_names import PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.wire.entry import Entry

    from readonly_spark.rows.builder import EntryHeader, Projection

_MAX_INT64: Final = (1 << 63) - 1
_SIZE: Final = struct.Struct(">i")
_SIZE_BYTES: Final = 4
_PAYLOAD_SIZE_TAG: Final = 0x18
_SEQUENCE_ID_TAG: Final = 0x40
_CONTINUES: Final = 0x7F


class PythonRowBuilder:
    """Collect rows in lists; see RowBuilder.

    Args:
        projection: the columns to build.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.size = 0
        self._headers: list[EntryHeader] = []
        self._counts: list[int] = []
        self._batch_indexes = array("i")
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self._ordering_keys: list[bytes | None] = []
        self._properties: list[Mapping[str, str]] = []
        self._event_times: list[int] = []
        self._sequence_ids: list[int] = []

    def append_entries(self, entries: list[Entry], start: int, max_bytes: int, refuse_transactions: bool, /) -> int:  # noqa: ARG002
        """Append nothing: every entry is decoded by `decode_entries`."""
        return start

    def append_message(
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
        """Append one message."""
        projection = self._projection
        self._batch_indexes.append(batch_index)
        self.size += len(value or b"")
        if projection.values:
            self._values.append(value)
        if projection.keys:
            self._keys.append(key)
            self._ordering_keys.append(ordering_key)
            self.size += len(key or b"")
        if projection.properties:
            self._properties.append(properties)
            self.size += sum(len(name) + len(text) for name, text in properties.items())
        if projection.times:
            self._event_times.append(event_time)
        if projection.sequence:
            self._sequence_ids.append(sequence_id)

    def append_batch(self, body: bytes, count: int, first_sequence_id: int, /) -> bool:
        """Append a batch whose messages have only a payload and perhaps a sequence id, as most messages do."""
        projection = self._projection
        values: list[bytes | None] = []
        sequence_ids: list[int] = []
        append = values.append
        number = sequence_ids.append if projection.sequence else None
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
                if at != end or sequence_id > _MAX_INT64:
                    return False
                position = end + length
                append(body[end:position])
                if number is not None:
                    number(sequence_id)
        except (IndexError, struct.error):
            return False  # damaged: the slow path raises the error
        if position > len(body):
            return False
        self._batch_indexes.extend(array("i", range(count)))
        self.size += len(body)
        self._sequence_ids += sequence_ids
        if projection.values:
            self._values += values
        if projection.keys:
            self._keys += [None] * count
            self._ordering_keys += [None] * count
        if projection.properties:
            self._properties += [{}] * count
        if projection.times:
            self._event_times += [0] * count
        return True

    def end_entry(self, header: EntryHeader, /) -> None:
        """Set the header of the messages since the last call."""
        added = len(self._batch_indexes) - self.count
        if added:
            self.count += added
            self._counts.append(added)
            self._headers.append(header)
            self.size += added * ROW_BYTES

    def finish(self) -> RowBatch:
        """Return all rows, and start anew."""
        rows = self.count
        batch = RowBatch(
            rows=rows,
            headers=self._headers,
            entry_of_row=self._entry_of_row(),
            batch_indexes=indexes_array(
                pa.py_buffer(self._batch_indexes), rows, unbatched=min(self._batch_indexes) < 0
            ),
            values=binary_array(self._values),
            keys=pa.array(self._keys, pa.binary()),
            ordering_keys=pa.array(self._ordering_keys, pa.binary()),
            properties=self._property_maps(),
            event_times=times_array(self._event_times),
            sequence_ids=pa.array(self._sequence_ids, pa.int64()),
        )
        self._clear()
        return batch

    def message_ids(self, entry_ids: list[str], batch: RowBatch, /) -> pa.Array:
        """Return message ids as text."""
        return joined_ids(entry_ids, batch)

    def _entry_of_row(self) -> pa.Array | None:
        if len(self._counts) == self.count:
            return None
        found = array("i")
        for number, count in enumerate(self._counts):
            found.extend(array("i", (number,)) * count)
        return pa.Array.from_buffers(pa.int32(), self.count, [None, pa.py_buffer(found)])

    def _property_maps(self) -> pa.Array:
        if any(self._properties):
            return pa.array(self._properties, PROPERTIES)
        return empty_maps(self.count)
