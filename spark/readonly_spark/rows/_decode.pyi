# What rows.ListRows does, in C, and usual entries whole.

from collections.abc import Mapping
from typing import Any

from readonly_engine.wire.entry import Entry

class Rows:
    def __init__(self, *, values: bool, keys: bool, properties: bool, times: bool, sequence: bool) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    def decode(self, entries: list[Entry], start: int, most_bytes: int, refuse_transactions: bool, /) -> int: ...
    def batch(self, body: bytes, count: int, first_sequence_id: int, /) -> bool: ...
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
    ) -> None: ...
    def entry(self, facts: tuple[Any, ...], /) -> None: ...
    # How many rows, then as in rows.Taken. Memory is given as objects with the buffer protocol, and None is a column of nulls.
    def take(self) -> tuple[Any, ...]: ...

# Of each row the text of its entry, a colon and its index; as `Rows.take` gives texts.
def message_ids(entries: list[str], spread: Any, indexes: Any, /) -> tuple[int, Any, Any, Any]: ...
