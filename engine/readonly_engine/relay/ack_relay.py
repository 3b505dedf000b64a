"""Sends the acks of all consumers of one subscription to its owner together: the asyncio shell around AckBatches."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.relay.ack_batch import AckBatches
from readonly_engine.relay.recent_acks import RecentAcks
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from readonly_engine.relay.ack_batch import Outgoing


SLACK_S: Final = 0.001
"""Timers go off so much early, as event loops round; what is due so soon goes along."""


class AckWay(Protocol):
    """A consumer at the owner."""

    def send_acks(self, ids: bytes, answered: Callable[[BaseCommand | None], None]) -> None:
        """Send fields `message_id` as one ack; `answered` is called later with its answer, with None when none will come."""


class AckRelay:
    """The way to the owner that a subscription's consumers share for acks of whole entries.

    Acks that want a receipt, have a transaction or are of single messages of a batch go the consumer's own way
    (RelayedConsumer.ack), behind those that it has given here.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._batches: AckBatches[AckWay] = AckBatches()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._recent = RecentAcks()

    def opened(self, way: AckWay, line: Hashable) -> None:
        """A consumer has come to the owner; what waited for one goes at once."""
        self._batches.opened(way, line, self._loop.time())
        self._send_due()

    def parting(self, way: AckWay, line: Hashable) -> None:
        """A consumer is about to be closed at the owner."""
        self.flush(line)
        self._batches.parting(way, self._loop.time())
        self._wake()

    def closed(self, way: AckWay) -> None:
        """A consumer is not at the owner any more."""
        self._batches.closed(way, self._loop.time())
        self._wake()

    def add(self, way: AckWay, ids: bytes, entries: int) -> None:
        """A consumer acks.

        Args:
            way: the consumer.
            ids: fields `message_id` of a CommandAck, encoded.
            entries: how many.
        """
        self._batches.add(way, ids, entries, self._loop.time())
        if self._timer is None:
            self._wake()

    def flush(self, line: Hashable) -> None:
        """Send now what came from the consumers of one connection to the owner."""
        self._send(self._batches.flush(line))

    def flush_all(self) -> None:
        """Send now what came from any of them."""
        self._send(self._batches.flush_all())

    async def settled(self) -> None:
        """Wait until the owner has answered what was acked before."""
        self.flush_all()
        first = self._batches.first_unanswered
        if first is None:
            return
        answered = self._loop.create_future()
        self._waiting.append((self._batches.added, answered))
        await answered

    def forget(self) -> None:
        """The owner's cursor was moved: earlier acks mean nothing any more."""
        self._batches.forget()
        self._recent.forget()
        self._tell_waiting()

    @property
    def unanswered(self) -> CommandAck:
        """What the owner has not answered, as one ack."""
        return ack_of_entries(self._batches.unanswered)

    def perhaps_lost(self, lost_at: float) -> Iterator[CommandAck]:
        """What the owner had answered shortly before the connection to it broke."""
        return (
            ack_of_entries(answered.ack) for answered in self._recent.before(lost_at) if isinstance(answered.ack, bytes)
        )

    def _send(self, outgoing: Iterable[Outgoing[AckWay]]) -> None:
        for number, way, ids in outgoing:
            way.send_acks(ids, partial(self._answered, number))

    def _answered(self, number: int, response: BaseCommand | None) -> None:
        if response is None:
            self._batches.lost(number, self._loop.time())
            self._wake()
        else:
            ids = self._batches.answered(number)
            if ids and response.type != BaseCommand.ERROR:
                self._recent.answered(ids, self._loop.time())
            if self._waiting:
                self._tell_waiting()

    def _tell_waiting(self) -> None:
        first = self._batches.first_unanswered
        still = []
        for last, answered in self._waiting:
            if first is not None and first <= last:
                still.append((last, answered))
            elif not answered.done():
                answered.set_result(None)
        self._waiting = still

    def _wake(self) -> None:
        due = self._batches.due
        if due is not None and (self._timer is None or self._timer.when() > due):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._send_due)

    def _send_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send(self._batches.take(self._loop.time() + SLACK_S))
        self._wake()


def ack_of_entries(ids: bytes) -> CommandAck:
    """An ack of whole entries.

    Args:
        ids: fields `message_id` of a CommandAck, encoded; other fields may follow.
    """
    ack = CommandAck(ack_type=CommandAck.Individual)
    ack.MergeFromString(ids)
    return ack
