"""Arrow arrays from the lists and buffers of row builders. Pure."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from readonly_spark.values.type_names import TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_spark.rows.builder import RowBatch

_MAX_MS: Final = ((1 << 63) - 1) // 1000
_NO_INDEX: Final = pa.scalar(None, pa.int32())


def indexes_array(indexes: Any, rows: int, *, unbatched: bool) -> pa.Array:
    """Return batch indexes as an array.

    Args:
        indexes: a buffer of int32.
        rows: number of rows.
        unbatched: whether some are -1, which becomes null.
    """
    found = pa.Array.from_buffers(pa.int32(), rows, [None, indexes])
    return pc.replace_with_mask(found, pc.less(found, 0), _NO_INDEX) if unbatched else found


def joined_ids(entry_ids: list[str], batch: RowBatch) -> pa.Array:
    """Return message ids as RowBuilder.message_ids does, by Arrow's own functions."""
    ids = pa.array(entry_ids, pa.string())
    of_rows = ids if batch.entry_of_row is None else ids.take(batch.entry_of_row)
    in_batch = batch.batch_indexes
    if in_batch.null_count == batch.rows:
        return of_rows
    with_index = pc.binary_join_element_wise(of_rows, pc.cast(in_batch, pa.string()), ":")
    return with_index if not in_batch.null_count else pc.coalesce(with_index, of_rows)


def empty_maps(rows: int) -> pa.Array:
    """Return this many empty maps."""
    offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(bytes(4 * (rows + 1)))])
    return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.string()))


def binary_array(values: Sequence[bytes | None]) -> pa.Array:
    """Return byte strings as one buffer and its offsets, in a third of the time that Arrow takes for a list of objects."""
    try:
        data = b"".join(values)  # type: ignore[arg-type]
    except TypeError:  # some are None
        return pa.array(values, pa.binary())
    offsets = array("i", accumulate(map(len, values), initial=0))  # type: ignore[arg-type]
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def times_array(times: Sequence[int]) -> pa.Array:
    """Return times in ms as timestamps; null for 0, and for a time that a timestamp cannot hold."""
    if not any(times):
        return pa.nulls(len(times), TIMESTAMP)
    found = [time * 1000 if time and abs(time) <= _MAX_MS else None for time in times]
    return pa.array(found, pa.int64()).cast(TIMESTAMP)
