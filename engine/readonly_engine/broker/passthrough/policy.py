"""Passthrough policy: find subscriptions that the owner must serve, on SUBSCRIBE and by polling, and return them later."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from readonly_engine.background import run_forever
from readonly_engine.broker.dispatch.make import MULTIPLE
from readonly_engine.broker.passthrough.pool_metadata import direct_consumers
from readonly_engine.broker.passthrough.reasons import WHOLE_TOPIC, Reason, ReasonTracker
from readonly_engine.broker.subscription.kept import Kept
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.owner.errors import RelayError
from readonly_engine.waiting import await_shared

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.owner.namespace_policies import NamespacePolicies
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
    from readonly_engine.wire.subscribe_info import SubscribeInfo

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 5.0
"""Shortest interval between two checks of a topic's consumers on the owner."""

MAX_CONCURRENT_CHECKS = 4

MAX_CHECKS_PER_S = 20.0

MAX_CONSUMERS_PER_S = 500.0
"""Consumers per second in the statistics, which list each one. Measured: 10,000 every 5 s cost 2 % of a core on this broker, and
1 % on the owner."""

FILTERS_TTL_S = 5.0
"""Interval between two checks of entry filters. PolicyFollower keeps the answers about most namespaces that young."""

MAX_NAMESPACES_PER_S = 25.0
"""Namespaces whose entry filters are checked per second."""

UNSEEN_TTL_S = 30.0
"""The same of a topic with its own filters, where no change of policies is seen."""

CACHE_TTL_S = 1.0
"""Age of statistics that a new consumer accepts, so that simultaneous SUBSCRIBEs share one request."""

MAX_TOPICS = 10_000
"""Bound of each cache by topic."""


class PassingConsumer(Protocol):
    """A consumer that the owner serves."""

    @property
    def topic(self) -> TopicName:
        """The topic."""

    @property
    def info(self) -> SubscribeInfo:
        """The lasting fields of its SUBSCRIBE."""

    def close_for_resubscribe(self, reason: str) -> None:
        """Close the consumer, so that the client subscribes again; `reason` is logged."""


class PassedThrough(NamedTuple):
    """A passthrough subscription with consumers on this broker.

    Attributes:
        topic: topic.
        subscription: name of the subscription.
        reason: a value of `Reason`.
        text: the finding, for operators.
        consumers: number of its consumers on this broker.
    """

    topic: TopicName
    subscription: str
    reason: str
    text: str
    consumers: int


class PassThroughPolicy:
    """Decides which subscriptions pass through to the owner.

    - Shared and Key_Shared subscriptions with direct consumers on the owner: both brokers would dispatch every message.
    - All subscriptions of a topic with an entry filter, which is a plug-in of the owner.
    - Replicated subscriptions: only the owner's dispatcher processes their snapshots, as it reads them.
    - Subscriptions with an entry that cannot be read from storage.

    Args:
        admin: client of the owner's statistics and policies.
        namespaces: policies that all topics of a namespace share.
        pool: identity of this broker's pool, not its name alone: consumers of another pool of that name are direct ones.
        subscriptions: returns the subscriptions that this broker serves now; another list after each change.
        can_read: reads an entry of a topic from storage; returns whether that works.

    Attributes:
        pool: as above.
    """

    def __init__(
        self,
        admin: AdminClient,
        namespaces: NamespacePolicies,
        pool: str,
        subscriptions: Callable[[], Sequence[Subscription]],
        can_read: Callable[[TopicName, Position], Awaitable[bool]],
    ) -> None:
        self.pool = pool
        self._admin = admin
        self._namespaces = namespaces
        self._subscriptions = subscriptions
        self._compared = Kept(subscriptions, lambda one: one.kind in MULTIPLE and one.at_owner)
        self._grouped: Sequence[Subscription] | None = None  # those whose topics are in _namespaces_listed
        self._can_read = can_read
        self._reasons = ReasonTracker()
        self._consumers: dict[tuple[TopicName, str], set[PassingConsumer]] = {}
        self._stats_requests: dict[TopicName, tuple[float, asyncio.Task[dict[str, Any] | None]]] = {}
        self._filters: dict[TopicName, tuple[float, str | None]] = {}  # when and at which version they were known
        self._unreadable: dict[tuple[TopicName, str], Position] = {}
        self._listed: list[TopicName] = []
        self._namespaces_listed: list[list[TopicName]] = []  # those of _listed
        self._checks: tuple[asyncio.Task[None], ...] = ()
        self._loop = asyncio.get_running_loop()

    # Consumers

    async def admit(self, topic: TopicName, subscribe: CommandSubscribe) -> bool:
        """Return whether a new consumer must pass through.

        Raises:
            OwnerUnavailableError: the admin API does not return the topic's statistics.
        """
        await self._check(topic, subscribe)
        state = self._reasons.oldest(topic, subscribe.subscription)
        if state is None and subscribe.sub_type in MULTIPLE:
            stats = await self.statistics(topic, CACHE_TTL_S)
            self._compare(topic, subscribe.subscription, stats)
            state = self._reasons.oldest(topic, subscribe.subscription)
        return state is not None

    async def _check(self, topic: TopicName, subscribe: CommandSubscribe) -> None:
        """Look for reasons of the topic and the subscription."""
        if not await self._check_shared_filter(topic, (topic,), CACHE_TTL_S):
            await self._check_filter(topic)
        if subscribe.replicate_subscription_state:
            await self._check_replication(topic, subscribe.subscription)
        if not self._checks:
            self._checks = (
                run_forever(self._run, "the check for reasons of passthrough"),
                run_forever(self._run_filters, "the check of entry filters"),
            )

    async def refusal(self, topic: TopicName, subscribe: CommandSubscribe) -> str:
        """Return why a subscription whose cursor is kept here needs the owner; empty if it does not.

        Direct consumers have another subscription, even under its name. The owner cannot serve it where storage fails.

        Raises:
            OwnerUnavailableError: the admin API does not answer.
        """
        await self._check(topic, subscribe)
        for name, reason in ((WHOLE_TOPIC, Reason.ENTRY_FILTER), (subscribe.subscription, Reason.REPLICATED)):
            state = self._reasons.of(topic, name, reason)
            if state is not None:
                return state.text
        return ""

    def add(self, consumer: PassingConsumer) -> None:
        """Add a passthrough consumer."""
        self._consumers.setdefault((consumer.topic, consumer.info.name), set()).add(consumer)

    def remove(self, consumer: PassingConsumer) -> None:
        """Remove a passthrough consumer; ignore others."""
        key = (consumer.topic, consumer.info.name)
        consumers = self._consumers.get(key)
        if consumers is not None:
            consumers.discard(consumer)
            if not consumers:
                del self._consumers[key]

    def on_unreadable(self, subscription: Subscription, position: Position, text: str) -> None:
        """Pass a subscription through, because storage has not returned an entry for a while; the owner may have it."""
        self._unreadable[subscription.topic, subscription.name] = position
        self._reason_found(subscription.topic, subscription.name, Reason.STORAGE, text)

    @property
    def passed_through(self) -> Iterator[PassedThrough]:
        """The passthrough subscriptions with consumers on this broker, one by one: consumers may come and go meanwhile."""
        for topic, name in list(self._consumers):
            consumers, state = self._consumers.get((topic, name)), self._reasons.oldest(topic, name)
            if consumers and state is not None:
                yield PassedThrough(topic, name, state.reason, state.text, len(consumers))

    def close(self) -> None:
        """Stop the checks."""
        for check in self._checks:
            check.cancel()
        for _, request in self._stats_requests.values():
            request.cancel()

    # Reasons

    def _reason_found(self, topic: TopicName, name: str, reason: Reason, text: str) -> None:
        if not self._reasons.found(topic, name, reason, text, self._loop.time()):
            return
        log.warning("passthrough begins: topic=%s subscription=%s reason=%s", topic, name or "all", text)
        for subscription in self._subscriptions():
            if subscription.topic == topic and name in {WHOLE_TOPIC, subscription.name}:
                subscription.pause(Pause.LEAVING)
                for consumer in subscription.consumers:
                    consumer.close_for_resubscribe(text)

    def _reason_absent(self, topic: TopicName, name: str, reason: Reason) -> None:
        if not self._reasons.absent(topic, name, reason, self._loop.time()):
            return
        log.info("passthrough reason ended: topic=%s subscription=%s reason=%s", topic, name or "all", reason)
        for (passing_topic, passing), consumers in list(self._consumers.items()):
            if (
                passing_topic == topic
                and name in {WHOLE_TOPIC, passing}
                and self._reasons.oldest(topic, passing) is None
            ):
                for consumer in list(consumers):
                    consumer.close_for_resubscribe("passthrough is not needed any more")

    def _compare(self, topic: TopicName, name: str, stats: dict[str, Any] | None) -> None:
        direct = [] if stats is None else direct_consumers(stats, name, self.pool)
        if direct:
            text = f"consumers that are connected to the owner directly: {len(direct)}, one of them from {direct[0]}"
            self._reason_found(topic, name, Reason.DIRECT_CONSUMERS, text)
        else:
            self._reason_absent(topic, name, Reason.DIRECT_CONSUMERS)

    async def _check_shared_filter(self, topic: TopicName, topics: Iterable[TopicName], max_age_s: float) -> bool:
        """Check the entry filters of topics of one namespace; return False if they may differ.

        Args:
            topic: one of them.
            topics: the topics.
            max_age_s: greatest age of the answer, in seconds.
        """
        names = await self._namespaces.entry_filters(topic, max_age_s)
        if names is None:
            return False
        if names or self._reasons:
            for checked in topics:
                self._filters_known(checked, names)
        return True

    def _filters_known(self, topic: TopicName, names: str) -> None:
        if names:
            self._reason_found(topic, WHOLE_TOPIC, Reason.ENTRY_FILTER, f"the owner filters entries with {names}")
        else:
            self._reason_absent(topic, WHOLE_TOPIC, Reason.ENTRY_FILTER)

    async def _check_filter(self, topic: TopicName) -> None:
        """Check the entry filters of a topic that may have its own, unless no policy has changed since."""
        version = await self._namespaces.version(topic, FILTERS_TTL_S)
        now = self._loop.time()
        at, known = self._filters.get(topic, (-UNSEEN_TTL_S, None))
        filtered = self._reasons.of(topic, WHOLE_TOPIC, Reason.ENTRY_FILTER) is not None
        kept_s = FILTERS_TTL_S if filtered else UNSEEN_TTL_S if version is None else math.inf
        if version == known and now - at < kept_s:
            return
        if len(self._filters) >= MAX_TOPICS:
            self._filters.clear()
        self._filters[topic] = now, None
        try:
            policy = await self._admin.policy(topic.base, "entryFilters")
        except RelayError as error:
            log.info("entry filters unknown: topic=%s error=%s", topic, error)
            return
        self._filters[topic] = now, version
        self._filters_known(topic, str(policy.get("entryFilterNames") or "") if isinstance(policy, dict) else "")

    async def _check_replication(self, topic: TopicName, name: str) -> None:
        try:
            clusters = await self._admin.policy(topic.base, "replication")
        except RelayError as error:
            log.info("replication clusters unknown: topic=%s error=%s", topic, error)
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

    async def statistics(self, topic: TopicName, max_age_s: float) -> dict[str, Any] | None:
        """Return the owner's statistics of a topic, requested at most `max_age_s` ago; None if the topic does not exist.

        Raises:
            OwnerUnavailableError: the admin API does not return them.
        """
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

    # Polling

    async def _run(self) -> None:
        slots = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)
        listed = 0
        while True:
            topics = self._topics_to_ask()
            await asyncio.sleep(max(POLL_INTERVAL_S, len(topics) / MAX_CHECKS_PER_S, listed / MAX_CONSUMERS_PER_S))
            checks = [self._check_topic(topic, names, slots) for topic, names in topics.items()]
            listed = 0
            for found in await asyncio.gather(*checks, return_exceptions=True):
                if isinstance(found, BaseException):
                    log.error("check for passthrough failed", exc_info=found)
                else:
                    listed += found

    async def _run_filters(self) -> None:
        slots = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)
        while True:
            checks = [self._check_filters(topics, slots) for topics in self._topics_by_namespace()]
            await asyncio.gather(*checks)
            await asyncio.sleep(max(FILTERS_TTL_S, len(checks) / MAX_NAMESPACES_PER_S))

    def _topics_by_namespace(self) -> list[list[TopicName]]:
        subscriptions, others = self._subscriptions(), bool(self._consumers or self._reasons)
        if subscriptions is self._grouped and not others:
            return self._namespaces_listed  # thousands of topics at rest cost nothing
        self._grouped = None if others else subscriptions
        listed = [subscription.topic for subscription in subscriptions]
        listed += [topic for topic, _ in self._consumers]
        if self._reasons:
            self._reasons.forget(listed, self._loop.time())
        if listed != self._listed:  # compares identities
            namespaces: dict[tuple[str, str], list[TopicName]] = {}
            for topic in dict.fromkeys(listed):
                namespaces.setdefault((topic.tenant, topic.namespace), []).append(topic)
            self._listed, self._namespaces_listed = listed, list(namespaces.values())
        return self._namespaces_listed

    async def _check_filters(self, topics: list[TopicName], slots: asyncio.Semaphore) -> None:
        """Check the entry filters of the topics of one namespace."""
        async with slots:
            if not await self._check_shared_filter(topics[0], topics, FILTERS_TTL_S):
                for topic in topics:
                    await self._check_filter(topic)

    def _topics_to_ask(self) -> dict[TopicName, set[str]]:
        """Return the topics whose consumers at the owner are compared, each with the subscriptions."""
        topics: dict[TopicName, set[str]] = {}
        for subscription in self._compared():
            topics.setdefault(subscription.topic, set()).add(subscription.name)
        for topic, name in self._consumers:
            topics.setdefault(topic, set()).add(name)
        return topics

    async def _check_topic(self, topic: TopicName, names: set[str], slots: asyncio.Semaphore) -> int:
        """Check one topic; return the number of consumers in the owner's answer."""
        async with slots:
            for name in names:
                if self._reasons.of(topic, name, Reason.STORAGE) is not None:
                    await self._check_storage(topic, name)
                if self._reasons.of(topic, name, Reason.REPLICATED) is not None:
                    await self._check_replication(topic, name)
            try:
                stats = await self.statistics(topic, 0.0)
            except RelayError as error:
                log.info("consumers on the owner unknown: topic=%s error=%s", topic, error)
                return 0
            for name in names:
                self._compare(topic, name, stats)
            subscriptions = {} if stats is None else stats.get("subscriptions", {})
            return sum(len(subscription.get("consumers", ())) for subscription in subscriptions.values())
