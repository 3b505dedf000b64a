"""A topic that this broker serves, with its subscriptions here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.broker.fanout.tail_fanout import TailFanout
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.topic.compacted import CompactedLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.lease_guard import LeaseGuard
    from readonly_engine.owner.consumer_events import OwnerCursorState
    from readonly_engine.topic.compacted import Compaction
    from readonly_engine.topic.log import TopicLog
    from readonly_engine.topic.transactions import TopicTransactions
    from readonly_engine.topic.view import TopicView
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


class JoinState:
    """What those share who join one subscription.

    Attributes:
        lock: held while the subscription is made, so that it is made once.
        dropped: how often it has ended meanwhile, because its last consumer had left.
    """

    __slots__ = ("__weakref__", "dropped", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.dropped = 0


class ServedTopic:
    """A topic and its subscriptions here."""

    def __init__(self, log: TopicLog, transactions: TopicTransactions, guard: LeaseGuard) -> None:
        self.log = log
        self.transactions = transactions
        self.fanout = TailFanout(log, transactions, guard)
        self._compacted: CompactedLog | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.joining = 0
        self._join_states: WeakValueDictionary[str, JoinState] = WeakValueDictionary()

    def join_state(self, subscription: str) -> JoinState:
        """What those share who join a subscription; it goes with the last of them."""
        return self._join_states.setdefault(subscription, JoinState())

    def drop(self, subscription: Subscription) -> None:
        """Serve a subscription no more whose last consumer has left."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            join_state = self._join_states.get(subscription.name)
            if join_state is not None:
                join_state.dropped += 1

    async def view(self, subscribe: CommandSubscribe, find: Callable[[], Awaitable[Compaction | None]]) -> TopicView:
        """What a subscription reads: the topic, or what compaction has left of it.

        Raises:
            MetadataError: the compaction cannot be found.
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
        """The owner says how far consumers may read."""
        self.log.confirm(state.last)
        self.transactions.on_last_entry(state.last)

    def close(self) -> None:
        """Follow the topic no more."""
        if self._compacted is not None:
            self._compacted.close()
        self.transactions.close()
        self.log.close()
