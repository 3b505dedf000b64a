"""The row builder in C: it decodes simple entries, and hands its memory to Arrow without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from readonly_engine import native

from readonly_spark.rows.arrays import empty_maps, indexes_array, joined_ids
from readonly_spark.rows.builder import Projection, RowBatch, RowBuilder
from readonly_spark.rows.python_builder import PythonRowBuilder
from readonly_spark.values.type_names import PROPERTIES, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

_NATIVE: Final = native.load("readonly_spark.rows._decode")


class NativeRowBuilder:
    """Collect rows in C; see RowBuilder.

    Args:
        projection: the columns to build.
    """

    def __init__(self, projection: Projection) -> None:
        assert _NATIVE is not None
        self._builder = _NATIVE.RowBuilder(
            values=projection.values,
            keys=projection.keys,
            properties=projection.properties,
            times=projection.times,
            sequence=projection.sequence,
        )
        self.append_entries = self._builder.append_entries
        self.append_batch = self._builder.append_batch
        self.append_message = self._builder.append_message
        self.end_entry = self._builder.end_entry

    @property
    def count(self) -> int:
        """Rows of the entries that were ended."""
        return int(self._builder.count)

    @property
    def size(self) -> int:
        """Estimated bytes of these rows."""
        return int(self._builder.size)

    def finish(self) -> RowBatch:
        """Return all rows, and start anew."""
        (
            rows, headers, entry_of_row, unbatched, batch_indexes, values, keys, ordering_keys, properties, event_times,
            sequence_ids,
        ) = self._builder.finish()  # fmt: skip
        return RowBatch(
            rows=rows,
            headers=headers,
            entry_of_row=None if entry_of_row is None else _numbers(pa.int32(), rows, entry_of_row),
            batch_indexes=indexes_array(pa.py_buffer(batch_indexes), rows, unbatched=unbatched),
            values=_texts(pa.binary(), rows, values),
            keys=_texts(pa.binary(), rows, keys),
            ordering_keys=_texts(pa.binary(), rows, ordering_keys),
            properties=_maps(rows, properties),
            event_times=_times(rows, event_times),
            sequence_ids=_numbers(pa.int64(), rows, sequence_ids),
        )

    def message_ids(self, entry_ids: list[str], batch: RowBatch, /) -> pa.Array:
        """Return message ids as text."""
        indexes = batch.batch_indexes
        if _NATIVE is None or indexes.null_count:
            return joined_ids(entry_ids, batch)
        entry_of_row = None if batch.entry_of_row is None else batch.entry_of_row.buffers()[1]
        return _texts(pa.string(), batch.rows, _NATIVE.message_ids(entry_ids, entry_of_row, indexes.buffers()[1]))


def _numbers(kind: pa.DataType, rows: int, block: Any) -> pa.Array:
    """Return a column of numbers; nulls for a column outside of the projection, whose memory is empty."""
    buffer = pa.py_buffer(block)
    return pa.Array.from_buffers(kind, rows, [None, buffer]) if buffer.size else pa.nulls(rows, kind)


def _texts(kind: pa.DataType, rows: int, parts: tuple[int, Any, Any, Any] | None) -> pa.Array:
    if parts is None:
        return pa.nulls(rows, kind)
    nulls, valid, offsets, data = parts
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, rows, buffers, nulls)


def _maps(rows: int, parts: tuple[int, Any, Any, Any] | None) -> pa.Array:
    if parts is None:
        return empty_maps(rows)
    pairs, offsets, keys, values = parts
    starts = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(offsets)])
    found = pa.MapArray.from_arrays(starts, _texts(pa.string(), pairs, keys), _texts(pa.string(), pairs, values))
    return found.cast(PROPERTIES)


def _times(rows: int, parts: tuple[int, Any, Any] | None) -> pa.Array:
    if parts is None:
        return pa.nulls(rows, TIMESTAMP)
    nulls, valid, data = parts
    return pa.Array.from_buffers(TIMESTAMP, rows, [pa.py_buffer(valid), pa.py_buffer(data)], nulls)


ROW_BUILDER: Final[Callable[[Projection], RowBuilder]] = PythonRowBuilder if _NATIVE is None else NativeRowBuilder
"""The default row builder: in C if the module was built and is not disabled."""
