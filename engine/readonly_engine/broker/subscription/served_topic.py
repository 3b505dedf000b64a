"""A topic that this broker serves, with its subscriptions on this broker."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.broker.fanout.tail_fanout import TailFanout
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.small_map import SmallMap
from readonly_engine.topic.compacted import CompactedLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from readonly_engine.broker.dispatch.latency import LatencySampler
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.broker.tail.tail_consumer import TailConsumer
    from readonly_engine.lease_guard import LeaseGuard
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.topic.compacted import Compaction
    from readonly_engine.topic.log import TopicLog
    from readonly_engine.topic.transactions import TopicTransactions
    from readonly_engine.topic.view import TopicView
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class JoinState:
    """State that consumers share while they join one subscription.

    Attributes:
        lock: held while the subscription is made, so that it is made once.
        dropped: number of times that the subscription has ended meanwhile, because its last consumer left.
        joining: number of these consumers.
    """

    __slots__ = ("dropped", "joining", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.dropped = self.joining = 0


class ServedTopic:
    """A topic and its subscriptions on this broker.

    Args:
        log: the topic's log.
        transactions: the topic's transactions.
        guard: checks the leases before each delivery.
        latency: measures some deliveries at the tail; None for none.

    Attributes:
        fanout: fan-out at the topic's tail.
        subscriptions: subscriptions by name.
        joining: number of consumers that are joining; the topic stays open for them.
        tail: lets the owner push new entries; None where bookies are always polled.
    """

    __slots__ = ("_compacted", "_join_states", "fanout", "joining", "log", "subscriptions", "tail", "transactions")

    def __init__(
        self,
        log: TopicLog,
        transactions: TopicTransactions,
        guard: LeaseGuard,
        latency: LatencySampler | None = None,
    ) -> None:
        self.log = log
        self.transactions = transactions
        self.fanout = TailFanout(log, transactions, guard, latency)
        self._compacted: CompactedLog | None = None
        self.subscriptions: SmallMap[str, Subscription] = SmallMap()
        self.joining = 0
        self.tail: TailConsumer | None = None
        self._join_states: dict[str, JoinState] | None = None  # while consumers join

    @contextmanager
    def join(self, subscription: str) -> Iterator[JoinState]:
        """Give the state of the consumers that are joining a subscription; it ends with the last of them."""
        states = self._join_states = self._join_states or {}
        state = states.setdefault(subscription, JoinState())
        state.joining += 1
        self.joining += 1
        try:
            yield state
        finally:
            self.joining -= 1
            state.joining -= 1
            if not state.joining:
                del states[subscription]
                if not states:
                    self._join_states = None

    def drop(self, subscription: Subscription) -> None:
        """Remove a subscription whose last consumer has left."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            join_state = (self._join_states or {}).get(subscription.name)
            if join_state is not None:
                join_state.dropped += 1

    async def view(self, subscribe: CommandSubscribe, find: Callable[[], Awaitable[Compaction | None]]) -> TopicView:
        """Return the log that a subscription reads: the topic, or its compacted view.

        Args:
            subscribe: the SUBSCRIBE of a consumer.
            find: finds the topic's compacted ledger; None if there is none.

        Raises:
            MetadataError: the compacted ledger cannot be found.
        """
        if not subscribe.read_compacted:
            return self.log
        if self._compacted is None:
            self._compacted = CompactedLog(self.log, find)
        try:
            await self._compacted.opened()
        except BookKeeperError as error:
            raise MetadataError(f"the compaction of {self.log.topic} cannot be read: {error}") from error
        return self._compacted

    def confirm(self, state: OwnerCursorState) -> None:
        """Handle the owner's answer, which has the last entry that consumers may read."""
        self.log.confirm(state.last)
        self.transactions.on_last_entry(state.last)

    def close(self) -> None:
        """Stop following the topic."""
        if self._compacted is not None:
            self._compacted.close()
        self.transactions.close()
        self.log.close()  # before its tail, whose end would resume the polls
        if self.tail is not None:
            self.tail.close()
