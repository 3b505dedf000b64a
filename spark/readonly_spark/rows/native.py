"""Rows that the module in C decodes, in memory that Arrow gets without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from readonly_engine import native

from readonly_spark.rows.builder import ListRows, Rows, Taken, Wanted, indexes_array, joined_ids, no_properties
from readonly_spark.values.type_names import PROPERTIES, TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

_NATIVE: Final = native.load("readonly_spark.rows._decode")


class NativeRows:
    """Rows by the module in C; see ListRows.

    Args:
        wanted: the columns that are kept.
    """

    def __init__(self, wanted: Wanted) -> None:
        assert _NATIVE is not None
        self._rows = _NATIVE.Rows(
            values=wanted.values,
            keys=wanted.keys,
            properties=wanted.properties,
            times=wanted.times,
            sequence=wanted.sequence,
        )
        self.decode = self._rows.decode
        self.batch = self._rows.batch
        self.append = self._rows.append
        self.entry = self._rows.entry

    @property
    def count(self) -> int:
        """Rows whose entries were told."""
        return int(self._rows.count)

    @property
    def size(self) -> int:
        """What they take in bytes, about."""
        return int(self._rows.size)

    def take(self) -> Taken:
        """Give out all rows, and begin anew."""
        (
            rows, facts, spread, outside, batch_indexes, values, keys, ordering_keys, properties, event_times, sequence_ids,
        ) = self._rows.take()  # fmt: skip
        return Taken(
            rows=rows,
            facts=facts,
            spread=None if spread is None else _numbers(pa.int32(), rows, spread),
            batch_indexes=indexes_array(pa.py_buffer(batch_indexes), rows, outside=outside),
            values=_texts(pa.binary(), rows, values),
            keys=_texts(pa.binary(), rows, keys),
            ordering_keys=_texts(pa.binary(), rows, ordering_keys),
            properties=_maps(rows, properties),
            event_times=_times(rows, event_times),
            sequence_ids=_numbers(pa.int64(), rows, sequence_ids),
        )

    def message_ids(self, entries: list[str], taken: Taken, /) -> pa.Array:
        """Ids of messages as text, of what their entries have."""
        indexes = taken.batch_indexes
        if _NATIVE is None or indexes.null_count:
            return joined_ids(entries, taken)
        of_rows = None if taken.spread is None else taken.spread.buffers()[1]
        return _texts(pa.string(), taken.rows, _NATIVE.message_ids(entries, of_rows, indexes.buffers()[1]))


def _numbers(kind: pa.DataType, rows: int, block: Any) -> pa.Array:
    """A column of numbers; of one that is not wanted, whose memory is empty, nulls."""
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
        return no_properties(rows)
    pairs, offsets, keys, values = parts
    starts = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(offsets)])
    found = pa.MapArray.from_arrays(starts, _texts(pa.string(), pairs, keys), _texts(pa.string(), pairs, values))
    return found.cast(PROPERTIES)


def _times(rows: int, parts: tuple[int, Any, Any] | None) -> pa.Array:
    if parts is None:
        return pa.nulls(rows, TIMESTAMP)
    nulls, valid, data = parts
    return pa.Array.from_buffers(TIMESTAMP, rows, [pa.py_buffer(valid), pa.py_buffer(data)], nulls)


ROWS: Final[Callable[[Wanted], Rows]] = ListRows if _NATIVE is None else NativeRows
"""Makes rows: in C where that was built and is wanted, else in Python."""
