"""Splice: the shortcut of one topic from its owner's MESSAGEs to one client's consumer, in C only.

While messages are few, each costs a chain of Python calls through objects that no cache of the processor holds any more. A
splice has all that one delivery needs. A PushReader (wire/pushed.py) checks each entry, makes the client's MESSAGE of it, and
writes that to the client's socket: the entry is the next one, plain, and within the permits. Anything else stops the splice,
and goes the usual way. Python learns of many deliveries at once, later (broker/tail/tail_splice.py). No delivered entry is
cached but the last: only this consumer has read them. Without the C module there are no splices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from readonly_engine import native

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.wire.entry import Entry


class ReadableLedger(Protocol):
    """The ledger of the entries.

    Attributes:
        last_readable: the last delivered entry.
    """

    last_readable: int


class Splice(Protocol):
    """See the module.

    Attributes:
        fallback: gets the entries of MESSAGEs that must not take the shortcut, as other handlers.
        last: the last delivered entry, as the owner sent it; None since the last `take`.
        ledger_id: ledger of the last entry.
        entry_id: the last entry.
        running: whether MESSAGEs take the shortcut.
    """

    fallback: Callable[[list[Entry]], None]
    last: bytes | None
    ledger_id: int
    entry_id: int
    running: bool

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
    ) -> None:
        """Let MESSAGEs take the shortcut.

        Args:
            writer: the client's connection (DirectWriter), a key of the writes.
            ledger: its `last_readable` follows the entries.
            ledger_id: ledger of the last delivered entry.
            entry_id: the last delivered entry.
            consumer_id: the consumer's id on its connection.
            partition: index of the topic's partition, -1 for none.
            epoch: the consumer's epoch, -1 for none.
            exposed: whether to send the owner's own metadata, too.
            messages_left: number of messages that may be delivered.
            size_left: bytes of entries that may be delivered.
        """

    def stop(self) -> None:
        """Let no more MESSAGEs take the shortcut."""

    def take(self) -> tuple[bytes, int, int, int, int] | None:
        """Return, once, the last delivered entry, the number of entries, their messages and bytes, and the bytes of frames.

        None if nothing was delivered since the last call.
        """


_native: Any = native.load("readonly_engine.wire._entries")

make_splice: Final[Callable[[Callable[[list[Entry]], None]], Splice] | None] = (
    None if _native is None else _native.Splice
)
"""Makes a splice with its fallback; None without the C module."""
