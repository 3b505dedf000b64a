"""Acks of one consumer at the owner broker: unanswered acks, and acks that a dying owner may have lost."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.owner.grouped_acks import ack_of_entries
from readonly_engine.owner.recent_acks import RecentAcks
from readonly_engine.owner.responses import ResponseAggregator
from readonly_engine.topic.position import Position
from readonly_engine.wire.acks import split_ack
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.grouped_acks import GroupedAckSender

# Constants of the module: a lookup through the message class takes longer than the rest of the comparison.
_CUMULATIVE, _ERROR = CommandAck.Cumulative, BaseCommand.ERROR


_NONE: Final[dict[int, CommandAck | bytes]] = {}  # bytes: the ids of whole entries
"""The unanswered acks of consumers that have not acked; nothing is added here."""


class ReceiptHandler(Protocol):
    """Gets the answers to acks for which the client wants a receipt."""

    def on_owner_command(self, command: BaseCommand, payload: bytes) -> None:
        """Pass an answer to the client; it has the client's request id."""


class EntryGate(Protocol):
    """Knows which entries the owner counts: it answers acks of later ones, and ignores them (OwnerEnd)."""

    def counts(self, position: Position) -> bool:
        """Return whether an ack of an entry can be sent now."""

    def call_when_counted(self, position: Position, call: Callable[[], None]) -> None:
        """Call back when an ack of an entry can be sent."""


class ConsumerAcks:
    """Sends the acks of one consumer, and keeps each until the owner has answered it.

    An ack with a request id waits until the owner counts its entries, because a client trusts the answer.

    Args:
        receipts: gets the answers to acks that have a request id.
        keep_answered: whether to remember the acks that the owner has answered recently.

    Attributes:
        gate: knows which entries the owner counts; None to send every ack at once.
        grouped: the sender that the subscription's consumers share; None without one. What it holds goes before an ack of here.
    """

    __slots__ = (
        "_connection",
        "_consumer_id",
        "_drained",
        "_last_cumulative",
        "_last_number",
        "_receipts",
        "_recent",
        "_unanswered",
        "_waiting",
        "gate",
        "grouped",
    )

    def __init__(self, receipts: ReceiptHandler, *, keep_answered: bool) -> None:
        self.grouped: GroupedAckSender | None = None
        self._receipts = receipts
        self._connection: OwnerConnection | None = None  # where acks may be sent
        self._consumer_id = 0
        self._unanswered = _NONE
        self._last_number = 0
        self._recent = RecentAcks() if keep_answered else None
        self._last_cumulative: CommandAck | None = None
        self.gate: EntryGate | None = None
        self._waiting: set[int] | None = None  # numbers of acks that wait for the gate; few consumers have any
        self._drained: asyncio.Event | None = None  # present while a caller waits for it

    def open(self, connection: OwnerConnection, consumer_id: int) -> None:
        """Send the unanswered acks, and those that are added from now on.

        Args:
            connection: the connection on which the owner has the consumer.
            consumer_id: the consumer's id on this connection.
        """
        self._connection, self._consumer_id = connection, consumer_id
        self._waiting = None
        for number, ack in list(self._unanswered.items()):
            self._send(number, ack)

    def hold(self) -> None:
        """Keep acks back until the next `open`."""
        self._connection = None
        self._waiting = None

    def release(self) -> None:
        """Send the acks that wait for the gate, before a command that must come after them."""
        for number in sorted(self._waiting or ()):
            self._on_counted(number)

    def add(self, ack: CommandAck | bytes) -> None:
        """Send an ack, at once or on `open`.

        Args:
            ack: an ack; or fields `message_id` of a CommandAck, encoded, for whole entries.
        """
        self._last_number += 1
        number = self._last_number
        if self._unanswered is _NONE:
            self._unanswered = {}
        self._unanswered[number] = ack
        if self._connection is None:
            return
        if self.gate is not None and not isinstance(ack, bytes) and ack.HasField("request_id"):
            last = max((Position(one.ledger_id, one.entry_id) for one in ack.message_id), default=None)
            if last is not None and not self.gate.counts(last):
                self._waiting = self._waiting or set()
                self._waiting.add(number)
                self.gate.call_when_counted(last, partial(self._on_counted, number))
                return
        self._send_now(number, ack)

    def _on_counted(self, number: int) -> None:
        """Send an ack that has waited, unless it was sent meanwhile."""
        if self._waiting is not None and number in self._waiting:
            self._waiting.discard(number)
            self._send_now(number, self._unanswered[number])

    def _send_now(self, number: int, ack: CommandAck | bytes) -> None:
        assert self._connection is not None
        if self.grouped is not None:
            self.grouped.flush(self._connection)
        self._send(number, ack)

    async def wait_until_answered(self) -> None:
        """Wait until the owner has answered every ack."""
        if self.grouped is not None:
            await self.grouped.wait_for_acks()
        if self._unanswered:
            self._drained = self._drained or asyncio.Event()
            await self._drained.wait()

    def receipt(self) -> Callable[[], bool] | None:
        """Return a function that returns whether the owner has answered all acks until now; None if it has."""
        if not self._unanswered:
            return None
        last = self._last_number
        return lambda: next(iter(self._unanswered), last + 1) > last

    def forget(self) -> None:
        """Drop the unanswered acks, after the end of the consumer."""
        self._unanswered.clear()
        self._check_drained()

    # Acks for a comparison with the owner's cursor

    @property
    def unanswered(self) -> Iterable[CommandAck]:
        """The acks that the owner has not answered, in the order of their arrival."""
        return (ack_of_entries(ack) if isinstance(ack, bytes) else ack for ack in self._unanswered.values())

    @property
    def confirmed_up_to(self) -> Position | None:
        """The position of the last cumulative ack that the owner has answered; None without one."""
        return _cumulative_position(self._last_cumulative)

    def forget_confirmed(self) -> None:
        """Drop `confirmed_up_to`: the owner has lost acks that it had answered."""
        self._last_cumulative = None

    def possibly_lost(self, lost_at: float) -> Iterator[tuple[Position | None, CommandAck]]:
        """Yield the acks that the owner answered shortly before a time, each with `confirmed_up_to` before it.

        Args:
            lost_at: the time at which the connection broke, of the event loop's clock.
        """
        if self._recent is not None:
            for answered in self._recent.before(lost_at):
                encoded = answered.ack if isinstance(answered.ack, bytes) else answered.ack.SerializePartialToString()
                ack = ack_of_entries(encoded)
                ack.ClearField("request_id")  # the client has its receipt
                yield _cumulative_position(answered.cumulative_before), ack

    # Sending, and the owner's answers. Without an answer an ack stays, and is sent again on `open`.

    def _send(self, number: int, ack: CommandAck | bytes) -> None:
        assert self._connection is not None
        if isinstance(ack, bytes):
            self._connection.ack(self._consumer_id, ack, partial(self._on_ids_response, number, ack))
            return
        on_answer = partial(self._on_ack_response, number, ack)
        parts = split_ack(ack, self._connection.max_command_bytes)
        on_response = on_answer if len(parts) == 1 else ResponseAggregator(len(parts), on_answer).on_response
        for part in parts:
            command = BaseCommand(type=BaseCommand.ACK, ack=part)  # a copy
            command.ack.consumer_id = self._consumer_id
            self._connection.send_request(command, on_response)

    def _on_ids_response(self, number: int, ids: bytes, response: BaseCommand | None) -> None:
        if response is None or self._unanswered.pop(number, None) is None:
            return
        if self._recent is not None and response.type != _ERROR:
            self._recent.add(ids, asyncio.get_running_loop().time())
        self._check_drained()

    def _on_ack_response(self, number: int, ack: CommandAck, response: BaseCommand | None) -> None:
        if response is None or self._unanswered.pop(number, None) is None:
            return
        if self._recent is not None and not ack.HasField("txnid_most_bits") and response.type != _ERROR:
            now = asyncio.get_running_loop().time()
            if ack.ack_type == _CUMULATIVE:
                self._recent.add(ack, now, self._last_cumulative)
                self._last_cumulative = ack  # decoded on demand, which is rare
            else:
                self._recent.add(ack.SerializePartialToString(), now, self._last_cumulative)
        if ack.HasField("request_id"):
            body_of(response).request_id = ack.request_id
            self._receipts.on_owner_command(response, b"")
        self._check_drained()

    def _check_drained(self) -> None:
        if not self._unanswered and self._drained is not None:
            self._drained.set()
            self._drained = None


def _cumulative_position(ack: CommandAck | None) -> Position | None:
    """Return the last whole entry that a cumulative ack covers. It has one id: an owner refuses several."""
    if ack is None or not ack.message_id:
        return None
    upper = ack.message_id[0]
    return Position(upper.ledger_id, upper.entry_id - bool(upper.ack_set))
