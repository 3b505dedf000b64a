"""One subscription of one topic on this broker: consumers, activation and acks. Its delivery is in `delivery.py`."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, ClassVar

from readonly_engine.broker.cursors.consumers import FAILOVER_DELAY_S
from readonly_engine.broker.dispatch.acks import apply_ack, without_unknown_entries
from readonly_engine.broker.dispatch.make import apply_settings
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.broker.subscription.batch_index_acks import RENEW_S
from readonly_engine.broker.subscription.cursor_sync import CursorSync, follow_owner
from readonly_engine.broker.subscription.delivery import DeliveryLoop
from readonly_engine.broker.subscription.ignored_acks import SentAcks, find_ignored_acks
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.broker.subscription.transactions import TransactionAcks
from readonly_engine.owner.errors import RelayError
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.broker.subscription.cursor_queries import OtherBrokers
    from readonly_engine.broker.subscription.parts import SubscriptionParts
    from readonly_engine.broker.subscription.pending_acks import EndedTransaction
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.wire.acks import PlainAck
    from readonly_engine.wire.pulsar_pb2 import CommandAck, MessageIdData

log = logging.getLogger(__name__)

ACK_WAIT_S = 5.0
"""Time to wait for acks under way, before the next active consumer of a Failover subscription gets its first message."""


class Subscription(DeliveryLoop):
    """Serves the consumers of one subscription: delivers (DeliveryLoop), applies their acks, and follows the owner's cursor.

    Args:
        parts: the parts of the subscription.
        on_unreadable: called with the subscription, a position and the reason when storage does not return an entry for a while.

    Attributes:
        kind: type of the subscription.
        durable: whether the owner stores its cursor.
        split: whether other brokers of the pool serve it, too.
    """

    split: ClassVar[bool] = False

    __slots__ = (
        "_batch_acks",
        "_lazy_cursor_sync",
        "_marked_at",
        "_on_unreadable",
        "_reset",
        "_settings",
        "_stored",
        "_transaction_acks",
        "durable",
        "kind",
    )

    def __init__(self, parts: SubscriptionParts, on_unreadable: Callable[[Subscription, Position, str], None]) -> None:
        super().__init__(parts)
        self.kind = parts.subscribe.sub_type
        self.durable = parts.subscribe.durable and parts.keeper.at_owner
        parts.keeper.serve(self)
        self._batch_acks = parts.settings.batch_acks
        self._settings = parts.settings
        self._stored = parts.subscribe.durable
        self._on_unreadable = on_unreadable
        self._reset = False
        self._marked_at: float | None = None
        self._lazy_cursor_sync: CursorSync | None = None  # most topics keep their owner
        self._transaction_acks: TransactionAcks | None = None  # most subscriptions have no transactions

    # Consumers

    @property
    def mark_delete(self) -> Position:
        """The mark-delete position: every entry up to here is acked."""
        return self._cursor.mark_delete

    @property
    def backlog(self) -> int:
        """Number of readable unacked entries. Pulsar's msgBacklog counts entries, too."""
        limit = self._log.chain.limit
        return 0 if limit is None else self._cursor.unacked_up_to(limit)

    @property
    def backlog_steps(self) -> int:
        """Work of `backlog`: the acked ranges and the ledgers that it goes through."""
        chain, ranges = self._log.chain, self._cursor.acked_ranges
        if self._cursor.mark_delete.ledger_id == chain.newest_ledger:
            return 1 + ranges
        return 1 + ranges + chain.ledger_count

    @property
    def batches(self) -> list[tuple[Position, int]]:
        """The partly acked batches, for later consumers; none during and after a move of the cursor."""
        return [] if self._moving or self._reset else self._cursor.batches

    @property
    def at_owner(self) -> bool:
        """Whether the owner keeps its cursor."""
        return self._keeper.at_owner

    @property
    def marked(self) -> bool:
        """Whether the subscription has or had partly acked batches here, which the pool's record shows."""
        return self._marked_at is not None

    @property
    def has_backlog(self) -> bool:
        """Whether there are readable unacked entries."""
        limit = self._log.chain.limit
        return limit is not None and self._cursor.mark_delete < limit

    def follow(self, settings: DispatchSettings) -> None:
        """Apply the owner's settings, which may have changed. How acks of single messages count stays as it is."""
        settings = self._keeper.adapted(settings)
        if settings == self._settings:
            return
        self._settings = settings
        self.leave_fanout()
        if apply_settings(self._dispatcher, settings, durable=self._stored):
            self.read_more()

    def expose_entry_metadata(self, *, exposed: bool) -> None:
        """Send the owner's own metadata of entries to the clients that take it, or to none."""
        self.leave_fanout()
        for consumer in self.consumers:
            consumer.dispatch_state.exposed = exposed and consumer.takes_entry_metadata

    def add(self, consumer: Subscriber) -> None:
        """Add a consumer that has subscribed."""
        self.leave_fanout()
        self._consumers[consumer.dispatch_state] = consumer
        if self._grouped_acks is not None:
            consumer.owner_consumer.share_acks(self._grouped_acks)
        self._dispatcher.add(consumer.dispatch_state)
        self.on_lease_changed()
        self.read_more()

    def remove(self, consumer: Subscriber) -> None:
        """Remove a consumer."""
        self.leave_fanout()
        if self._activating is not None and self._activating[0] is consumer:
            self._stop_activating()
        if self._grouped_acks is not None:
            self._grouped_acks.flush_all()  # before another broker can read the owner's cursor
        if self._consumers.pop(consumer.dispatch_state, None) is not None:
            self._dispatcher.remove(consumer.dispatch_state)
            self.on_lease_changed()
            self.read_more()

    def close(self) -> None:
        """Stop delivery and all tasks of the subscription."""
        super().close()
        self._keeper.release(self)
        if self._transaction_acks is not None:
            self._transaction_acks.close()
        self._stop_activating()

    def on_lease_changed(self) -> None:
        """Suspend delivery while no served consumer has a valid lease."""
        active = self._dispatcher.active if isinstance(self._dispatcher, SingleActiveDispatcher) else None
        served = [one for one in self.consumers if active is None or one.dispatch_state is active]
        suspended = bool(self.paused & Pause.OWNER)
        if not served or any(consumer.lease_valid for consumer in served):
            if suspended:
                message = "subscription resumed, its owner answers: topic=%s subscription=%s"
                log.log(self._lease_level(logging.INFO), message, self.topic, self.name)
                self.resume(Pause.OWNER)
        elif not suspended:
            message = "subscription suspended, its owner does not answer: topic=%s subscription=%s"
            log.log(self._lease_level(logging.WARNING), message, self.topic, self.name)
            self.pause(Pause.OWNER)

    def _lease_level(self, level: int) -> int:
        """Return the level of a log line about a suspension: of very many idle subscriptions it is of no interest."""
        return level if self.has_backlog else logging.DEBUG

    def _unreadable(self, position: Position, reason: str) -> None:
        self._on_unreadable(self, position, reason)

    async def _catch_up(self) -> None:
        self._cursor_moved(
            await self._cursor_sync.refresh(lambda: [consumer.owner_consumer for consumer in self.consumers])
        )

    async def reload(self) -> int:
        """Read the topic's list of ledgers; return the newest one.

        Raises:
            MetadataError: the list cannot be read.
        """
        await self._log.reload()
        return self.newest_ledger

    @property
    def outstanding(self) -> bool:
        """Whether a consumer has unacked messages."""
        self.flush_accounting()
        return self._dispatcher.outstanding

    @contextmanager
    def moving_cursor(self) -> Iterator[None]:
        """Pause delivery while the owner moves the cursor. Consumers that the owner closes meanwhile do not subscribe again."""
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
        """Handle a moved or deleted cursor: the copy is invalid."""
        self._reset = True
        if self._grouped_acks is not None:
            self._grouped_acks.forget()

    def active_changed(self, consumer: Subscriber, *, active: bool) -> None:
        """Handle ACTIVE_CONSUMER_CHANGE: the owner has elected the active consumer of a Failover subscription."""
        dispatcher = self._dispatcher
        if not isinstance(dispatcher, SingleActiveDispatcher) or consumer.dispatch_state not in self._consumers:
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
        """Make a consumer active, at the owner's cursor: the former active consumer may be on another broker."""
        if await self._previous_active_may_ack():
            # An owner waits as long, then sends ACTIVE_CONSUMER_CHANGE. It does not deliver meanwhile; a read-only broker does.
            await asyncio.sleep(FAILOVER_DELAY_S)
        waits = [asyncio.ensure_future(other.owner_consumer.wait_for_acks()) for other in self.consumers]
        try:
            await asyncio.wait(waits, timeout=ACK_WAIT_S)
        finally:
            for wait in waits:
                wait.cancel()
        state = await self._cursor_sync.catch_up(consumer.owner_consumer)
        self._activating = None
        self._check_open_transactions(state.last)
        self.leave_fanout()
        dispatcher.activate(consumer.dispatch_state)
        self.on_lease_changed()
        self.read_more()

    async def _previous_active_may_ack(self) -> bool:
        """Return whether the former active consumer may be connected still, and may have messages to ack."""
        try:
            return await self._keeper.others_ack()
        except RelayError as error:
            log.info("consumers on the owner unknown: topic=%s subscription=%s error=%s", self.topic, self.name, error)
            return True

    def _stop_activating(self) -> None:
        if self._activating is not None:
            self._activating[1].cancel()
            self._activating = None

    # Requests of clients

    def acknowledge(self, consumer: Subscriber, ack: CommandAck) -> None:
        """Apply an ack that was relayed."""
        self.counters.acks += 1
        if ack.HasField("txnid_most_bits"):
            txn = (ack.txnid_most_bits, ack.txnid_least_bits)
            self._acks_in_transactions().add(txn, without_unknown_entries(ack, self._cursor), consumer)
            return
        self._apply(ack, consumer, from_client=True)

    def ack_entries(self, consumer: Subscriber, ack: PlainAck) -> bool:
        """Relay an ack of complete entries, and apply it. Shared and Key_Shared subscriptions group such acks.

        Returns:
            False if the consumer does not have all entries pending. Then nothing was done, and the ack must be sent separately,
            because an owner ignores the rest of an ack after an unknown entry.
        """
        dispatcher = self._multiple
        if dispatcher is None:
            consumer.owner_consumer.ack_entries(ack.ids)
            self._cursor.ack_entries(ack.entries)
            self._check_fanout()
        else:
            entries, state = ack.entries, consumer.dispatch_state
            messages = dispatcher.take_pending(state, entries)
            if messages is None:
                return False
            if self._grouped_acks is None:
                consumer.owner_consumer.ack_entries(ack.ids)
            else:
                self._grouped_acks.add(consumer.owner_consumer, ack.ids, len(entries))
            self._cursor.ack_entries(entries, delivered=True)
            if dispatcher.acked_entries(state, entries, messages):
                self.read_more()
        self.counters.acks += 1
        return True

    def _apply(self, ack: CommandAck, consumer: Subscriber | None, *, from_client: bool) -> None:
        """Apply an ack to the cursor copy."""
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
            # The owner has the acks of single messages, unless it was restarted meanwhile.
            self._cursor_sync.ack(consumer.owner_consumer, effect.completed)
        if self.durable and self._cursor.has_batches:
            self.mark_batches()
        if effect.unblocked:
            self.read_more()
        self._check_fanout()

    def mark_batches(self) -> None:
        """Let the next broker ask the owner for partly acked batches."""
        now = time.monotonic()
        if self._marked_at is None or now - self._marked_at > RENEW_S:
            self._marked_at = now
            self._keeper.mark_batches()

    def redeliver(self, consumer: Subscriber, message_ids: Iterable[MessageIdData]) -> None:
        """Handle REDELIVER_UNACKNOWLEDGED_MESSAGES."""
        self.leave_fanout()
        self._dispatcher.redeliver(consumer.dispatch_state, [Position(m.ledger_id, m.entry_id) for m in message_ids])
        self.read_more()

    def confirm(self, last: Position) -> None:
        """Handle the owner's last entry that consumers may read; a client that got this answer waits for the entry."""
        self._log.confirm(last)
        self._transactions.on_last_entry(last)

    @property
    def newest_ledger(self) -> int:
        """The last known ledger of the topic; -1 for none."""
        return self._log.chain.newest_ledger

    async def resume_after_move(
        self, consumer: Subscriber, state: OwnerCursorState, newest_ledger: int, observed_at: float
    ) -> bool:
        """Compare the cursor copy with the owner's cursor, after a consumer has returned to the owner.

        Args:
            consumer: the consumer that has returned.
            state: the owner's answer.
            newest_ledger: the topic's last ledger before the owner moved.
            observed_at: time of the answer (time.monotonic).

        Returns:
            Whether the copy is valid. After a reset it is not: the consumers must subscribe again, as on the owner.
        """
        known = (consumer.owner_consumer, observed_at, state, newest_ledger)
        resumable = await self._cursor_sync.can_resume(
            *known, [one.owner_consumer for one in self.consumers], self._grouped_acks, self._other_brokers
        )
        if not resumable:
            self.reset()
        return resumable

    @property
    def _other_brokers(self) -> OtherBrokers | None:
        """The other brokers of the pool that serve it; None without any."""
        return None

    def is_at_end(self, state: OwnerCursorState) -> bool:
        """Return whether the owner's cursor is at the end of the topic, so that no later entry can be acked."""
        return state.mark_delete is not None and self._log.chain.after(state.mark_delete) > state.last

    def follow_owner(self, state: OwnerCursorState) -> bool:
        """Move the copy to the owner's mark-delete position, unless the copy is ahead. Return whether the copy is not ahead."""
        if not follow_owner(self._cursor, self._log.chain, state):
            return False
        self._cursor_moved(state)
        return True

    @property
    def has_unverified_acks(self) -> bool:
        """Whether the copy is not at the owner's last known mark-delete position. It is compared often, so it is cheap."""
        return self._cursor.mark_delete != self._cursor.owner_mark_delete

    @property
    def sent_acks(self) -> SentAcks:
        """The acks of now, for a comparison with the owner's cursor."""
        return SentAcks.of(self._cursor, [one.owner_consumer for one in self.consumers], self._grouped_acks)

    async def repeat_ignored_acks(
        self, owner_consumer: CursorConsumer, sent: SentAcks, state: OwnerCursorState
    ) -> None:
        """Send acks again that the owner has answered and ignored (ignored_acks.py).

        Args:
            owner_consumer: the consumer that sends them.
            sent: acks before the request for `state`.
            state: the owner's answer.

        Raises:
            RelayError: the owner's cursor cannot be read.
        """
        if not self._follows_owner:
            return
        ignored = await find_ignored_acks(sent, state, self._cursor, self._log.chain, self._keeper)
        if ignored and self._follows_owner:
            log.warning(
                "sending acks again that the owner ignored: topic=%s subscription=%s acks=%d first=%s",
                self.topic,
                self.name,
                len(ignored),
                ignored[0],
            )
            self._cursor_sync.ack(owner_consumer, ignored)

    @property
    def _follows_owner(self) -> bool:
        """Whether the copy belongs to the owner's cursor: no consumer is away, and the cursor is not being moved."""
        in_sync = all(consumer.in_sync for consumer in self.consumers)
        return in_sync and not self._moving and not self._reset and not self._closed

    @property
    def _cursor_sync(self) -> CursorSync:
        if self._lazy_cursor_sync is None:
            self._lazy_cursor_sync = CursorSync(
                f"topic={self.topic} subscription={self.name}",
                self._log,
                self._cursor,
                self._keeper,
                self.confirm,
                self._cursor_moved,
            )
        return self._lazy_cursor_sync

    def _cursor_moved(self, state: OwnerCursorState) -> None:
        self._dispatcher.cursor_moved()
        self._check_open_transactions(state.last)
        self.read_more()

    # Transactions

    async def replay_pending_acks(self) -> None:
        """Read the acks in open transactions from the owner's log.

        Raises:
            MetadataError: the log cannot be found.
            BookKeeperError: the log cannot be read.
            TimeoutError: the log was not read in time.
        """
        await self._acks_in_transactions().replay()

    def _acks_in_transactions(self) -> TransactionAcks:
        if self._transaction_acks is None:
            self._transaction_acks = TransactionAcks(
                self._cursor, self._keeper.pending_ack_source(), self._mark_pending_ack, self._on_transaction_ended
            )
        return self._transaction_acks

    def _on_transaction_ended(self, ended: EndedTransaction) -> None:
        by = next(iter(self._consumers.values()), None)
        for ack in ended.acks:
            self._apply(ack, by, from_client=False)
        if ended.released and not self._dispatcher.restore(ended.released):
            for consumer in self.consumers:
                consumer.close_for_resubscribe(
                    "aborted transaction has acks from before this broker served the subscription"
                )
        self.read_more()

    def _mark_pending_ack(self, positions: list[Position], by: Subscriber | None) -> None:
        for position in positions:
            self._dispatcher.withhold(position, None if by is None else by.dispatch_state)
        self._check_fanout()
