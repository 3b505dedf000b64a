"""Entries that an owner pushes: MESSAGEs decoded without the objects of Protocol Buffers.

    [int32 total][int32 command size][BaseCommand][entry as the owner sends it]

While messages are few, each arrives alone, and most of its cost is Python that no cache of the processor holds any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

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
    Spliced = tuple[dict[Any, list[bytes]], Splice]
    """Frames by the client's connection (`writer` of the splices), and the last splice that has delivered."""


def pure_decode_pushed(
    data: bytes, handlers: Mapping[int, Handler]
) -> tuple[None, list[tuple[Handler, list[Entry]]], int]:
    """Decode the MESSAGEs at the beginning of received bytes, as far as they are complete, plain, and of known consumers.

    A plain MESSAGE has a position and nothing else: no redelivery count, no unacked messages of a batch.

    Args:
        data: length-prefixed frames; the last one may be incomplete.
        handlers: a handler, or in C a splice, by consumer id.

    Returns:
        What splices have delivered, to be written before the handlers are called, None for nothing; handlers with their next
        entries, confirmed by the delivery; and the number of bytes that these MESSAGEs take. The rest takes the usual way.
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
    return None, runs, at


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


class _DecodePushed(Protocol):
    def __call__(
        self, data: bytes, handlers: dict[int, Any], /
    ) -> tuple[Spliced | None, list[tuple[Handler, list[Entry]]], int]: ...


_native = native.load("readonly_engine.wire._entries")

decode_pushed: Final[_DecodePushed] = pure_decode_pushed if _native is None else _native.decode_pushed
"""As `pure_decode_pushed`."""
