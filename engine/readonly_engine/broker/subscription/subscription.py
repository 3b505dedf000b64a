"""One subscription of one topic on this broker: the shell between consumers, dispatcher, topic and owner."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from readonly_engine.broker.dispatch.acks import apply_ack, without_unknown_entries
from readonly_engine.broker.dispatch.consumer_state import Delivery, split_runs
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.make import make_dispatcher
from readonly_engine.broker.dispatch.multiple import MultipleDispatcher
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.broker.fanout.membership import join_fanout
from readonly_engine.broker.subscription.cursor_sync import CursorSync, follow_owner, start_position
from readonly_engine.broker.subscription.pause import Pausable, Pause
from readonly_engine.broker.subscription.read_gate import TransactionReadGate
from readonly_engine.broker.subscription.read_retry import read_with_retry
from readonly_engine.broker.subscription.transactions import TransactionAcks
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.owner.grouped_acks import GroupedAckSender
from readonly_engine.topic.position import Position
from readonly_engine.topic.tail_batch import TailBatch
from readonly_engine.wire.acks import encode_ids
from readonly_engine.wire.entry_view import encode_views, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState
    from readonly_engine.broker.dispatch.counters import Counters
    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.broker.dispatch.rate import RateLimit
    from readonly_engine.broker.fanout.membership import FanoutMembership
    from readonly_engine.broker.fanout.tail_fanout import TailFanout
    from readonly_engine.broker.subscription.cursor_sync import OwnerQueries
    from readonly_engine.broker.subscription.pending_acks import EndedTransaction
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.owner.consumer import OwnerCursorState
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.transactions import TopicTransactions
    from readonly_engine.topic.view import TopicView
    from readonly_engine.wire.acks import PlainAck
    from readonly_engine.wire.pulsar_pb2 import CommandAck, CommandSubscribe, MessageIdData

log = logging.getLogger(__name__)

NS_PER_MS = 1_000_000
MS_PER_S = 1000

ACK_WAIT_S = 5.0
"""How long acks that are under way are waited for before another consumer of a Failover subscription gets its first message."""

MAX_SLEEP_S = 3600.0
"""Delayed messages may be due in years."""


class Subscription(Pausable):
    """Delivers a topic to the consumers of one subscription.

    Args:
        log_: the topic.
        subscribe: the first consumer's SUBSCRIBE.
        settings: what the owner's configuration and policies say.
        rates: limits on what is delivered, each with what it is shared with.
        transactions: of the topic.
        state: where the owner says that the subscription stands, and how far it lets consumers read.
        acknowledge: what is acked at the owner: ranges (lower, upper].
        batches: batches that are acked in part, with the bits of the messages that are not.
        queries: asks for both again, and for the owner's log of acks in transactions.
        counters: where it counts what it does.
        on_unreadable: called with a position and the reason when an entry cannot be read for a while: perhaps the owner can.
        fanout: those who get what is new on the topic together; None where nobody does.
        guard: checks the leases under which is delivered.
    """

    __slots__ = (
        "_activating",
        "_batch_acks",
        "_closed",
        "_consumers",
        "_cursor",
        "_dispatcher",
        "_fanout",
        "_grouped_acks",
        "_guard",
        "_lazy_cursor_sync",
        "_log",
        "_membership",
        "_moving",
        "_multiple",
        "_on_unreadable",
        "_queries",
        "_rates",
        "_read_gate",
        "_reading",
        "_reset",
        "_single",
        "_timer",
        "_transaction_acks",
        "_transactions",
        "counters",
        "durable",
        "kind",
        "name",
        "topic",
    )

    def __init__(
        self,
        log_: TopicView,
        subscribe: CommandSubscribe,
        settings: DispatchSettings,
        rates: tuple[RateLimit, ...],
        transactions: TopicTransactions,
        state: OwnerCursorState,
        acked: Iterable[tuple[Position, Position]],
        batches: Iterable[tuple[Position, int]],
        queries: OwnerQueries,
        counters: Counters,
        on_unreadable: Callable[[Subscription, Position, str], None],
        fanout: TailFanout | None = None,
        guard: LeaseGuard | None = None,
    ) -> None:
        super().__init__()
        self.topic = log_.topic
        self.name = subscribe.subscription
        self.kind = subscribe.sub_type
        self.durable = subscribe.durable
        self.counters = counters
        self._log = log_
        self._cursor = CursorReplica(log_.chain, start_position(subscribe, state))
        self._cursor.load_acked_ranges(acked)
        self._cursor.load_batches(batches)
        self._dispatcher = make_dispatcher(subscribe, log_.chain, self._cursor, settings)
        self._single = self._dispatcher if isinstance(self._dispatcher, SingleActiveDispatcher) and not rates else None
        self._batch_acks = settings.batch_acks
        self._multiple = self._dispatcher if isinstance(self._dispatcher, MultipleDispatcher) else None
        self._grouped_acks = GroupedAckSender() if self._multiple is not None else None
        self._rates = rates
        self._timer: asyncio.TimerHandle | None = None
        self._lazy_cursor_sync: CursorSync | None = None  # most owners stay where they are
        self._fanout = fanout
        self._guard = guard or LeaseGuard()
        self._membership: FanoutMembership | None = None
        self._activating: tuple[Subscriber, asyncio.Task[None]] | None = None
        self._moving = 0
        self._reset = False
        self._consumers: dict[int, Subscriber] = {}  # by id() of their receivers
        self._reading: asyncio.Task[None] | None = None
        self._on_unreadable = on_unreadable
        self._closed = False
        self._transaction_acks: TransactionAcks | None = None  # most subscriptions never see a transaction
        self._queries = queries
        self._transactions = transactions
        self._read_gate = TransactionReadGate(transactions, log_.chain, self._cursor)
        self._read_gate.check_open_transactions(state.last)
        log_.listen(self.read_more, latency_tolerant=self._multiple is not None)
        transactions.listen(self.read_more)

    # Consumers

    @property
    def consumers(self) -> list[Subscriber]:
        """The consumers here."""
        return list(self._consumers.values())

    @property
    def mark_delete(self) -> Position:
        """Everything up to here is acked."""
        return self._cursor.mark_delete

    @property
    def backlog(self) -> int:
        """How many readable entries are not acked; Pulsar's msgBacklog counts entries too."""
        limit = self._log.chain.limit
        return 0 if limit is None else self._cursor.unacked_up_to(limit)

    @property
    def batches(self) -> list[tuple[Position, int]]:
        """The batches that are acked in part, for consumers that come later; none while the cursor is being moved."""
        return [] if self._moving or self._reset else self._cursor.batches

    @property
    def has_backlog(self) -> bool:
        """Whether something can be read that is not acked."""
        limit = self._log.chain.limit
        return limit is not None and self._cursor.mark_delete < limit

    def add(self, consumer: Subscriber) -> None:
        """A consumer has subscribed."""
        self.leave_fanout()
        self._consumers[id(consumer.dispatch_state)] = consumer
        if self._grouped_acks is not None:
            consumer.owner_consumer.share_acks(self._grouped_acks)
        self._dispatcher.add(consumer.dispatch_state)
        self.on_lease_changed()
        self.read_more()

    def remove(self, consumer: Subscriber) -> None:
        """A consumer has left."""
        self.leave_fanout()
        if self._activating is not None and self._activating[0] is consumer:
            self._stop_activating()
        if self._grouped_acks is not None:
            self._grouped_acks.flush_all()  # before another broker can ask the owner what is acked
        if self._consumers.pop(id(consumer.dispatch_state), None) is not None:
            self._dispatcher.remove(consumer.dispatch_state)
            self.on_lease_changed()
            self.read_more()

    def close(self) -> None:
        """Deliver no more."""
        self.leave_fanout()
        self._closed = True
        self._log.unlisten(self.read_more)
        self._transactions.unlisten(self.read_more)
        if self._transaction_acks is not None:
            self._transaction_acks.close()
        if self._reading is not None:
            self._reading.cancel()
        for waiting in (self._timer, self._refreshing):
            if waiting is not None:
                waiting.cancel()
        self._stop_activating()

    def on_lease_changed(self) -> None:
        """Suspend delivery once no consumer that gets messages has a valid lease; resume it when one has."""
        active = self._dispatcher.active if isinstance(self._dispatcher, SingleActiveDispatcher) else None
        served = [one for one in self.consumers if active is None or one.dispatch_state is active]
        suspended = bool(self.paused & Pause.OWNER)
        if not served or any(consumer.lease_valid for consumer in served):
            if suspended:
                log.info("%s, %s: its owner answers again", self.topic, self.name)
                self.resume(Pause.OWNER)
        elif not suspended:
            log.warning("%s, %s is suspended: its owner does not answer, and may serve others", self.topic, self.name)
            self.pause(Pause.OWNER)

    async def _catch_up(self) -> None:
        self._cursor_moved(
            await self._cursor_sync.refresh(lambda: [consumer.owner_consumer for consumer in self.consumers])
        )

    async def reload(self) -> int:
        """Read the topic's list of ledgers now; returns the newest one. May raise a MetadataError."""
        await self._log.reload()
        return self.newest_ledger

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has something that it has not acked."""
        self.flush_accounting()
        return self._dispatcher.outstanding

    @contextmanager
    def moving_cursor(self) -> Iterator[None]:
        """While this lasts the owner moves the cursor: nothing is delivered, and consumers that it closes stay closed."""
        with ExitStack() as consumers:
            for consumer in self.consumers:
                consumers.enter_context(consumer.owner_consumer.expecting_close())
            self.leave_fanout()
            self._moving += 1
            try:
                yield
            finally:
                self._moving -= 1
        self.read_more()

    def reset(self) -> None:
        """The cursor was moved, or is no more: what is known of it here counts no longer."""
        self._reset = True
        if self._grouped_acks is not None:
            self._grouped_acks.forget()

    def active_changed(self, consumer: Subscriber, *, active: bool) -> None:
        """The owner says who is the active consumer of a Failover subscription."""
        dispatcher = self._dispatcher
        if not isinstance(dispatcher, SingleActiveDispatcher) or id(consumer.dispatch_state) not in self._consumers:
            return
        self.leave_fanout()
        if not active:
            dispatcher.deactivate(consumer.dispatch_state)
        if self._activating is not None and self._activating[0] is consumer:
            if active:
                return
            self._stop_activating()
        elif active and dispatcher.active is not consumer.dispatch_state:
            self._stop_activating()
            task = asyncio.create_task(self._activate(consumer, dispatcher))
            self._activating = (consumer, task)
            task.add_done_callback(self._task_ended)

    async def _activate(self, consumer: Subscriber, dispatcher: SingleActiveDispatcher) -> None:
        """Begin to deliver to a consumer where the owner's cursor stands: the one before it may have been on another broker."""
        waits = [asyncio.ensure_future(other.owner_consumer.wait_for_acks()) for other in self.consumers]
        try:
            await asyncio.wait(waits, timeout=ACK_WAIT_S)
        finally:
            for wait in waits:
                wait.cancel()
        state = await self._cursor_sync.catch_up(consumer.owner_consumer)
        self._activating = None
        self._read_gate.check_open_transactions(state.last)
        self.leave_fanout()
        dispatcher.activate(consumer.dispatch_state)
        self.on_lease_changed()
        self.read_more()

    def _stop_activating(self) -> None:
        if self._activating is not None:
            self._activating[1].cancel()
            self._activating = None

    # What clients do

    def acknowledge(self, consumer: Subscriber, ack: CommandAck) -> None:
        """Take over an ack that was relayed."""
        self.counters.acks += 1
        if ack.HasField("txnid_most_bits"):
            txn = (ack.txnid_most_bits, ack.txnid_least_bits)
            self._acks_in_transactions().add(txn, without_unknown_entries(ack, self._cursor), consumer)
            return
        self._apply(ack, consumer, from_client=True)

    def ack_entries(self, consumer: Subscriber, ack: PlainAck) -> bool:
        """Relay an ack of whole entries, where others may ack too together with theirs, and take it over.

        Returns:
            False where the consumer does not have these entries: then nothing was done, and the ack must go alone. An owner
            leaves out all that follows an entry which it does not know.
        """
        dispatcher = self._multiple
        if dispatcher is None or self._grouped_acks is None:
            consumer.owner_consumer.ack_entries(ack.ids)
            self._cursor.ack_entries(ack.entries)
            self._check_fanout()
        else:
            entries, state = ack.entries, consumer.dispatch_state
            messages = dispatcher.take_pending(state, entries)
            if messages is None:
                return False
            self._grouped_acks.add(consumer.owner_consumer, ack.ids, len(entries))
            self._cursor.ack_entries(entries, delivered=True)
            if dispatcher.acked_entries(state, entries, messages):
                self.read_more()
        self.counters.acks += 1
        return True

    def _apply(self, ack: CommandAck, consumer: Subscriber | None, *, from_client: bool) -> None:
        """Take an ack over into the copy."""
        by = None if consumer is None else consumer.dispatch_state
        effect = apply_ack(
            ack,
            self.kind,
            self._cursor,
            self._dispatcher,
            by,
            batch_acks=self._batch_acks,
            from_client=from_client,
        )
        if effect.completed and consumer is not None:
            # The owner knows it from the parts, unless it was restarted meanwhile.
            self._cursor_sync.ack(consumer.owner_consumer, effect.completed)
        if effect.unblocked:
            self.read_more()
        self._check_fanout()

    def redeliver(self, consumer: Subscriber, message_ids: Iterable[MessageIdData]) -> None:
        """The client asks for messages again."""
        self.leave_fanout()
        self._dispatcher.redeliver(consumer.dispatch_state, [Position(m.ledger_id, m.entry_id) for m in message_ids])
        self.read_more()

    def confirm(self, last: Position) -> None:
        """The owner says that the topic goes on to here, and lets consumers read it: a client that was told so waits for it."""
        self._log.confirm(last)
        self._transactions.on_last_entry(last)

    @property
    def newest_ledger(self) -> int:
        """The last ledger of the topic that is known; -1 for none."""
        return self._log.chain.newest_ledger

    async def resume_after_move(
        self, consumer: Subscriber, state: OwnerCursorState, newest_ledger: int, observed_at: float
    ) -> bool:
        """Compare with the owner's cursor after it came back.

        Args:
            consumer: one that is at the owner again.
            state: what the owner says now.
            newest_ledger: the topic's last ledger before the owner moved.
            observed_at: when it has said so (time.monotonic).

        Returns:
            Whether this copy can go on. After a reset it cannot: the consumers must subscribe again, as they would at the owner.
        """
        known = (consumer.owner_consumer, observed_at, state, newest_ledger)
        resumable = await self._cursor_sync.can_resume(
            *known, [one.owner_consumer for one in self.consumers], self._grouped_acks
        )
        if not resumable:
            self.reset()
        return resumable

    def is_at_end(self, state: OwnerCursorState) -> bool:
        """Whether the owner's cursor stands at the end: then nothing can be acked behind its mark-delete position."""
        return state.mark_delete is not None and self._log.chain.after(state.mark_delete) > state.last

    def follow_owner(self, state: OwnerCursorState) -> bool:
        """Follow the owner's cursor where it is ahead. Returns whether it is ahead, or as far."""
        if not follow_owner(self._cursor, self._log.chain, state):
            return False
        self._cursor_moved(state)
        return True

    @property
    def _cursor_sync(self) -> CursorSync:
        if self._lazy_cursor_sync is None:
            self._lazy_cursor_sync = CursorSync(
                f"{self.topic}, {self.name}", self._log, self._cursor, self._queries, self.confirm, self._cursor_moved
            )
        return self._lazy_cursor_sync

    def _cursor_moved(self, state: OwnerCursorState) -> None:
        self._dispatcher.cursor_moved()
        self._read_gate.check_open_transactions(state.last)
        self.read_more()

    # Delivery

    def add_permits(self, consumer: Subscriber, permits: int) -> None:
        """The client has asked for so many messages more."""
        if self._membership is None:
            self.read_more()
        else:
            self._membership.add_permits(consumer, permits)

    def flush_accounting(self) -> None:
        """Reckon up what was had together with others."""
        if self._membership is not None:
            self._membership.flush_accounting()

    def leave_fanout(self) -> None:
        """Get alone what is new: something has happened to this subscription, or will."""
        if self._membership is not None:
            self._membership.leave()
            self._membership = None
            self._log.listen(self.read_more)

    def _check_fanout(self) -> None:
        """An ack may have gone beyond what was delivered; then it is looked at each entry."""
        if self._membership is not None and not self._cursor.nothing_acked_after(self._membership.following):
            self.leave_fanout()

    def read_more(self) -> None:
        """Deliver what can be delivered now; read what is missing."""
        self._guard.check_due()
        self.leave_fanout()
        latest = self._log.latest_batch
        if (
            latest is not None
            and self._dispatch_batch(latest)
            and (latest.complete or self._log.await_notification(latest.following))
        ):
            self._join_fanout()
            return
        while self._reading is None and not self._closed and not self._paused and not self._moving:
            if self._rates and (delay := self._throttle_delay()):
                self._schedule_read(delay)
                return
            now = time.time_ns() // NS_PER_MS
            next_read = self._dispatcher.next_read(now)
            due = self._dispatcher.next_due
            if due is not None:
                self._schedule_read((due - now + 1) / MS_PER_S)
            if next_read is None:
                return
            position, count = next_read
            readable = self._log.chain.readable(position)
            if readable and self._log.await_notification(position):
                return  # all others are about to get it, too
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
                    return
                self._deliver(entries, now)
            elif readable:
                self._reading = asyncio.create_task(self._read(position, count))
                self._reading.add_done_callback(self._read_ended)
            else:
                self._notify_end_of_topic()
                return

    def _dispatch_backlog(self, entries: list[TopicEntry]) -> bool:
        """The short way behind the tail; of the last entry the client may get more messages than it has asked for."""
        return self._dispatch_batch(TailBatch(entries, self._log.chain.after(entries[-1].position)), 1)

    def _dispatch_batch(self, batch: TailBatch, permits: int = 0) -> bool:
        """The short way, where nothing speaks against it: all of a burst at once, at the tail in bytes that others get too."""
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
        consumer = self._consumers[id(state)]
        frames = batch.frames(consumer.consumer_id, self.topic.partition, state.epoch)
        consumer.deliver(frames, batch.messages)
        counters = self.counters
        counters.entries += len(batch)
        counters.messages += batch.messages
        counters.bytes += len(frames)
        return True

    def _join_fanout(self) -> None:
        """What comes next is had together with others, where that can be."""
        single = self._single
        if self._fanout is None or single is None or single.active is None or self._activating is not None:
            return
        consumer = self._consumers[id(single.active)]
        self._membership = join_fanout(self._fanout, self, consumer, single, self.counters, self.topic.partition)
        if self._membership is not None:
            self._log.unlisten(self.read_more)

    def _notify_end_of_topic(self) -> None:
        """The owner says so when an ack is the last one; here to consumers that come later and ask for messages."""
        chain = self._log.chain
        if chain.ended and (chain.limit is None or self._cursor.mark_delete >= chain.limit):
            for consumer in self.consumers:
                consumer.send_end_of_topic()

    def _throttle_delay(self) -> float:
        """Seconds for which the limits on what is delivered allow nothing more."""
        now = time.monotonic()
        return max(rate.delay(now) for rate in self._rates)

    def _schedule_read(self, seconds: float) -> None:
        """Look again then, or earlier."""
        loop = asyncio.get_running_loop()
        at = loop.time() + min(max(seconds, MS_PER_S**-1), MAX_SLEEP_S)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.read_more()

    def _deliver(self, entries: list[TopicEntry], now: int) -> None:
        self._ack_filtered([entry.position for entry in entries if entry.marker or self._read_gate.aborted(entry)])
        self._send(self._dispatcher.dispatch(entries, now))

    def _dispatch_uniform(self, dispatcher: MultipleDispatcher, entries: list[TopicEntry]) -> bool:
        """The short way to several consumers, where no entry needs a look at it."""
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
        consumer = self._consumers[id(state)]
        frame = entry.frame(consumer.consumer_id, self.topic.partition, state.epoch, redelivery_count, unacked)
        self._sent(consumer, frame, 1, entry.messages)

    def _send_run(self, state: ConsumerState, entries: Sequence[TopicEntry], messages: int) -> None:
        consumer = self._consumers[id(state)]
        frames = encode_views(entries, consumer.consumer_id, self.topic.partition, state.epoch)
        self._sent(consumer, frames, len(entries), messages)

    def _sent(self, consumer: Subscriber, frames: bytes, entries: int, messages: int) -> None:
        consumer.deliver(frames, messages)
        counters = self.counters
        counters.entries += entries
        counters.messages += messages
        counters.bytes += len(frames)
        for rate in self._rates:
            rate.consume(messages, len(frames))

    def _ack_filtered(self, positions: list[Position]) -> None:
        """Ack markers and aborted messages, as the owner's dispatcher does that reads them (AbstractBaseDispatcher).

        They go through any consumer at the owner, for the one that reads them may have lost its place there.
        """
        positions = [position for position in positions if not self._cursor.is_acked(position)]
        consumer = next(iter(self._consumers.values()), None)
        if not positions or consumer is None:
            return
        if self._grouped_acks is None:
            self._grouped_acks = GroupedAckSender()
            for one in self.consumers:
                one.owner_consumer.share_acks(self._grouped_acks)
        for position in positions:
            self._cursor.ack(position)
        self._grouped_acks.add(consumer.owner_consumer, encode_ids(positions), len(positions))

    # Transactions

    async def replay_pending_acks(self) -> None:
        """Find out what is acked in transactions that have not ended.

        Raises:
            MetadataError: it cannot be found out.
            BookKeeperError: it cannot be found out.
            TimeoutError: not in time.
        """
        await self._acks_in_transactions().replay()

    def _acks_in_transactions(self) -> TransactionAcks:
        if self._transaction_acks is None:
            self._transaction_acks = TransactionAcks(
                self._cursor, self._queries.pending_ack_source(), self._withhold, self._on_transaction_ended
            )
        return self._transaction_acks

    def _on_transaction_ended(self, ended: EndedTransaction) -> None:
        by = next(iter(self._consumers.values()), None)
        for ack in ended.acks:
            self._apply(ack, by, from_client=False)
        if ended.released and not self._dispatcher.restore(ended.released):
            for consumer in self.consumers:
                consumer.close_for_resubscribe(
                    "a transaction was aborted that had acked before this broker served the subscription"
                )
        self.read_more()

    def _withhold(self, positions: list[Position], by: Subscriber | None) -> None:
        for position in positions:
            self._dispatcher.withhold(position, None if by is None else by.dispatch_state)
        self._check_fanout()

    async def _read(self, position: Position, count: int) -> None:
        reason = await read_with_retry(self._log, position, count, f"{self.topic}, {self.name}", self._read_failed)
        if reason:
            self._on_unreadable(self, position, reason)

    def _read_failed(self) -> None:
        self.counters.read_failures += 1

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        log.error("%s, %s: delivery failed", self.topic, self.name, exc_info=error)
        for consumer in self.consumers:
            consumer.close_for_resubscribe("internal error")

    def _read_ended(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)
            return
        self.read_more()
