"""Sending of the grouped acks of one subscription to its owner: the asyncio shell around AckGroupingTracker."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.background import fires_by
from readonly_engine.owner.ack_grouping import AckGroupingTracker
from readonly_engine.owner.recent_acks import RecentAcks
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from readonly_engine.owner.ack_grouping import OutgoingAck


SLACK_S: Final = 0.001
"""Timers may fire this early, since event loops round; commands due within this time are sent with the others."""


class AckChannel(Protocol):
    """A consumer on the owner."""

    def send_acks(self, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        """Send fields `message_id` as one ack; `on_response` gets the answer later, or None if none will come."""


class GroupedAckSender:
    """Sends acks of whole entries for all consumers of a subscription.

    Acks with a request id, with a transaction, or of single messages of a batch go through the consumer itself
    (OwnerConsumer.ack), behind its acks here.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tracker: AckGroupingTracker[AckChannel] = AckGroupingTracker()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._recent = RecentAcks()

    def channel_opened(self, channel: AckChannel, connection: Hashable) -> None:
        """Add a consumer on the owner, and send the acks that waited for one."""
        self._tracker.channel_opened(channel, connection, self._loop.time())
        self._send_due()

    def channel_closing(self, channel: AckChannel, connection: Hashable) -> None:
        """Remove a consumer before it is closed on the owner."""
        self.flush(connection)
        self._tracker.channel_closing(channel, self._loop.time())
        self._schedule()

    def channel_closed(self, channel: AckChannel) -> None:
        """Remove a consumer after it has ended on the owner."""
        self._tracker.channel_closed(channel, self._loop.time())
        self._schedule()

    def add(self, channel: AckChannel, ids: bytes, entries: int) -> None:
        """Add acks of a consumer.

        Args:
            channel: the consumer.
            ids: fields `message_id` of a CommandAck, encoded.
            entries: number of entries.
        """
        self._tracker.add(channel, ids, entries, self._loop.time())
        if self._timer is None:
            self._schedule()

    def flush(self, connection: Hashable) -> None:
        """Send the waiting acks of one connection to the owner now."""
        self._send(self._tracker.flush(connection))

    def flush_all(self) -> None:
        """Send all waiting acks now."""
        self._send(self._tracker.flush_all())

    async def wait_for_acks(self) -> None:
        """Wait until the owner has answered all earlier acks."""
        self.flush_all()
        first = self._tracker.first_unanswered
        if first is None:
            return
        answered = self._loop.create_future()
        self._waiting.append((self._tracker.added, answered))
        await answered

    def receipt(self) -> Callable[[], bool]:
        """Return a function that returns whether the owner has answered all acks until now."""
        last = self._tracker.added

        def answered() -> bool:
            first = self._tracker.first_unanswered
            return first is None or first > last

        return answered

    def forget(self) -> None:
        """Drop all acks: the owner's cursor was reset."""
        self._tracker.forget()
        self._recent.forget()
        self._notify_waiting()

    @property
    def unanswered(self) -> CommandAck:
        """The acks that the owner has not answered, as one."""
        return ack_of_entries(self._tracker.unanswered)

    def possibly_lost(self, lost_at: float) -> Iterator[CommandAck]:
        """Return the acks that the owner answered shortly before a time."""
        return (
            ack_of_entries(answered.ack) for answered in self._recent.before(lost_at) if isinstance(answered.ack, bytes)
        )

    def _send(self, outgoing: Iterable[OutgoingAck[AckChannel]]) -> None:
        for number, channel, ids in outgoing:
            channel.send_acks(ids, partial(self._on_response, number))

    def _on_response(self, number: int, response: BaseCommand | None) -> None:
        if response is None:
            self._tracker.lost(number, self._loop.time())
            self._schedule()
        else:
            ids = self._tracker.answered(number)
            if ids and response.type != BaseCommand.ERROR:
                self._recent.add(ids, self._loop.time())
            if self._waiting:
                self._notify_waiting()

    def _notify_waiting(self) -> None:
        first = self._tracker.first_unanswered
        waiting = []
        for last, answered in self._waiting:
            if first is not None and first <= last:
                waiting.append((last, answered))
            elif not answered.done():
                answered.set_result(None)
        self._waiting = waiting

    def _schedule(self) -> None:
        due = self._tracker.next_timer()
        if due is not None and not fires_by(self._timer, due):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._send_due)

    def _send_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send(self._tracker.on_timer(self._loop.time() + SLACK_S))
        self._schedule()


def ack_of_entries(ids: bytes) -> CommandAck:
    """Return an ack of whole entries.

    Args:
        ids: fields `message_id` of a CommandAck, encoded; other fields may follow.
    """
    ack = CommandAck(ack_type=CommandAck.Individual)
    ack.MergeFromString(ids)
    return ack
