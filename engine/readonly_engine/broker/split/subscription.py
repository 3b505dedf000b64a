"""A subscription that several brokers of the pool serve: this broker dispatches the entries, or keys, that are leased to it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from readonly_engine.broker.dispatch.leased import LeasedDispatcher
from readonly_engine.broker.dispatch.leased_keys import LeasedKeyDispatcher
from readonly_engine.broker.dispatch.make import limits_of
from readonly_engine.broker.split.acks_in_force import put_in_force, receipt_in_force
from readonly_engine.broker.split.coordinator import Coordinator
from readonly_engine.broker.split.demand import entries_wanted
from readonly_engine.broker.split.key_coordinator import KeyCoordinator
from readonly_engine.broker.split.key_member import KeyMember
from readonly_engine.broker.split.keys import KeyPolicy
from readonly_engine.broker.split.member import Member
from readonly_engine.broker.split.reported_acks import ReportedAcks
from readonly_engine.broker.subscription.ignored_acks import ignored_of
from readonly_engine.broker.subscription.subscription import Subscription
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.grouped_acks import GroupedAckSender
from readonly_engine.topic.view import Follow
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.broker.split.leases import Run
    from readonly_engine.broker.split.links import CoordinatorLink
    from readonly_engine.broker.split.machines import LeaseCoordinator, LeaseMember
    from readonly_engine.broker.split.member import AckReceipt
    from readonly_engine.broker.split.runner import SplitRunner
    from readonly_engine.broker.subscription.cursor_queries import OtherBrokers
    from readonly_engine.broker.subscription.ignored_acks import SentAcks
    from readonly_engine.broker.subscription.parts import SubscriptionParts
    from readonly_engine.broker.subscription.subscriber import Subscriber
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandAck

    Connect = Callable[[Subscriber, str, SplitRunner], CoordinatorLink]
    """Makes a connection to the coordinator at the broker with a URL, with the credentials of a consumer."""


class SplitSubscription(Subscription):
    """Serves this broker's consumers of a split subscription (LeasedSubscription, OtherBrokers).

    Each consumer acks at the owner by its own zero-permit consumer, as always: an owner takes acks of any entry from any of them.
    If the pool keeps the cursor, the broker that holds it takes the owner's place, and coordinates.

    Args:
        parts: the parts of the subscription.
        on_unreadable: as in Subscription.
        run: makes what leases entries for it.
        connect: makes a connection to the coordinator at a broker of the pool, with the credentials of a consumer.
        holder: as below.
        counts: entries with redelivery counts that this broker knows from an earlier coordinator.

    Attributes:
        runner: leases entries for it, from here or another broker.
        policy: that of all consumers, for Key_Shared.
        holder: URL of the broker of the pool that holds the cursor; empty for this one, None if the owner has it.
    """

    split: ClassVar[bool] = True

    __slots__ = (
        "_connect",
        "_counts",
        "_follows_end",
        "_leases",
        "_max_unacked",
        "_reported",
        "holder",
        "policy",
        "runner",
    )

    def __init__(
        self,
        parts: SubscriptionParts,
        on_unreadable: Callable[[Subscription, Position, str], None],
        run: Callable[[SplitSubscription], SplitRunner],
        connect: Connect,
        holder: str | None = None,
        counts: tuple[Run, ...] = (),
    ) -> None:
        self.policy = KeyPolicy.of(parts.subscribe)
        super().__init__(parts, on_unreadable)
        self._max_unacked = parts.settings.limits.subscription
        self._connect = connect
        self._follows_end = False
        self._counts = counts
        self._reported = ReportedAcks()
        self.holder = holder
        if holder:
            self._grouped_acks = GroupedAckSender()
        self.runner = run(self)

    def _make_dispatcher(self, parts: SubscriptionParts) -> LeasedDispatcher | LeasedKeyDispatcher:
        settings, chain = parts.settings, parts.view.chain
        limits = limits_of(settings, durable=parts.subscribe.durable)
        self._leases: LeasedDispatcher | LeasedKeyDispatcher
        if parts.subscribe.sub_type == CommandSubscribe.Key_Shared:
            self._leases = LeasedKeyDispatcher(
                chain,
                self._cursor,
                limits,
                delayed=settings.delayed,
                sticky=self.policy.sticky,
                any_order=self.policy.any_order,
                look_ahead=settings.look_ahead,
            )
        else:
            self._leases = LeasedDispatcher(chain, self._cursor, limits, delayed=settings.delayed)
        return self._leases

    # LeasedSubscription

    def make_member(self, name: str) -> LeaseMember[Any, Any]:
        """Make what this broker has, as a member with a name."""
        if isinstance(self._leases, LeasedKeyDispatcher):
            return KeyMember(name, self._leases, self._cursor, self.ack_receipt_in_force)
        return Member(self._leases, self._cursor, self.ack_receipt, self.demand, self._clock)

    def make_coordinator(self, epoch: int) -> LeaseCoordinator[Any, Any]:
        """Make the coordinator with an epoch."""
        if isinstance(self._leases, LeasedKeyDispatcher):
            return KeyCoordinator(epoch, self._counts, self.policy)
        self._follow_end()
        return Coordinator(epoch, self._log.chain, self._cursor, self._max_unacked, self._counts)

    def make_indivisible(self) -> None:
        """Let one broker serve it: a consumer, a message or an ack can not be split."""
        self._leases.indivisible = True
        self.runner.touch()

    def demand(self, undelivered: int) -> tuple[int, int, int]:
        """Return what the consumers can take, by the size of former entries.

        Args:
            undelivered: number of entries that wait for them, which the consumers of the highest priority take first.

        Returns:
            A priority level, the number of entries that its consumers can take, and the number of unacked messages of all.
        """
        permits: dict[int, int] = {}
        unacked = 0
        for consumer in self._leases.consumers:
            unacked += consumer.unacked
            if consumer.ready:
                priority = max(consumer.priority, 0)
                permits[priority] = permits.get(priority, 0) + consumer.permits
        if self._paused or self._moving:
            return 0, 0, unacked
        wanted = entries_wanted(permits, undelivered, self.counters.entries, self.counters.messages)
        return *wanted, unacked

    def ack_receipt(self) -> AckReceipt:
        """Return a receipt for all acks of the consumers until now, and of those that have left."""
        receipts: list[AckReceipt] = [
            one for consumer in self.consumers if (one := consumer.owner_consumer.ack_receipt()) is not None
        ]
        if self._grouped_acks is not None:
            receipts.append(self._grouped_acks.receipt())
        if self.runner.has_leaving:
            receipts.append(lambda: not self.runner.has_leaving)
        return lambda: all(receipt() for receipt in receipts)

    def ack_receipt_in_force(self) -> AckReceipt:
        """Return a receipt as `ack_receipt`, after which the owner's cursor has these acks."""
        acked = self._cursor.acked_beyond(self._cursor.owner_mark_delete)
        ignored = partial(ignored_of, acked, self._log.chain, self._keeper)
        check = partial(put_in_force, f"topic={self.topic} subscription={self.name}", ignored, self._ack_again)
        return receipt_in_force(self.ack_receipt(), check, self.runner.ask)

    async def _ack_again(self, entries: list[Position]) -> None:
        consumer = next((one.owner_consumer for one in self.consumers if one.owner_consumer.subscribed), None)
        if consumer is not None and self._follows_owner:
            self._cursor_sync.ack(consumer, entries)
            await consumer.wait_for_acks()

    def acked_elsewhere(self, runs: tuple[Run, ...]) -> None:
        """Note entries whose acks another broker has sent, and the owner has answered."""
        self._reported.add(runs, asyncio.get_running_loop().time())

    def dispatch_leases(self) -> None:
        """Dispatch new leases. Their entries are confirmed, also where this broker does not follow the tail."""
        if not self.runner.may_dispatch():
            return
        leases = self._leases
        if isinstance(leases, LeasedDispatcher):
            last = leases.leased_to
            if last is not None and not self._log.chain.readable(last):
                self._log.confirm(last, counted=False)
        super().read_more()
        if self._transactions.awaited_by(self.read_more):
            self._follow_end()  # the marker may be leased to another broker

    async def read_owner_cursor(self) -> None:
        """Apply the owner's cursor to the copy; tries until the owner answers."""
        await self._catch_up()

    def begin_again(self, why: str) -> None:
        """Close the consumers, whose clients subscribe again."""
        for consumer in self.consumers:
            consumer.close_for_resubscribe(why)

    def link(self, url: str, runner: SplitRunner) -> CoordinatorLink:
        """Make a connection to the coordinator at a broker of the pool.

        Raises:
            RelayError: there is no way to that broker now.
        """
        consumer = next(iter(self._consumers.values()), None)
        if consumer is None:
            raise OwnerUnavailableError("the last consumer has left")
        return self._connect(consumer, url, runner)

    @property
    def indivisible(self) -> bool:
        """Whether it has messages or acks that only a broker that serves alone can handle."""
        return self._leases.indivisible or self._transaction_acks is not None or self._cursor.has_batches

    # The owner's cursor (OtherBrokers)

    @property
    def compares_cursor(self) -> bool:
        """Whether this broker compares the whole cursor with the owner's.

        Of Shared only the coordinator does, which has the acks of all brokers. Of Key_Shared each broker has its own acks, and
        what the owner has confirmed of the others.
        """
        return self.kind == CommandSubscribe.Key_Shared or self.runner.coordinates

    def possibly_lost(self, lost_at: float) -> list[Position]:
        """Return the entries whose acks, by others, the owner answered shortly before a time, of the event loop's clock."""
        return self._reported.before(lost_at)

    async def resume_after_move(
        self, consumer: Subscriber, state: OwnerCursorState, newest_ledger: int, observed_at: float
    ) -> bool:
        """Compare the copy of the cursor with that of a new owner: a member only its own last acks. Otherwise as Subscription."""
        self.runner.owner_moved()
        return await super().resume_after_move(consumer, state, newest_ledger, observed_at)

    async def repeat_ignored_acks(
        self, owner_consumer: CursorConsumer, sent: SentAcks, state: OwnerCursorState
    ) -> None:
        """Send acks again that the owner has ignored, as Subscription. Only a broker does that learns of resets."""
        if self.compares_cursor:
            await super().repeat_ignored_acks(owner_consumer, sent, state)

    # Subscription

    def _owned_from(self, position: Position) -> int:
        """Number of entries that one read may have: to the end of a lease. Another broker may read those after it."""
        leases = self._leases
        return max(leases.left_from(position), 1) if isinstance(leases, LeasedDispatcher) else 0

    @property
    def has_unverified_acks(self) -> bool:
        """Whether the owner's mark-delete position is worth a poll: it has the acks of the other brokers."""
        return super().has_unverified_acks or self._cursor.has_acked_ranges

    @property
    def _other_brokers(self) -> OtherBrokers | None:
        return self

    def add(self, consumer: Subscriber) -> None:
        """Add a consumer that has subscribed. One that only acks gets no messages here."""
        if consumer.acks_only:
            self._consumers[consumer.dispatch_state] = consumer
            self.runner.begin()
            return
        super().add(consumer)
        self.runner.add(consumer.dispatch_state)

    def remove(self, consumer: Subscriber) -> None:
        """Remove a consumer."""
        if consumer.acks_only:
            self._consumers.pop(consumer.dispatch_state, None)
            return
        super().remove(consumer)
        self.runner.remove(consumer.dispatch_state)

    def start(self) -> None:
        """Listen to the topic. Of a Shared one only the coordinator follows the tail, and it does not need all entries."""
        keys = isinstance(self._leases, LeasedKeyDispatcher)
        self._log.listen(self.on_tail, latency_tolerant=True, follow=Follow.ENTRIES if keys else Follow.LEDGERS)

    def _follow_end(self) -> None:
        """Follow the end of the topic from now on; Key_Shared follows its entries anyway."""
        if not self._follows_end and isinstance(self._leases, LeasedDispatcher):
            self._follows_end = True
            self._log.listen(self.on_tail, latency_tolerant=True, follow=Follow.END)

    def close(self) -> None:
        """Stop delivery, and give the leases back."""
        self.runner.stop()
        self._log.unlisten(self.on_tail)
        super().close()

    def on_tail(self) -> None:
        """Handle new entries, or a change of the topic's ledgers: lease or dispatch them at once."""
        self.dispatch_leases()
        self.runner.touch()
        if self._log.chain.ended:
            self._notify_end_of_topic()

    def read_more(self) -> None:
        """Deliver leased entries while the lease is valid, and report what more the consumers can take, soon.

        The clock is compared here, before each delivery: a timer fires late if the process was stopped.
        """
        self.dispatch_leases()
        self.runner.touch_soon()
        if self._log.chain.ended:
            self._notify_end_of_topic()

    def follow(self, settings: DispatchSettings) -> None:
        """Apply the owner's settings, which may have changed."""
        super().follow(settings)
        self._max_unacked = settings.limits.subscription
        self.runner.follow(self._max_unacked)

    def acknowledge(self, consumer: Subscriber, ack: CommandAck) -> None:
        """Apply an ack that was relayed. One in a transaction, or of a part of a batch, ends the split."""
        super().acknowledge(consumer, ack)
        if self.indivisible:
            self.make_indivisible()
