"""Asks an owner which messages of batches are acked: a consumer gets a few permits, and its messages have the bits. Pure.

No request of the protocol or of the admin API returns these bits, but each MESSAGE has them in `ack_set`
(AbstractBaseDispatcher.filterEntriesForConsumer). The payloads are dropped. Acks do not depend on the consumer that got an
entry, so entries that are pending there do no harm (measured).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.topic.position import Position
from readonly_engine.wire.bit_set import ack_set_bits
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.message import decode_stored

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import CommandMessage

FIRST_PERMITS: Final = 16
"""Permits before the size of the messages is known. An entry may exceed them, as at any consumer."""

MAX_PERMITS: Final = 256
"""Most permits at a time. A consumer cannot return permits, so the owner may send as many later messages in vain."""

PERMITS_BYTES: Final = 1 << 20
"""Bytes of messages that the unused permits may stand for, by the average so far."""

SEARCH_MESSAGES: Final = 1_000
"""Messages without bits after which the search ends: the default receiver queue of a client."""

MAX_MESSAGES: Final = 20_000
"""Messages after which the search ends in any case."""

MAX_BYTES: Final = 32 << 20
"""Bytes after which the search ends in any case."""


class PartialBatchQuery:
    """One search, in the order in which the owner sends entries: from its mark-delete position on.

    Args:
        last: last entry that consumers may read; the search ends there.
        search_messages: number of messages without bits after which it ends. Found bits extend it to SEARCH_MESSAGES.

    Attributes:
        batches: the partly acked batches, with the bits of their unacked messages.
        ended: whether the search has ended.
    """

    __slots__ = ("_bytes", "_granted", "_last", "_messages", "_search", "_without_bits", "batches", "ended")

    def __init__(self, last: Position, search_messages: int = SEARCH_MESSAGES) -> None:
        self._last = last
        self._search = search_messages
        self._messages = 0
        self._bytes = 0
        self._granted = 0
        self._without_bits = 0
        self.batches: list[tuple[Position, int]] = []
        self.ended = False

    def permits(self) -> int:
        """Return the permits to grant now; 0 while enough are unused, and after the end."""
        if self.ended or self._granted > 0:
            return 0
        room = MAX_PERMITS if self._messages else FIRST_PERMITS
        if self._bytes:
            room = min(room, PERMITS_BYTES * self._messages // self._bytes)
        permits = max(1, min(room, self._search - self._without_bits))
        self._granted += permits
        return permits

    def on_message(self, message: CommandMessage, payload: bytes) -> None:
        """Handle a MESSAGE of the owner; `payload` is the stored entry. After the end it is ignored."""
        if self.ended:
            return
        position = Position(message.message_id.ledger_id, message.message_id.entry_id)
        unacked = ack_set_bits(message.ack_set)
        messages = unacked.bit_count() or _messages(payload)
        self._granted -= messages
        self._messages += messages
        self._bytes += len(payload)
        if unacked:
            self.batches.append((position, unacked))
            self._without_bits, self._search = 0, SEARCH_MESSAGES
        else:
            self._without_bits += messages
        self.ended = (
            position >= self._last
            or self._without_bits >= self._search
            or self._messages >= MAX_MESSAGES
            or self._bytes >= MAX_BYTES
        )


def _messages(payload: bytes) -> int:
    """Return the number of messages of a stored entry; 1 if it cannot be parsed."""
    try:
        return max(1, decode_stored(payload).messages)
    except WireError:
        return 1
