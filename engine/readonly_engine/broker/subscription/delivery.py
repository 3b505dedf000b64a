"""Delivery of one subscription: the read loop, and its fast and slow path from entries to MESSAGE frames."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from readonly_engine.background import ends, fires_by
from readonly_engine.broker.dispatch.consumer_state import Delivery, split_runs
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.make import make_dispatcher
from readonly_engine.broker.dispatch.multiple import MultipleDispatcher
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.broker.fanout.membership import join_fanout
from readonly_engine.broker.subscription.cursor_sync import start_position
from readonly_engine.broker.subscription.pause import Pausable
from readonly_engine.broker.subscription.read_gate import TransactionReadGate
from readonly_engine.broker.subscription.read_retry import read_with_retry
from readonly_engine.owner.grouped_acks import GroupedAckSender
from readonly_engine.small_map import SmallMap
from readonly_engine.topic.cache import LARGE_ENTRY
from readonly_engine.topic.tail_batch import TailBatch
from readonly_engine.wire.acks import encode_ids
from readonly_engine.wire.entry_view import encode_views, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState, Dispatcher
    from readonly_engine.broker.fanout.membership import FanoutMembership
    from readonly_engine.broker.subscription.parts import SubscriptionParts
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

MS_PER_S = 1000

MAX_SLEEP_S = 3600.0
"""Limit of the timer for delayed messages, which may be due in years."""


class DeliveryLoop(Pausable):
    """Delivers the entries of a topic to the consumers of a subscription.

    Subscription inherits from it, because deliveries and acks use the same state, and calls between two objects would cost time.

    Args:
        parts: the parts of the subscription.

    Attributes:
        topic: name of the topic.
        name: name of the subscription.
        counters: counters of the subscription.
    """

    __slots__ = (
        "_activating",
        "_clock",
        "_closed",
        "_consumers",
        "_cursor",
        "_dispatcher",
        "_fanout",
        "_grouped_acks",
        "_guard",
        "_keeper",
        "_latency",
        "_log",
        "_membership",
        "_moving",
        "_multiple",
        "_rates",
        "_read_gate",
        "_reading",
        "_single",
        "_timer",
        "_transactions",
        "counters",
        "name",
        "topic",
    )

    def __init__(self, parts: SubscriptionParts) -> None:
        super().__init__()
        view = parts.view
        self.topic = view.topic
        self.name = parts.name
        self.counters = parts.counters
        self._log = view
        self._cursor = CursorReplica(view.chain, start_position(parts.subscribe, parts.state))
        if parts.acked:
            self._cursor.load_acked_ranges(parts.acked)
        self._cursor.load_batches(parts.batches)
        dispatcher = self._make_dispatcher(parts)
        self._dispatcher = dispatcher
        self._single = dispatcher if isinstance(dispatcher, SingleActiveDispatcher) and not parts.rates else None
        self._multiple = dispatcher if isinstance(dispatcher, MultipleDispatcher) else None
        self._keeper = parts.keeper
        self._grouped_acks = GroupedAckSender() if self._multiple is not None and parts.keeper.at_owner else None
        self._rates = parts.rates
        self._timer: asyncio.TimerHandle | None = None
        self._fanout = parts.fanout
        self._guard = parts.guard
        self._latency = parts.latency
        self._clock = parts.clock
        self._membership: FanoutMembership | None = None
        self._activating: tuple[Subscriber, asyncio.Task[None]] | None = None
        self._moving = 0
        self._consumers: SmallMap[ConsumerState, Subscriber] = SmallMap()
        self._reading: asyncio.Task[None] | None = None
        self._closed = False
        self._transactions = parts.transactions
        self._read_gate = TransactionReadGate(parts.transactions)
        self._check_open_transactions(parts.state.last)

    def _make_dispatcher(self, parts: SubscriptionParts) -> Dispatcher:
        """Make the dispatcher, for the copy of the cursor."""
        return make_dispatcher(parts.subscribe, parts.view.chain, self._cursor, parts.settings)

    def _check_open_transactions(self, last: Position) -> None:
        """Find open transactions with messages before the start; `last`: up to there the owner lets consumers read."""
        self._read_gate.check_open_transactions(self._log.chain.after(last), self._cursor.first_unacked())

    def _owned_from(self, position: Position) -> int:  # noqa: ARG002
        """Number of entries that one read may have, where other brokers read others; 0 for read-ahead of a backlog."""
        return 0

    @property
    def cursor(self) -> CursorReplica:
        """The cursor, or this broker's copy of the owner's."""
        return self._cursor

    def start(self) -> None:
        """Listen to the topic."""
        self._log.listen(self, latency_tolerant=self._multiple is not None)

    def close(self) -> None:
        """Stop delivery permanently."""
        self.leave_fanout()
        self._closed = True
        self._log.unlisten(self)
        self._transactions.forget(self.read_more)
        if self._reading is not None:
            self._reading.cancel()
        for waiting in (self._timer, self._refreshing):
            if waiting is not None:
                waiting.cancel()

    def _unreadable(self, position: Position, reason: str) -> None:
        """Handle an entry that storage has not returned for a while."""
        raise NotImplementedError

    @property
    def consumers(self) -> list[Subscriber]:
        """The consumers of the subscription on this broker."""
        return list(self._consumers.values())

    def leave_fanout(self) -> None:
        """Leave the fan-out group, so that `read_more` delivers new entries."""
        if self._membership is not None:
            self._membership.leave()
            self._membership = None
            self._log.listen(self)

    def _check_fanout(self) -> None:
        """Leave the fan-out group if entries after the delivered ones are acked, because then each entry needs a check."""
        if self._membership is not None and not self._cursor.nothing_acked_after(self._membership.following):
            self.leave_fanout()

    def add_permits(self, consumer: Subscriber, permits: int) -> None:
        """Handle new permits of a client's FLOW, which the consumer's state includes already."""
        if self._membership is None:
            self.read_more()
        else:
            self._membership.add_permits(consumer, permits)

    def flush_accounting(self) -> None:
        """Add the entries that the fan-out group has delivered to the counters."""
        if self._membership is not None:
            self._membership.flush_accounting()

    def __call__(self) -> None:
        """Handle new entries, as the log's listener: smaller than a bound method, of which each subscription would have one."""
        self.read_more()

    def read_more(self) -> None:
        """Deliver all entries that can be delivered now, and start a read for missing ones."""
        self._guard.check_due()
        self.leave_fanout()
        latest = self._log.latest_batch
        if (
            latest is not None
            and self._dispatch_batch(latest)
            and (latest.complete or self._log.defer_to_notification(latest.following))
        ):
            self._join_fanout()
            return
        while self._reading is None and not self._closed and not self._paused and not self._moving:
            if self._rates and (delay := self._throttle_delay()):
                self._schedule_read(delay)
                return
            now = self._clock.delivery_ms()
            next_read = self._dispatcher.next_read(now)
            due = self._dispatcher.next_timer()
            if due is not None and (wait_s := self._clock.seconds_until(due)) is not None:
                self._schedule_read(wait_s + 1 / MS_PER_S)
            if next_read is None:
                return
            position, count = next_read
            readable = self._log.chain.readable(position)
            if readable and self._log.defer_to_notification(position):
                return  # the tail notification delivers it, to all subscriptions together
            for rate in self._rates:
                count = rate.allowance(count)
            entries = latest.entries(position, count) if readable and latest is not None else []
            entries = entries or self._log.cached(position, count)
            if entries:
                if self._single is not None and self._dispatch_backlog(self._single.within_permits(entries)):
                    continue
                if self._multiple is not None and self._dispatch_uniform(self._multiple, entries):
                    continue
                entries = self._read_gate.readable(entries)
                if not entries:
                    self._transactions.call_on_move(self.read_more)
                    return
                self._deliver(entries, now)
            elif readable:
                self._reading = asyncio.create_task(self._read(position, count))
                self._reading.add_done_callback(self._read_ended)
            else:
                self._notify_end_of_topic()
                return

    def _dispatch_backlog(self, entries: list[TopicEntry]) -> bool:
        """Fast path for backlog. The last entry may have more messages than the client has permits for."""
        return self._dispatch_batch(TailBatch(entries, self._log.chain.after(entries[-1].position)), 1)

    def _dispatch_batch(self, batch: TailBatch, permits: int = 0) -> bool:
        """Fast path to one consumer: send the whole batch without per-entry checks; return False if a precondition fails."""
        dispatcher = self._single
        if (
            dispatcher is None
            or not batch.uniform
            or self._reading is not None
            or self._closed
            or self._paused
            or self._moving
            or not self._read_gate.allows(batch.last)
        ):
            return False
        state = dispatcher.dispatch_batch(batch, permits)
        if state is None:
            return False
        consumer = self._consumers[state]
        if permits and batch.size >= LARGE_ENTRY * len(batch):
            pieces = batch.pieces(consumer.consumer_id, self.topic.partition, state.epoch, state.exposed)
            size = consumer.deliver_pieces(pieces, batch.messages)
        else:
            frames = batch.frames(consumer.consumer_id, self.topic.partition, state.epoch, state.exposed)
            size = len(frames)
            consumer.deliver(frames, batch.messages)
        if self._latency.due:
            self._sample(batch.entries(batch.first, 1)[0])
        counters = self.counters
        counters.entries += len(batch)
        counters.messages += batch.messages
        counters.bytes += size
        return True

    def _join_fanout(self) -> None:
        """Join the fan-out group for the next entries, if this is possible."""
        single = self._single
        if self._fanout is None or single is None or single.active is None or self._activating is not None:
            return
        consumer = self._consumers[single.active]
        self._membership = join_fanout(self._fanout, self, consumer, single, self.counters, self.topic.partition)
        if self._membership is not None:
            self._log.unlisten(self)
            self._transactions.forget(self.read_more)

    def _notify_end_of_topic(self) -> None:
        """Report the end of a terminated topic to later consumers. The owner reports it after the last ack."""
        chain = self._log.chain
        if chain.ended and (chain.limit is None or self._cursor.mark_delete >= chain.limit):
            for consumer in self.consumers:
                consumer.send_end_of_topic()

    def _throttle_delay(self) -> float:
        """Return the seconds until the rate limits allow the next delivery."""
        now = time.monotonic()
        return max(rate.delay(now) for rate in self._rates)

    def _schedule_read(self, seconds: float) -> None:
        """Call `read_more` after this time, in seconds, or earlier."""
        loop = asyncio.get_running_loop()
        at = loop.time() + min(max(seconds, MS_PER_S**-1), MAX_SLEEP_S)
        if fires_by(self._timer, at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(at, self._on_timer)

    @ends("_end_consumers")
    def _on_timer(self) -> None:
        self._timer = None
        self.read_more()

    def _deliver(self, entries: list[TopicEntry], now: int) -> None:
        if not summarize(entries)[2]:
            self._ack_filtered([entry.position for entry in entries if entry.marker or self._read_gate.aborted(entry)])
        self._send(self._dispatcher.dispatch(entries, now))

    def _dispatch_uniform(self, dispatcher: MultipleDispatcher, entries: list[TopicEntry]) -> bool:
        """Fast path to several consumers: send runs of entries without per-entry checks; return False if a precondition fails."""
        _, _, plain, loose = summarize(entries)
        if not (plain and loose and self._read_gate.allows(entries[-1].position)):
            return False
        runs = dispatcher.dispatch_uniform(entries)
        if runs is None:
            return False
        for state, run, messages in runs:
            if len(run) == 1:
                self._send_entry(Delivery(state, run[0]))
            else:
                self._send_run(state, run, messages)
        return True

    def _send(self, deliveries: list[Delivery]) -> None:
        for run in split_runs(deliveries):
            if len(run) == 1:
                self._send_entry(run[0])
            else:
                entries = [one.entry for one in run]
                self._send_run(run[0].consumer, entries, summarize(entries)[0])

    def _send_entry(self, delivery: Delivery) -> None:
        state, entry, redelivery_count, unacked = delivery
        consumer = self._consumers[state]
        frame = entry.frame(
            consumer.consumer_id, self.topic.partition, state.epoch, state.exposed, redelivery_count, unacked
        )
        self._sent(consumer, frame, 1, entry.messages)
        if self._latency.due and not redelivery_count:
            self._sample(entry)

    def _send_run(self, state: ConsumerState, entries: Sequence[TopicEntry], messages: int) -> None:
        consumer = self._consumers[state]
        frames = encode_views(entries, consumer.consumer_id, self.topic.partition, state.epoch, 0, state.exposed)
        self._sent(consumer, frames, len(entries), messages)
        if self._latency.due:
            self._sample(entries[0])

    def _sent(self, consumer: Subscriber, frames: bytes, entries: int, messages: int) -> None:
        consumer.deliver(frames, messages)
        counters = self.counters
        counters.entries += entries
        counters.messages += messages
        counters.bytes += len(frames)
        for rate in self._rates:
            rate.consume(messages, len(frames))

    def _sample(self, entry: TopicEntry) -> None:
        """Measure the latency of an entry that was just sent.

        Entries of the latest batch that are sent later are no measure of this broker: a client had no permits, or connects again.
        """
        latest = self._log.latest_batch
        tail = self._log.notifying and latest is not None and entry.position >= latest.first
        self._latency.observe(entry, tail=tail)

    def _ack_filtered(self, positions: list[Position]) -> None:
        """Ack markers and aborted messages, as the owner's dispatcher does (AbstractBaseDispatcher).

        The acks use any consumer on the owner, because the reading consumer may have lost its connection to the owner.
        """
        positions = [position for position in positions if not self._cursor.is_acked(position)]
        consumer = next(iter(self._consumers.values()), None)
        if not positions or consumer is None:
            return
        for position in positions:
            self._cursor.ack(position)
        if self._keeper.store_acks():
            return
        if self._grouped_acks is None:
            self._grouped_acks = GroupedAckSender()
            for one in self.consumers:
                one.owner_consumer.share_acks(self._grouped_acks)
        self._grouped_acks.add(consumer.owner_consumer, encode_ids(positions), len(positions))

    async def _read(self, position: Position, count: int) -> None:
        subject = f"topic={self.topic} subscription={self.name}"
        owned = self._owned_from(position)
        count, exact = max(count, owned), owned > 0
        while reason := await read_with_retry(self._log, position, count, subject, self._read_failed, exact=exact):
            if self._keeper.at_owner:
                self._unreadable(position, reason)
                return
            log.error("storage does not return an entry, trying on: %s reason=%s", subject, reason)

    def _read_failed(self) -> None:
        self.counters.read_failures += 1

    @ends("_end_consumers")
    def _read_ended(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)
            return
        self.read_more()

    @ends("_end_consumers")
    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        log.error("delivery failed: topic=%s subscription=%s", self.topic, self.name, exc_info=error)
        self._end_consumers()

    def _end_consumers(self) -> None:
        for consumer in self.consumers:
            consumer.close_for_resubscribe("internal error")
