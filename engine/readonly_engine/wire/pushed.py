"""Entries that an owner pushes: MESSAGEs decoded without the objects of Protocol Buffers.

    [int32 total][int32 command size][BaseCommand][entry as the owner sends it]

While messages are few, each arrives alone, and most of its cost is Python that no cache of the processor holds any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from readonly_engine import native
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES
from readonly_engine.wire.pulsar_pb2 import BaseCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from readonly_engine.wire.splice import Splice

    Handler = Callable[[list[Entry]], None]


def _decode_all(data: bytes, handlers: Mapping[int, Handler]) -> tuple[list[tuple[Handler, list[Entry]]], int]:
    """Decode the MESSAGEs at the beginning of received bytes, as far as they are complete, plain, and of known consumers.

    A plain MESSAGE has a position and nothing else: no redelivery count, no unacked messages of a batch.

    Args:
        data: length-prefixed frames; the last one may be incomplete.
        handlers: a handler by consumer id.

    Returns:
        Handlers with their next entries, confirmed by the delivery, and the number of bytes that these MESSAGEs take. The rest
        takes the usual way.
    """
    runs: list[tuple[Handler, list[Entry]]] = []
    at = 0
    while (found := _decode(data, at)) is not None:
        consumer_id, entry, end = found
        handler = handlers.get(consumer_id)
        if handler is None:
            break
        if runs and runs[-1][0] is handler:
            runs[-1][1].append(entry)
        else:
            runs.append((handler, [entry]))
        at = end
    return runs, at


def _usual_end(data: bytes, at: int, handlers: Mapping[int, Handler]) -> int:
    """Return the end of frames that take the usual way, the first of which is at `at`."""
    while handlers and len(data) - at >= LENGTH_BYTES:
        at += LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")
        if (found := _decode(data, at)) is not None and found[0] in handlers:
            return at
    return len(data)


def _decode(data: bytes, at: int) -> tuple[int, Entry, int] | None:
    """Decode a plain MESSAGE; return its consumer id, its entry and its end."""
    end = at + LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "big")
    if len(data) - at < 2 * LENGTH_BYTES or end > len(data):
        return None
    frame = data[at + LENGTH_BYTES : end]
    try:
        command, size = decode_command(frame)
    except MalformedFrameError:
        return None
    message = command.message
    where = message.message_id
    plain = BaseCommand(type=BaseCommand.MESSAGE)
    plain.message.consumer_id = message.consumer_id
    plain.message.message_id.ledger_id, plain.message.message_id.entry_id = where.ledger_id, where.entry_id
    if where.HasField("partition"):
        plain.message.message_id.partition = where.partition
    if plain != command or min(where.ledger_id, where.entry_id) < 0:
        return None
    return message.consumer_id, Entry(where.ledger_id, where.entry_id, where.entry_id, 0, frame[size:]), end


class Splitter(Protocol):
    """What splits the received bytes that take the usual way.

    Attributes:
        partial: whether the next bytes belong to a frame that has arrived in part.
        missing: number of those bytes, at least 1, as far as it is known: the frame's length may have arrived in part, too.
    """

    partial: bool

    @property
    def missing(self) -> int:
        """See above."""


class Splicing(Protocol):
    """Surrounds the deliveries of splices (broker/tail/splicing.py). The reader in C tests two attributes before it calls it.

    Attributes:
        guard: its `check_due` is called before entries are decoded, if `due` has passed (`lease_time`).
        latency: if it is `due`, `deliver` is called, also without frames.
    """

    guard: Any
    latency: Any

    def deliver(self, writes: dict[Any, list[bytes]], last: Splice) -> None:
        """Write frames to the clients, before any other entry is handled.

        Args:
            writes: frames by the client's connection, without those that its socket has taken.
            last: the last splice that has made one.
        """


class PushReader(Protocol):
    """Delivers the plain MESSAGEs in the bytes that an owner sends, and passes the other frames on, in order.

    A frame that had arrived in part is passed on, too. So of a burst one MESSAGE for each receive takes the usual way.

    Attributes:
        splicing: surrounds the deliveries of splices; None before the first one.
        responsive: set by each `receive`.
    """

    splicing: Splicing | None
    responsive: bool

    def receive(self, data: bytes, /) -> None:
        """Handle received bytes. In C, frames of splices are written to the sockets of clients without any pending bytes."""


class PurePushReader:
    """PushReader in Python.

    Args:
        rest: gets the bytes of other frames.
        handlers: a handler of entries, or in C a splice, by consumer id.
        splitter: splits the bytes that `rest` gets.
    """

    __slots__ = ("_handlers", "_rest", "_splitter", "responsive", "splicing")

    def __init__(
        self, rest: Callable[[bytes], None], handlers: dict[int, Handler | Splice], splitter: Splitter, /
    ) -> None:
        self._rest = rest
        self._handlers = cast("dict[int, Handler]", handlers)
        self._splitter = splitter
        self.splicing: Splicing | None = None
        self.responsive = True

    def receive(self, data: bytes, /) -> None:
        """See PushReader."""
        self.responsive = True
        while data and self._handlers and self._splitter.partial:
            missing = self._splitter.missing
            self._rest(data[:missing])
            data = data[missing:]
        while data:
            runs, begin = _decode_all(data, self._handlers)
            for on_entries, entries in runs:
                on_entries(entries)
            end = _usual_end(data, begin, self._handlers)
            if begin < end:
                self._rest(data[begin:end])
            data = data[end:]


_native: Any = native.load("readonly_engine.wire._entries")

make_push_reader: Final[Callable[[Callable[[bytes], None], dict[int, Handler | Splice], Splitter], PushReader]] = (
    PurePushReader if _native is None else _native.PushReader
)
"""Makes a PushReader; see PurePushReader for its arguments."""
