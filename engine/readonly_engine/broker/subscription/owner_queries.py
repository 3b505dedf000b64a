"""Questions to the source cluster about cursors and topics: through consumers, the admin API, and the pool's own records."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.broker.subscription.batch_index_acks import NOT_MARKED
from readonly_engine.broker.subscription.cursor_queries import OwnerCursorRanges
from readonly_engine.broker.subscription.owner_policies import CONFIGURATION_TTL_S, POLICIES_TTL_S, OwnerPolicies
from readonly_engine.broker.subscription.pending_acks import PendingAckSource, pending_ack_log_name
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError, RelayError
from readonly_engine.owner.partial_batches import FIRST_PERMITS, SEARCH_MESSAGES
from readonly_engine.owner.partial_batches_request import FIRST_WAIT_S, ask_partial_batches
from readonly_engine.topic.position import EARLIEST
from readonly_engine.topic.transactions import OwnerTransaction
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any

    from readonly_engine.broker.dispatch.make import DispatchSettings
    from readonly_engine.broker.subscription.batch_index_acks import BatchIndexAckStore
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.owner.cursor_consumer import CursorConsumer
    from readonly_engine.owner.namespace_policies import NamespacePolicies
    from readonly_engine.topic.log import TopicLog
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.subscribe_info import SubscribeInfo

log = logging.getLogger(__name__)

PROBE_WAIT_S = 0.3
"""Time for the first message of a search that no mark has asked for, in seconds."""

STATE_TIMEOUT_S = 5.0
"""Time for an owner to answer through a consumer. Later, the admin API is asked."""


class OwnerQueries:
    """Asks where subscriptions and topics stand.

    Args:
        admin: the admin API of the source cluster.
        batches: store of partly acked batches; None without one.
        owner_consumers: returns this broker's consumers of a topic.
        make_log: makes a log, from its name and a function that returns its last entry.
        has_pending_acks: returns whether a subscription ever had acks in transactions; True if unknown.
        on_exposure: called after a change of `exposes_entry_metadata`.
    """

    def __init__(
        self,
        admin: AdminClient,
        batches: BatchIndexAckStore | None,
        owner_consumers: Callable[[TopicName], Iterable[CursorConsumer]],
        make_log: Callable[[TopicName, Callable[[], Awaitable[Position | None]]], TopicLog],
        has_pending_acks: Callable[[TopicName, str], Awaitable[bool]],
        on_exposure: Callable[[], None] = lambda: None,
    ) -> None:
        self._admin = admin
        self._batches = batches
        self._owner_consumers = owner_consumers
        self._make_log = make_log
        self._has_pending_acks = has_pending_acks
        self._policies = OwnerPolicies(admin, on_exposure)
        self._transactions = False

    # The source cluster

    async def settings(
        self, topic: TopicName, kind: CommandSubscribe.SubType, max_age_s: float = POLICIES_TTL_S
    ) -> DispatchSettings:
        """Return the dispatch settings of a type of subscriptions, of policies that are at most `max_age_s` old."""
        return await self._policies.of(topic, kind, max_age_s)

    @property
    def namespace_policies(self) -> NamespacePolicies:
        """Policies that all topics of a namespace share."""
        return self._policies.namespaces

    async def transactions(self, max_age_s: float = CONFIGURATION_TTL_S) -> bool | None:
        """Return whether the cluster has transactions; None if no broker answers.

        Brokers that restart one by one differ for a while. The first True stays.

        Args:
            max_age_s: greatest age of the answer, in seconds.
        """
        if not self._transactions:
            found = await self._policies.transactions(max_age_s)
            if not found:
                return found
            self._transactions = True
        return True

    @property
    def cluster_name(self) -> str:
        """Name of the source cluster; empty while unknown. Nothing is requested for it."""
        return self._policies.cluster_name

    async def configuration(self, max_age_s: float = CONFIGURATION_TTL_S) -> dict[str, Any] | None:
        """Return the configuration of the owner brokers, as texts by key; None if unknown.

        Args:
            max_age_s: greatest age of a kept answer, in seconds.
        """
        return await self._policies.configuration(max_age_s)

    @property
    def exposes_entry_metadata(self) -> bool:
        """Whether the owner brokers send their own metadata of entries to clients that take it; False if unknown."""
        return self._policies.exposes_entry_metadata

    async def authorizes(self) -> bool | None:
        """Return whether the owner brokers authorize clients; None if unknown."""
        return await self._policies.authorizes()

    async def may_have_transactions(self) -> bool:
        """Return whether the cluster has transactions, or no broker answers."""
        return await self.transactions() is not False

    # A subscription

    async def state(self, topic: TopicName, subscription: str, owner_consumer: CursorConsumer) -> OwnerCursorState:
        """Return where a subscription stands, and how far its consumers may read.

        An owner that cannot parse the topic's last entry serves consumers, but refuses this request. Then the admin API is asked.

        Args:
            topic: the topic.
            subscription: name of the subscription.
            owner_consumer: one of its consumers.

        Raises:
            RelayError: neither answers.
        """
        try:
            return await self.consumer_state(owner_consumer)
        except (OwnerRefusedError, TimeoutError) as error:
            log.info(
                "no answer through the consumer, asking the admin API: topic=%s error=%s",
                topic,
                error or "no answer in time",
            )
        mark_delete, last = await self._admin.mark_delete_and_last(topic, subscription)
        if await self.may_have_transactions():
            limit = await self._admin.max_read_position(topic)
            if limit is None:
                raise OwnerUnavailableError(f"the owner of {topic} does not report how far consumers may read")
            last = limit
        return OwnerCursorState(mark_delete, last)

    async def consumer_state(self, owner_consumer: CursorConsumer) -> OwnerCursorState:
        """Return where a subscription stands, asked through a consumer only.

        Raises:
            RelayError: the owner cannot answer now.
            TimeoutError: no answer in STATE_TIMEOUT_S.
        """
        async with asyncio.timeout(STATE_TIMEOUT_S):
            return await owner_consumer.state()

    async def acked(self, topic: TopicName, info: SubscribeInfo) -> list[tuple[Position, Position]]:
        """Return the acked ranges (lower, upper] of a durable cursor; an empty list for another.

        Raises:
            RelayError: the admin API does not answer.
        """
        if not info.durable:
            return []
        return (await self.cursor(topic, info)).acked

    async def cursor(self, topic: TopicName, info: SubscribeInfo) -> OwnerCursorRanges:
        """Return a durable cursor as the owner has it now.

        Raises:
            RelayError: the admin API does not answer.
        """
        acked, not_persisted = await self._admin.cursor(topic, info.name)
        if info.read_compacted:
            # A reader of the compacted topic may have to begin before the owner's cursor.
            acked = [reach for reach in acked if reach[0] != EARLIEST]
        return OwnerCursorRanges(acked, not_persisted)

    async def partially_acked_batches(
        self,
        topic: TopicName,
        info: SubscribeInfo,
        settings: DispatchSettings,
        owner_consumer: CursorConsumer,
        last: Position,
        begins_with_batch: Callable[[], Awaitable[bool]],
    ) -> list[tuple[Position, int]]:
        """Return the batches that earlier consumers acked in part, with the bits of the unacked messages.

        The pool's own record is used while it is valid. Otherwise the owner is asked: at length if a broker of the pool has left
        a mark. Without one it is asked for the first messages only, if they are a batch: its own consumers may have acked some.
        """
        if not info.durable or not settings.batch_acks:
            return []
        stored = NOT_MARKED if self._batches is None else await self._batches.load(topic, info.name)
        if stored.valid:
            return stored.batches
        if info.read_compacted or info.kind == CommandSubscribe.Key_Shared:
            return []  # the owner would read its compacted ledger, or send only the keys of this consumer
        if not stored.marked and not await begins_with_batch():
            return []
        search, first_wait_s = (SEARCH_MESSAGES, FIRST_WAIT_S) if stored.marked else (FIRST_PERMITS, PROBE_WAIT_S)
        batches = await ask_partial_batches(owner_consumer, last, search, first_wait_s)
        # The owner's bits include acks in open transactions. An abort would not make these messages unacked here.
        if batches and await self._has_pending_acks(topic, info.name):
            return []
        return batches

    def mark_batches(self, topic: TopicName, subscription: str) -> None:
        """Let the next broker ask the owner for partly acked batches of a subscription, also if this broker dies."""
        if self._batches is not None:
            self._batches.mark(topic, subscription)

    async def others_ack(self, topic: TopicName, subscription: str) -> bool:
        """Return whether the owner has several consumers of a subscription, and one of them has acked (ConsumerStatsImpl).

        Raises:
            RelayError: the admin API does not answer.
        """
        stats = await self._admin.stats(topic)
        consumers = ((stats or {}).get("subscriptions") or {}).get(subscription, {}).get("consumers") or []
        return len(consumers) > 1 and any(consumer.get("lastAckedTimestamp") for consumer in consumers)

    def pending_ack_source(self, topic: TopicName, subscription: str) -> PendingAckSource:
        """Return the source of the owner's log of a subscription's acks in transactions."""
        last = partial(self._last_pending_ack, topic, subscription)
        return PendingAckSource(partial(self._make_log, pending_ack_log_name(topic, subscription), last), last)

    async def _last_pending_ack(self, topic: TopicName, subscription: str) -> Position | None:
        try:
            return await self._admin.last_pending_ack(topic, subscription)
        except RelayError as error:
            log.info("last ack in transactions unknown: topic=%s subscription=%s error=%s", topic, subscription, error)
            return None

    # A topic

    async def last_message(self, topic: TopicName) -> Position | None:
        """Return the last message that the owner delivers now; None if it does not answer."""
        for owner_consumer in self._owner_consumers(topic):
            if owner_consumer.subscribed:
                try:
                    return (await owner_consumer.state()).last
                except RelayError as error:
                    log.info("owner's last message unknown: topic=%s error=%s", topic, error)
                    return None
        return None

    async def last_confirmed(self, topic: TopicName) -> Position | None:
        """Return the last entry of a topic, markers of transactions included; None if there is none.

        Raises:
            RelayError: the admin API does not answer.
        """
        return await self._admin.last_confirmed(topic)

    async def max_read_position(self, topic: TopicName) -> Position | None:
        """Return the position up to which the owner lets consumers read now; None if it does not answer."""
        try:
            return await self._admin.max_read_position(topic)
        except RelayError as error:
            log.info("owner's maximal read position unknown: topic=%s error=%s", topic, error)
            return None

    async def transaction(self, topic: TopicName, txn: tuple[int, int]) -> OwnerTransaction | None:
        """Return the state of a transaction on the topic's owner; None if it does not answer."""
        try:
            known = await self._admin.transaction(topic, txn)
            if known is None or any(known):
                return None if known is None else OwnerTransaction(*known)
            last = await self._admin.last_confirmed(topic)
        except RelayError as error:
            log.info("state of a transaction unknown: topic=%s transaction=(%d,%d) error=%s", topic, *txn, error)
            return None
        return None if last is None else OwnerTransaction(*known, last)
