# What wire/bookie_v2.py, wire/entry.py and wire/entry_view.py do, in C. Entries are verified by CRC-32C.

from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from readonly_engine.wire.entry import Entry
from readonly_engine.wire.position import Position
from readonly_engine.wire.pushed import Splicing, Splitter
from readonly_engine.wire.splice import ReadableLedger

_View = TypeVar("_View", bound=EntryView)

class EntryView:
    ledger_id: int
    entry_id: int
    position: Position
    stored: bytes
    payload: bytes
    prefix: bytes
    size: int
    sticky_hash: int
    messages: int
    marker: bool
    deliver_at: int
    txn: tuple[int, int] | None
    aborts: bool
    chunk: tuple[str, int, int] | None
    _frames: dict[tuple[int, int, bool], bytes] | None
    def __new__(cls, entry: Entry) -> Self: ...

class Splice:
    fallback: Callable[[list[Entry]], None]
    last: bytes | None
    ledger_id: int
    entry_id: int
    running: bool
    def __new__(cls, fallback: Callable[[list[Entry]], None], /) -> Self: ...
    def start(
        self,
        writer: object,
        ledger: ReadableLedger,
        ledger_id: int,
        entry_id: int,
        consumer_id: int,
        partition: int,
        epoch: int,
        exposed: bool,
        messages_left: int,
        size_left: int,
        /,
    ) -> None: ...
    def stop(self) -> None: ...
    def take(self) -> tuple[bytes, int, int, int, int] | None: ...

class PushReader:
    splicing: Splicing | None
    responsive: bool
    def __new__(
        cls,
        rest: Callable[[bytes], None],
        handlers: dict[int, Callable[[list[Entry]], None] | Splice],
        splitter: Splitter,
        /,
    ) -> Self: ...
    def receive(self, data: bytes, /) -> None: ...

# CRC-32C of the bytes from `start` on, without a copy.
def checksum(data: bytes | memoryview, start: int, /) -> int: ...

# None where not all is sound.
def decode_entries(frame: bytes | memoryview, start: int, ledger_id: int, first: int) -> list[Entry] | None: ...
def decode_entry(body: bytes | memoryview, ledger_id: int, entry_id: int) -> Entry | None: ...
def encode_views(
    views: Sequence[EntryView],
    consumer_id: int,
    partition: int,
    epoch: int,
    redelivery_count: int = 0,
    exposed: bool = False,
) -> bytes: ...
def encode_pieces(
    views: Sequence[EntryView], consumer_id: int, partition: int, epoch: int, exposed: bool = False
) -> list[bytes | memoryview]: ...
def views_of_slots(views: Sequence[_View], slots: bytes, sticky: bool = False) -> list[_View]: ...
def summarize(views: Sequence[EntryView]) -> tuple[int, int, bool, bool]: ...
