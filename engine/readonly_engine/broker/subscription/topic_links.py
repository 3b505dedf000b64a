"""What open topics ask of their owners: one small object for each topic, whose methods are the topic's callbacks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from readonly_engine.broker.tail.poll_starts import PollStarts
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from readonly_engine.broker.subscription.owner_queries import OwnerQueries
    from readonly_engine.broker.subscription.served_topic import ServedTopic
    from readonly_engine.broker.tail.obstacles import PushPolicies
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.connection import OwnerConnection
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.topic.position import Position
    from readonly_engine.topic.transactions import OwnerTransaction

log = logging.getLogger(__name__)


class OwnerLinks:
    """What the links of all topics share.

    Args:
        queries: questions to owners.
        push_policies: limits of topics that forbid one more subscription on the owner.
        topics: the open topics, which the registry adds and removes.
        replaying: whether topics are in a replay of past messages.

    Attributes:
        guarding: whether reads are limited to the owners' maximum read positions.
        tail_changes: number of changes of the source of new entries, of all topics.
        poll_starts: spreads the first polls of topics that owners push no more.
    """

    def __init__(
        self,
        queries: OwnerQueries,
        push_policies: PushPolicies,
        topics: Mapping[TopicName, ServedTopic],
        *,
        replaying: bool,
    ) -> None:
        self.queries = queries
        self.push_policies = push_policies
        self.topics = topics
        self.replaying = replaying
        self.guarding = False
        self.tail_changes = 0
        self.poll_starts = PollStarts()


def owner_consumers(topics: Mapping[TopicName, ServedTopic], topic: TopicName) -> Iterator[CursorConsumer]:
    """Yield the consumers of an open topic on its owner."""
    served = topics.get(topic)
    for subscription in [] if served is None else list(served.subscriptions.values()):
        for consumer in subscription.consumers:
            yield consumer.owner_consumer


class TopicLinks:
    """What one topic asks of its owner.

    Args:
        shared: what all topics share.
        topic: the topic.
    """

    __slots__ = ("_shared", "_topic")

    def __init__(self, shared: OwnerLinks, topic: TopicName) -> None:
        self._shared = shared
        self._topic = topic

    async def __call__(self) -> Position | None:
        """Return the topic's last entry on its owner; None if the owner does not answer. The topic's log calls it."""
        shared, topic = self._shared, self._topic
        served = shared.topics.get(topic)
        if shared.replaying or (served is not None and served.transactions.used):
            # Through a consumer the owner returns only the last message, but a later marker may end transactions.
            try:
                return await shared.queries.last_confirmed(topic)
            except RelayError as error:
                log.info("owner's last entry unknown: topic=%s error=%s", topic, error)
        last = None if shared.replaying else await self.last_message()
        if served is not None and last is not None:
            served.transactions.on_last_entry(last)
        return last

    async def last_message(self) -> Position | None:
        """Return the last message that the owner delivers; None if it does not answer."""
        shared, topic = self._shared, self._topic
        last = await shared.queries.last_message(topic)
        served = shared.topics.get(topic)
        if served is not None and last is not None:
            served.log.owner_end.confirm(last)
        return last

    async def max_read_position(self) -> Position | None:
        """Return the position up to which the owner lets consumers read now; None if it does not answer."""
        return await self._shared.queries.max_read_position(self._topic)

    async def transaction(self, txn: tuple[int, int]) -> OwnerTransaction | None:
        """Return the state of a transaction on the owner; None if it does not answer."""
        return await self._shared.queries.transaction(self._topic, txn)

    def connection(self, present: OwnerConnection | None) -> OwnerConnection | None:
        """Return a connection to the topic's owner if a consumer has it, otherwise that of any consumer; None without one."""
        found = None
        for consumer in owner_consumers(self._shared.topics, self._topic):
            connection = consumer.owner_connection
            if connection is not None and (present is None or connection is present):
                return connection
            found = found or connection
        return found

    async def push_obstacle(self) -> str:
        """Return the limit that forbids one more subscription; see PushPolicies.obstacle."""
        return await self._shared.push_policies.obstacle(self._topic)

    def count_tail_change(self) -> None:
        """Count a change of the source of new entries."""
        self._shared.tail_changes += 1

    def poll_delay(self, now: float) -> float:
        """Return the seconds after the end of the pushes until the topic may poll bookies."""
        return self._shared.poll_starts.delay(now)

    def guarding(self) -> bool:
        """Return whether reads are limited to the owner's maximum read position."""
        return self._shared.guarding

    def subscriptions(self) -> int:
        """Return the number of the topic's subscriptions on this broker."""
        served = self._shared.topics.get(self._topic)
        return 0 if served is None else len(served.subscriptions)
