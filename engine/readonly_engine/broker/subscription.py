"""One subscription of one topic on this broker: the shell between consumers, dispatcher, topic and owner."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from readonly_engine.broker.acks import apply_ack, without_unknown
from readonly_engine.broker.cursor import CursorCopy
from readonly_engine.broker.dispatch.make import make_dispatcher
from readonly_engine.broker.dispatch.multiple import MultipleDispatcher
from readonly_engine.broker.dispatch.receiver import Delivery, in_runs
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.broker.lease_guard import LeaseGuard
from readonly_engine.broker.owner_cursor import OwnerCursor, follow, start_of
from readonly_engine.broker.owner_leases import heed_owner
from readonly_engine.broker.pause import Suspendable
from readonly_engine.broker.place import take_place
from readonly_engine.broker.rereading import read_in_the_end
from readonly_engine.broker.txn_acks import TxnAckLog, TxnAcks, ack_of
from readonly_engine.broker.txn_gate import TxnGate
from readonly_engine.relay.ack_relay import AckRelay
from readonly_engine.topic.position import Position
from readonly_engine.topic.tail_batch import TailBatch
from readonly_engine.wire.entry_view import encode_views, summarize
from readonly_engine.wire.pending_ack_pb2 import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from readonly_engine.broker.consumer import Consumer
    from readonly_engine.broker.counters import Counters
    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.broker.dispatch.rate import RateLimit
    from readonly_engine.broker.dispatch.receiver import Receiver
    from readonly_engine.broker.owner_cursor import Questions
    from readonly_engine.broker.place import Place
    from readonly_engine.broker.together import Together
    from readonly_engine.relay.consumer import OwnerState
    from readonly_engine.topic.entries import TopicEntry
    from readonly_engine.topic.transactions import TopicTransactions
    from readonly_engine.topic.view import TopicView
    from readonly_engine.wire.acks import PlainAck
    from readonly_engine.wire.pending_ack import TxnAckRecord
    from readonly_engine.wire.pulsar_pb2 import CommandAck, CommandSubscribe, MessageIdData

log = logging.getLogger(__name__)

NS_PER_MS = 1_000_000
MS_PER_S = 1000

SETTLE_S = 5.0
"""How long acks that are under way are waited for before another consumer of a Failover subscription gets its first message."""

MOST_SLEPT_S = 3600.0
"""Delayed messages may be due in years."""


class Subscription(Suspendable):
    """Delivers a topic to the consumers of one subscription.

    Args:
        log_: the topic.
        subscribe: the first consumer's SUBSCRIBE.
        settings: what the owner's configuration and policies say.
        rates: limits on what is delivered, each with what it is shared with.
        transactions: of the topic.
        state: where the owner says that the subscription stands, and how far it lets consumers read.
        acked: what is acked at the owner: ranges (lower, upper].
        batches: batches that are acked in part, with the bits of the messages that are not.
        questions: asks for both again, and for the owner's log of acks in transactions.
        counters: where it counts what it does.
        cannot_read: called with a position and the reason when an entry cannot be read for a while: perhaps the owner can.
        together: those who get what is new on the topic together; None where nobody does.
        guard: checks the leases under which is delivered.
    """

    __slots__ = (
        "_ack_relay",
        "_activating",
        "_batch_acks",
        "_cannot_read",
        "_closed",
        "_consumers",
        "_cursor",
        "_dispatcher",
        "_guard",
        "_log",
        "_moving",
        "_multiple",
        "_owner_cursor",
        "_place",
        "_questions",
        "_rates",
        "_reading",
        "_reset",
        "_single",
        "_timer",
        "_together",
        "_transactions",
        "_txn_ack_log",
        "_txn_acks",
        "_txn_gate",
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
        state: OwnerState,
        acked: Iterable[tuple[Position, Position]],
        batches: Iterable[tuple[Position, int]],
        questions: Questions,
        counters: Counters,
        cannot_read: Callable[[Subscription, Position, str], None],
        together: Together | None = None,
        guard: LeaseGuard | None = None,
    ) -> None:
        super().__init__()
        self.topic = log_.topic
        self.name = subscribe.subscription
        self.kind = subscribe.sub_type
        self.durable = subscribe.durable
        self.counters = counters
        self._log = log_
        self._cursor = CursorCopy(log_.chain, start_of(subscribe, state))
        self._cursor.load_holes(acked)
        self._cursor.load_batches(batches)
        self._dispatcher = make_dispatcher(subscribe, log_.chain, self._cursor, settings)
        self._single = self._dispatcher if isinstance(self._dispatcher, SingleActiveDispatcher) and not rates else None
        self._batch_acks = settings.batch_acks
        self._multiple = self._dispatcher if isinstance(self._dispatcher, MultipleDispatcher) else None
        self._ack_relay = AckRelay() if self._multiple is not None else None
        self._rates = rates
        self._timer: asyncio.TimerHandle | None = None
        self._owner_cursor: OwnerCursor | None = None  # most owners stay where they are
        self._together = together
        self._guard = guard or LeaseGuard()
        self._place: Place | None = None
        self._activating: tuple[Consumer, asyncio.Task[None]] | None = None
        self._moving = 0
        self._reset = False
        self._consumers: dict[int, Consumer] = {}  # by id() of their receivers
        self._reading: asyncio.Task[None] | None = None
        self._cannot_read = cannot_read
        self._closed = False
        self._txn_acks: TxnAcks | None = None  # nor the log: most subscriptions never see a transaction
        self._txn_ack_log: TxnAckLog | None = None
        self._questions = questions
        self._transactions = transactions
        self._txn_gate = TxnGate(transactions, log_.chain, self._cursor)
        self._txn_gate.look_back(state.last)
        log_.listen(self.pump, latency_tolerant=self._multiple is not None)
        transactions.listen(self.pump)

    # Consumers

    @property
    def consumers(self) -> list[Consumer]:
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
    def behind(self) -> bool:
        """Whether something can be read that is not acked."""
        limit = self._log.chain.limit
        return limit is not None and self._cursor.mark_delete < limit

    def add(self, consumer: Consumer) -> None:
        """A consumer has subscribed."""
        self.part()
        self._consumers[id(consumer.receiver)] = consumer
        if self._ack_relay is not None:
            consumer.relayed.ack_together(self._ack_relay)
        self._dispatcher.add(consumer.receiver)
        self.heed_owner()
        self.pump()

    def remove(self, consumer: Consumer) -> None:
        """A consumer has left."""
        self.part()
        if self._activating is not None and self._activating[0] is consumer:
            self._stop_activating()
        if self._ack_relay is not None:
            self._ack_relay.flush_all()  # before another broker can ask the owner what is acked
        if self._consumers.pop(id(consumer.receiver), None) is not None:
            self._dispatcher.remove(consumer.receiver)
            self.heed_owner()
            self.pump()

    def close(self) -> None:
        """Deliver no more."""
        self.part()
        self._closed = True
        self._log.unlisten(self.pump)
        self._transactions.unlisten(self.pump)
        if self._txn_ack_log is not None:
            self._txn_ack_log.close()
        if self._reading is not None:
            self._reading.cancel()
        for waiting in (self._timer, self._refreshing):
            if waiting is not None:
                waiting.cancel()
        self._stop_activating()

    def heed_owner(self) -> None:
        """A consumer has come, or gone, or its lease at the owner has ended, or begun anew."""
        active = self._dispatcher.active if isinstance(self._dispatcher, SingleActiveDispatcher) else None
        heed_owner(self, [one for one in self.consumers if active is None or one.receiver is active])

    async def _take_over(self) -> None:
        self._cursor_moved(await self._owner.refresh(lambda: [consumer.relayed for consumer in self.consumers]))

    async def reload(self) -> int:
        """Read the topic's list of ledgers now; returns the newest one. May raise a MetadataError."""
        await self._log.reload()
        return self.newest_ledger

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has something that it has not acked."""
        self.settle()
        return self._dispatcher.outstanding

    @contextmanager
    def closing(self) -> Iterator[None]:
        """While this lasts the owner moves the cursor: nothing is delivered, and consumers that it closes stay closed."""
        with ExitStack() as consumers:
            for consumer in self.consumers:
                consumers.enter_context(consumer.relayed.closing())
            self.part()
            self._moving += 1
            try:
                yield
            finally:
                self._moving -= 1
        self.pump()

    def reset(self) -> None:
        """The cursor was moved, or is no more: what is known of it here counts no longer."""
        self._reset = True
        if self._ack_relay is not None:
            self._ack_relay.forget()

    def active_changed(self, consumer: Consumer, *, active: bool) -> None:
        """The owner says who is the active consumer of a Failover subscription."""
        dispatcher = self._dispatcher
        if not isinstance(dispatcher, SingleActiveDispatcher) or id(consumer.receiver) not in self._consumers:
            return
        self.part()
        if not active:
            dispatcher.deactivate(consumer.receiver)
        if self._activating is not None and self._activating[0] is consumer:
            if active:
                return
            self._stop_activating()
        elif active and dispatcher.active is not consumer.receiver:
            self._stop_activating()
            task = asyncio.create_task(self._activate(consumer, dispatcher))
            self._activating = (consumer, task)
            task.add_done_callback(self._task_ended)

    async def _activate(self, consumer: Consumer, dispatcher: SingleActiveDispatcher) -> None:
        """Begin to deliver to a consumer where the owner's cursor stands: the one before it may have been on another broker."""
        settled = [asyncio.ensure_future(other.relayed.settled()) for other in self.consumers]
        try:
            await asyncio.wait(settled, timeout=SETTLE_S)
        finally:
            for wait in settled:
                wait.cancel()
        state = await self._owner.take_over(consumer.relayed)
        self._activating = None
        self._txn_gate.look_back(state.last)
        self.part()
        dispatcher.activate(consumer.receiver)
        self.heed_owner()
        self.pump()

    def _stop_activating(self) -> None:
        if self._activating is not None:
            self._activating[1].cancel()
            self._activating = None

    # What clients do

    def acked(self, consumer: Consumer, ack: CommandAck) -> None:
        """Take over an ack that was relayed."""
        self.counters.acks += 1
        if ack.HasField("txnid_most_bits"):
            txn = (ack.txnid_most_bits, ack.txnid_least_bits)
            self._withhold(self._open_txns().acked(txn, without_unknown(ack, self._cursor)), consumer)
            self._follow_txn_acks().follow()
            return
        self._apply(ack, consumer, from_client=True)

    def acked_plainly(self, consumer: Consumer, ack: PlainAck) -> bool:
        """Relay an ack of whole entries, where others may ack too together with theirs, and take it over.

        Returns:
            False where the consumer does not have these entries: then nothing was done, and the ack must go alone. An owner
            leaves out all that follows an entry which it does not know.
        """
        dispatcher = self._multiple
        if dispatcher is None or self._ack_relay is None:
            consumer.relayed.ack_entries(ack.ids)
            self._cursor.ack_entries(ack.entries)
            self._keep_together()
        elif dispatcher.has_pending(consumer.receiver, ack.entries):
            self._ack_relay.add(consumer.relayed, ack.ids, len(ack.entries))
            self._cursor.ack_entries(ack.entries, delivered=True)
            if dispatcher.acked_entries(consumer.receiver, ack.entries):
                self.pump()
        else:
            return False
        self.counters.acks += 1
        return True

    def _apply(self, ack: CommandAck, consumer: Consumer | None, *, from_client: bool) -> None:
        """Take an ack over into the copy."""
        by = None if consumer is None else consumer.receiver
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
            self._owner.ack(consumer.relayed, effect.completed)
        if effect.unblocked:
            self.pump()
        self._keep_together()

    def redeliver(self, consumer: Consumer, message_ids: Iterable[MessageIdData]) -> None:
        """The client asks for messages again."""
        self.part()
        self._dispatcher.redeliver(consumer.receiver, [Position(m.ledger_id, m.entry_id) for m in message_ids])
        self.pump()

    def confirm(self, last: Position) -> None:
        """The owner says that the topic goes on to here, and lets consumers read it: a client that was told so waits for it."""
        self._log.confirm(last)
        self._transactions.told(last)

    @property
    def newest_ledger(self) -> int:
        """The last ledger of the topic that is known; -1 for none."""
        return self._log.chain.newest_ledger

    async def owner_moved(self, consumer: Consumer, state: OwnerState, newest_ledger: int, said_at: float) -> bool:
        """Compare with the owner's cursor after it came back.

        Args:
            consumer: one that is at the owner again.
            state: what the owner says now.
            newest_ledger: the topic's last ledger before the owner moved.
            said_at: when it has said so (time.monotonic).

        Returns:
            Whether this copy can go on. After a reset it cannot: the consumers must subscribe again, as they would at the owner.
        """
        known = (consumer.relayed, said_at, state, newest_ledger)
        goes_on = await self._owner.goes_on(*known, [one.relayed for one in self.consumers], self._ack_relay)
        if not goes_on:
            self.reset()
        return goes_on

    def ends_at(self, state: OwnerState) -> bool:
        """Whether the owner's cursor stands at the end: then nothing can be acked behind its mark-delete position."""
        return state.mark_delete is not None and self._log.chain.after(state.mark_delete) > state.last

    def caught_up_with(self, state: OwnerState) -> bool:
        """Follow the owner's cursor where it is ahead. Returns whether it is ahead, or as far."""
        if not follow(self._cursor, self._log.chain, state):
            return False
        self._cursor_moved(state)
        return True

    @property
    def _owner(self) -> OwnerCursor:
        if self._owner_cursor is None:
            self._owner_cursor = OwnerCursor(
                f"{self.topic}, {self.name}", self._log, self._cursor, self._questions, self.confirm, self._cursor_moved
            )
        return self._owner_cursor

    def _cursor_moved(self, state: OwnerState) -> None:
        self._dispatcher.cursor_moved()
        self._txn_gate.look_back(state.last)
        self.pump()

    # Delivery

    def granted(self, consumer: Consumer, permits: int) -> None:
        """The client has asked for so many messages more."""
        if self._place is None:
            self.pump()
        else:
            self._place.granted(consumer, permits)

    def settle(self) -> None:
        """Reckon up what was had together with others."""
        if self._place is not None:
            self._place.settle()

    def part(self) -> None:
        """Get alone what is new: something has happened to this subscription, or will."""
        if self._place is not None:
            self._place.leave()
            self._place = None
            self._log.listen(self.pump)

    def _keep_together(self) -> None:
        """An ack may have gone beyond what was delivered; then it is looked at each entry."""
        if self._place is not None and not self._cursor.untouched(self._place.following):
            self.part()

    def pump(self) -> None:
        """Deliver what can be delivered now; read what is missing."""
        self._guard.look()
        self.part()
        newest = self._log.latest_batch
        if (
            newest is not None
            and self._take(newest)
            and (newest.complete or self._log.await_notification(newest.following))
        ):
            self._join()
            return
        while self._reading is None and not self._closed and not self._paused and not self._moving:
            if self._rates and (delay := self._held_back()):
                self._wake_in(delay)
                return
            now = time.time_ns() // NS_PER_MS
            want = self._dispatcher.want(now)
            due = self._dispatcher.next_due
            if due is not None:
                self._wake_in((due - now + 1) / MS_PER_S)
            if want is None:
                return
            position, count = want
            readable = self._log.chain.readable(position)
            if readable and self._log.await_notification(position):
                return  # all others are about to get it, too
            for rate in self._rates:
                count = rate.allowance(count)
            entries = newest.entries(position, count) if readable and newest is not None else []
            entries = entries or self._log.cached(position, count)
            if entries:
                if self._single is not None and self._take_behind(self._single.affordable(entries)):
                    continue
                if self._multiple is not None and self._hand_out(self._multiple, entries):
                    continue
                entries = self._txn_gate.decided(entries)
                if not entries:
                    return
                self._deliver(entries, now)
            elif readable:
                self._reading = asyncio.create_task(self._read(position, count))
                self._reading.add_done_callback(self._read_ended)
            else:
                self._tell_end()
                return

    def _take_behind(self, entries: list[TopicEntry]) -> bool:
        """The short way behind the tail; of the last entry the client may get more messages than it has asked for."""
        return self._take(TailBatch(entries, self._log.chain.after(entries[-1].position)), 1)

    def _take(self, burst: TailBatch, permits: int = 0) -> bool:
        """The short way, where nothing speaks against it: all of a burst at once, at the tail in bytes that others get too."""
        dispatcher = self._single
        if (
            dispatcher is None
            or not burst.uniform
            or self._reading is not None
            or self._closed
            or self._paused
            or self._moving
            or not self._txn_gate.allows(burst.last)
        ):
            return False
        receiver = dispatcher.take(burst, permits)
        if receiver is None:
            return False
        consumer = self._consumers[id(receiver)]
        chunk = burst.frames(consumer.consumer_id, self.topic.partition, receiver.epoch)
        consumer.deliver(chunk, burst.messages)
        counters = self.counters
        counters.entries += len(burst)
        counters.messages += burst.messages
        counters.bytes += len(chunk)
        return True

    def _join(self) -> None:
        """What comes next is had together with others, where that can be."""
        single = self._single
        if self._together is None or single is None or single.active is None or self._activating is not None:
            return
        consumer = self._consumers[id(single.active)]
        self._place = take_place(self._together, self, consumer, single, self.counters, self.topic.partition)
        if self._place is not None:
            self._log.unlisten(self.pump)

    def _tell_end(self) -> None:
        """The owner says so when an ack is the last one; here to consumers that come later and ask for messages."""
        chain = self._log.chain
        if chain.ended and (chain.limit is None or self._cursor.mark_delete >= chain.limit):
            for consumer in self.consumers:
                consumer.reached_end()

    def _held_back(self) -> float:
        """Seconds for which the limits on what is delivered allow nothing more."""
        now = time.monotonic()
        return max(rate.delay(now) for rate in self._rates)

    def _wake_in(self, seconds: float) -> None:
        """Look again then, or earlier."""
        loop = asyncio.get_running_loop()
        at = loop.time() + min(max(seconds, MS_PER_S**-1), MOST_SLEPT_S)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.pump()

    def _deliver(self, entries: list[TopicEntry], now: int) -> None:
        self._ack_filtered([entry.position for entry in entries if entry.marker or self._txn_gate.aborted(entry)])
        self._send(self._dispatcher.offer(entries, now))

    def _hand_out(self, dispatcher: MultipleDispatcher, entries: list[TopicEntry]) -> bool:
        """The short way to several consumers, where no entry needs a look at it."""
        _, _, plain, loose = summarize(entries)
        if not (plain and loose and self._txn_gate.allows(entries[-1].position)):
            return False
        runs = dispatcher.offer_plainly(entries)
        if runs is None:
            return False
        for receiver, run, messages in runs:
            if len(run) == 1:
                self._send_entry(Delivery(receiver, run[0]))
            else:
                self._send_run(receiver, run, messages)
        return True

    def _send(self, deliveries: list[Delivery]) -> None:
        for run in in_runs(deliveries):
            if len(run) == 1:
                self._send_entry(run[0])
            else:
                entries = [one.entry for one in run]
                self._send_run(run[0].receiver, entries, summarize(entries)[0])

    def _send_entry(self, delivery: Delivery) -> None:
        receiver, entry, redelivery_count, unacked = delivery
        consumer = self._consumers[id(receiver)]
        frame = entry.frame(consumer.consumer_id, self.topic.partition, receiver.epoch, redelivery_count, unacked)
        self._sent(consumer, frame, 1, entry.messages)

    def _send_run(self, receiver: Receiver, entries: Sequence[TopicEntry], messages: int) -> None:
        consumer = self._consumers[id(receiver)]
        frames = encode_views(entries, consumer.consumer_id, self.topic.partition, receiver.epoch)
        self._sent(consumer, frames, len(entries), messages)

    def _sent(self, consumer: Consumer, frames: bytes, entries: int, messages: int) -> None:
        consumer.deliver(frames, messages)
        counters = self.counters
        counters.entries += entries
        counters.messages += messages
        counters.bytes += len(frames)
        for rate in self._rates:
            rate.take(messages, len(frames))

    def _ack_filtered(self, positions: list[Position]) -> None:
        """Ack markers and aborted messages, as the owner's dispatcher does that reads them (AbstractBaseDispatcher)."""
        positions = [position for position in positions if not self._cursor.is_acked(position)]
        consumer = next(iter(self._consumers.values()), None)
        if not positions or consumer is None:
            return
        for position in positions:
            self._cursor.ack(position)
        self._owner.ack(consumer.relayed, positions)

    # Transactions

    async def replay_txn_acks(self) -> None:
        """Find out what is acked in transactions that have not ended.

        Raises:
            MetadataError: it cannot be found out.
            BookKeeperError: it cannot be found out.
            TimeoutError: not in time.
        """
        await self._follow_txn_acks().replay()

    def _follow_txn_acks(self) -> TxnAckLog:
        if self._txn_ack_log is None:
            self._txn_ack_log = TxnAckLog(self._questions.txn_ack_source(), self._txn_ack_noted)
        return self._txn_ack_log

    def _open_txns(self) -> TxnAcks:
        if self._txn_acks is None:
            self._txn_acks = TxnAcks(self._cursor)
        return self._txn_acks

    def _txn_ack_noted(self, record: TxnAckRecord) -> None:
        """The owner has noted an ack in a transaction, or the end of one."""
        if record.operation == Operation.ACK:
            self._withhold(self._open_txns().acked(record.txn, ack_of(record)))
            return
        ended = self._open_txns().ended(record.txn, committed=record.operation == Operation.COMMIT)
        by = next(iter(self._consumers.values()), None)
        for ack in ended.acks:
            self._apply(ack, by, from_client=False)
        if ended.released and not self._dispatcher.restore(ended.released):
            for consumer in self.consumers:
                consumer.dismiss("a transaction was aborted that had acked before this broker served the subscription")
        self.pump()

    def _withhold(self, positions: list[Position], by: Consumer | None = None) -> None:
        for position in positions:
            self._dispatcher.withhold(position, None if by is None else by.receiver)
        self._keep_together()

    async def _read(self, position: Position, count: int) -> None:
        reason = await read_in_the_end(self._log, position, count, f"{self.topic}, {self.name}", self._read_failed)
        if reason:
            self._cannot_read(self, position, reason)

    def _read_failed(self) -> None:
        self.counters.read_failures += 1

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        log.error("%s, %s: delivery failed", self.topic, self.name, exc_info=error)
        for consumer in self.consumers:
            consumer.dismiss("internal error")

    def _read_ended(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._fail(error)
            return
        self.pump()
