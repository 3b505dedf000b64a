"""What the owner must serve itself: found when a consumer comes or soon afterwards, and taken back when that is over."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from readonly_engine.background import run_forever
from readonly_engine.broker.dispatch.make import MULTIPLE
from readonly_engine.broker.passthrough.reasons import WHOLE_TOPIC, Reason, ReasonTracker
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.owner.errors import RelayError
from readonly_engine.waiting import await_shared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)

POOL_KEY = "pulsar-readonly.pool"
"""Consumer metadata by which the owner's statistics tell consumers of a pool from others."""

MAX_METADATA_BYTES = 1024
"""More metadata of a consumer the owner refuses (maxConsumerMetadataSize)."""

POLL_INTERVAL_S = 5.0
"""Between two looks at the owner's consumers of a topic."""

MAX_CONCURRENT_CHECKS = 4

MAX_CHECKS_PER_S = 20.0

MAX_CONSUMERS_PER_S = 500.0
"""The statistics name each consumer: with 10,000 of them, asking every 5 s goes with 2 % of a core here and 1 % at the owner."""

FILTERS_TTL_S = 30.0
"""Between two looks at a topic's entry filters."""

CACHE_TTL_S = 1.0
"""Consumers that come at the same time share one look."""

MAX_TOPICS = 10_000


class PassingConsumer(Protocol):
    """A consumer that the owner serves."""

    @property
    def topic(self) -> TopicName:
        """The topic."""

    @property
    def subscribe_command(self) -> CommandSubscribe:
        """The client's SUBSCRIBE."""

    def close_for_resubscribe(self, reason: str) -> None:
        """Close the consumer, so that the client subscribes again."""


class PassedThrough(NamedTuple):
    """A subscription that passes through, with consumers here.

    Attributes:
        topic: its topic.
        subscription: its name.
        reason: why.
        text: why, for people.
        consumers: how many consumers it has here.
    """

    topic: TopicName
    subscription: str
    reason: str
    text: str
    consumers: int


def add_pool_metadata(subscribe: CommandSubscribe, pool: str) -> None:
    """Say in a consumer's metadata which pool it belongs to.

    A consumer with as much metadata as the owner takes goes without; it looks like one that is connected directly then.
    """
    size = len(POOL_KEY) + len(pool.encode())
    size += sum(len(pair.key.encode()) + len(pair.value.encode()) for pair in subscribe.metadata)
    if size <= MAX_METADATA_BYTES:
        subscribe.metadata.add(key=POOL_KEY, value=pool)


def direct_consumers(stats: dict[str, Any], subscription: str, pool: str) -> list[str]:
    """The addresses of consumers that a subscription has at the owner besides those of the pool.

    Args:
        stats: the topic's statistics, as the admin API gives them.
        subscription: its name.
        pool: the pool's name.
    """
    found = stats.get("subscriptions", {}).get(subscription, {}).get("consumers", [])
    return [
        str(consumer.get("address", "?"))
        for consumer in found
        if (consumer.get("metadata") or {}).get(POOL_KEY) != pool
    ]


class PassThroughPolicy:
    """Knows which subscriptions pass through.

    Shared and Key_Shared subscriptions do that have consumers at the owner besides ours, since both would get every message; all
    of a topic with an entry filter, which is a plug-in of the owner; replicated ones, whose snapshots only the owner's dispatcher
    takes up as it reads them; and those that meet an entry that storage does not give.

    Args:
        admin: the owner's statistics and policies.
        pool: the identity of this broker's pool: a namesake's consumers are direct ones.
        subscriptions: the subscriptions served here now.
        can_read: tries to read an entry of a topic from storage; says whether that works.
    """

    def __init__(
        self,
        admin: AdminClient,
        pool: str,
        subscriptions: Callable[[], Iterable[Subscription]],
        can_read: Callable[[TopicName, Position], Awaitable[bool]],
    ) -> None:
        self.pool = pool
        self._admin = admin
        self._subscriptions = subscriptions
        self._can_read = can_read
        self._reasons = ReasonTracker()
        self._consumers: dict[tuple[TopicName, str], set[PassingConsumer]] = {}
        self._stats_requests: dict[TopicName, tuple[float, asyncio.Task[dict[str, Any] | None]]] = {}
        self._filters: dict[TopicName, float] = {}
        self._unreadable: dict[tuple[TopicName, str], Position] = {}
        self._watch: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    # Consumers

    async def admit(self, topic: TopicName, subscribe: CommandSubscribe) -> bool:
        """Whether a consumer that comes must pass through. Marks it as one of the pool.

        Raises:
            OwnerUnavailableError: the admin API does not say who else is there.
        """
        await self._check_filter(topic)
        if subscribe.replicate_subscription_state:
            await self._check_replication(topic, subscribe.subscription)
        state = self._reasons.oldest(topic, subscribe.subscription)
        if state is None and subscribe.sub_type in MULTIPLE:
            stats = await self._stats(topic, CACHE_TTL_S)
            self._compare(topic, subscribe.subscription, stats)
            state = self._reasons.oldest(topic, subscribe.subscription)
        add_pool_metadata(subscribe, self.pool)
        if self._watch is None:
            self._watch = run_forever(self._run, "the watch for what must pass through")
        return state is not None

    def add(self, consumer: PassingConsumer) -> None:
        """A consumer passes through."""
        self._consumers.setdefault((consumer.topic, consumer.subscribe_command.subscription), set()).add(consumer)

    def remove(self, consumer: PassingConsumer) -> None:
        """It does no more."""
        key = (consumer.topic, consumer.subscribe_command.subscription)
        consumers = self._consumers.get(key)
        if consumers is not None:
            consumers.discard(consumer)
            if not consumers:
                del self._consumers[key]

    def on_unreadable(self, subscription: Subscription, position: Position, text: str) -> None:
        """An entry cannot be read from storage, for a while now: perhaps the owner can."""
        self._unreadable[subscription.topic, subscription.name] = position
        self._reason_found(subscription.topic, subscription.name, Reason.STORAGE, text)

    @property
    def passed_through(self) -> list[PassedThrough]:
        """The subscriptions that pass through and have consumers here."""
        found = []
        for (topic, name), consumers in self._consumers.items():
            state = self._reasons.oldest(topic, name)
            if state is not None:
                found.append(PassedThrough(topic, name, state.reason, state.text, len(consumers)))
        return found

    def close(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.cancel()
        for _, request in self._stats_requests.values():
            request.cancel()

    # Reasons

    def _reason_found(self, topic: TopicName, name: str, reason: Reason, text: str) -> None:
        if not self._reasons.found(topic, name, reason, text, self._loop.time()):
            return
        log.warning("%s, %s: passes through to the owner: %s", topic, name or "all subscriptions", text)
        for subscription in self._subscriptions():
            if subscription.topic == topic and name in {WHOLE_TOPIC, subscription.name}:
                subscription.pause(Pause.LEAVING)
                for consumer in subscription.consumers:
                    consumer.close_for_resubscribe(text)

    def _reason_absent(self, topic: TopicName, name: str, reason: Reason) -> None:
        if not self._reasons.absent(topic, name, reason, self._loop.time()):
            return
        log.info("%s, %s: nothing passes through any more because of %s", topic, name or "all subscriptions", reason)
        for (passing_topic, passing), consumers in list(self._consumers.items()):
            if (
                passing_topic == topic
                and name in {WHOLE_TOPIC, passing}
                and self._reasons.oldest(topic, passing) is None
            ):
                for consumer in list(consumers):
                    consumer.close_for_resubscribe("it can be served without the owner again")

    def _compare(self, topic: TopicName, name: str, stats: dict[str, Any] | None) -> None:
        direct = [] if stats is None else direct_consumers(stats, name, self.pool)
        if direct:
            text = f"{len(direct)} consumers are connected to the owner directly, one of them from {direct[0]}"
            self._reason_found(topic, name, Reason.DIRECT_CONSUMERS, text)
        else:
            self._reason_absent(topic, name, Reason.DIRECT_CONSUMERS)

    async def _check_filter(self, topic: TopicName) -> None:
        now = self._loop.time()
        if now - self._filters.get(topic, -FILTERS_TTL_S) < FILTERS_TTL_S:
            return
        if len(self._filters) >= MAX_TOPICS:
            self._filters.clear()
        self._filters[topic] = now
        try:
            policy = await self._admin.policy(topic.base, "entryFilters")
        except RelayError as error:
            log.info("%s: its entry filters are not known: %s", topic, error)
            return
        names = policy.get("entryFilterNames") if isinstance(policy, dict) else ""
        if names:
            self._reason_found(topic, WHOLE_TOPIC, Reason.ENTRY_FILTER, f"the owner filters entries with {names}")
        else:
            self._reason_absent(topic, WHOLE_TOPIC, Reason.ENTRY_FILTER)

    async def _check_replication(self, topic: TopicName, name: str) -> None:
        try:
            clusters = await self._admin.policy(topic.base, "replication")
        except RelayError as error:
            log.info("%s: the clusters that it is replicated to are not known: %s", topic, error)
            return
        if isinstance(clusters, list) and len(clusters) > 1:
            text = f"the subscription is replicated to {', '.join(sorted(map(str, clusters)))}"
            self._reason_found(topic, name, Reason.REPLICATED, text)
        else:
            self._reason_absent(topic, name, Reason.REPLICATED)

    async def _check_storage(self, topic: TopicName, name: str) -> None:
        position = self._unreadable.get((topic, name))
        if position is None or await self._can_read(topic, position):
            self._reason_absent(topic, name, Reason.STORAGE)
            if self._reasons.of(topic, name, Reason.STORAGE) is None:
                self._unreadable.pop((topic, name), None)
        else:
            state = self._reasons.of(topic, name, Reason.STORAGE)
            self._reason_found(topic, name, Reason.STORAGE, "" if state is None else state.text)

    async def _stats(self, topic: TopicName, max_age_s: float) -> dict[str, Any] | None:
        """The owner's statistics of a topic, None where there is no such topic: at most so old."""
        now = self._loop.time()
        began, request = self._stats_requests.get(topic, (0.0, None))
        if (
            request is None
            or request.cancelled()
            or (request.done() and (now - began > max_age_s or request.exception() is not None))
        ):
            if len(self._stats_requests) >= MAX_TOPICS:
                self._stats_requests = {
                    key: known for key, known in self._stats_requests.items() if not known[1].done()
                }
            request = asyncio.create_task(self._admin.stats(topic))
            self._stats_requests[topic] = (now, request)
        return await await_shared(request)

    # Watching

    async def _run(self) -> None:
        slots = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)
        listed = 0
        while True:
            topics: dict[TopicName, set[str]] = {}
            for subscription in self._subscriptions():
                names = topics.setdefault(subscription.topic, set())
                if subscription.kind in MULTIPLE:
                    names.add(subscription.name)
            for topic, name in self._consumers:
                topics.setdefault(topic, set()).add(name)
            await asyncio.sleep(max(POLL_INTERVAL_S, len(topics) / MAX_CHECKS_PER_S, listed / MAX_CONSUMERS_PER_S))
            checks = [self._check_topic(topic, names, slots) for topic, names in topics.items()]
            listed = 0
            for found in await asyncio.gather(*checks, return_exceptions=True):
                if isinstance(found, BaseException):
                    log.error("a look at the owner's consumers failed", exc_info=found)
                else:
                    listed += found
            self._reasons.forget(topics, self._loop.time())

    async def _check_topic(self, topic: TopicName, names: set[str], slots: asyncio.Semaphore) -> int:
        """Look at one topic; returns how many consumers the owner has listed for it."""
        async with slots:
            await self._check_filter(topic)
            for name in names:
                if self._reasons.of(topic, name, Reason.STORAGE) is not None:
                    await self._check_storage(topic, name)
                if self._reasons.of(topic, name, Reason.REPLICATED) is not None:
                    await self._check_replication(topic, name)
            if not names:
                return 0
            try:
                stats = await self._stats(topic, 0.0)
            except RelayError as error:
                log.info("%s: its owner does not say which consumers it has: %s", topic, error)
                return 0
            for name in names:
                self._compare(topic, name, stats)
            subscriptions = {} if stats is None else stats.get("subscriptions", {})
            return sum(len(subscription.get("consumers", ())) for subscription in subscriptions.values())
