# The row builder in C (see builder.py).

from collections.abc import Mapping
from typing import Any

from readonly_engine.wire.entry import Entry

class RowBuilder:
    def __init__(self, *, values: bool, keys: bool, properties: bool, times: bool, sequence: bool) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    def append_entries(self, entries: list[Entry], start: int, max_bytes: int, refuse_transactions: bool, /) -> int: ...
    def append_batch(self, body: bytes, count: int, first_sequence_id: int, /) -> bool: ...
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
    ) -> None: ...
    def end_entry(self, header: tuple[Any, ...], /) -> None: ...
    # The number of rows, then the fields of builder.RowBatch as objects with the buffer protocol; None is a column of nulls.
    def finish(self) -> tuple[Any, ...]: ...

# For each row the id of its entry, a colon and the batch index; in the form of the texts of RowBuilder.finish.
def message_ids(entries: list[str], entry_of_row: Any, indexes: Any, /) -> tuple[int, Any, Any, Any]: ...
