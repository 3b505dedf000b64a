"""The local cursors of this broker: which partitions it has, and which broker of the pool has the others."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from readonly_engine.background import run_forever
from readonly_engine.broker.cursors.partitions import assign_partitions, cursor_topic, partition_of
from readonly_engine.broker.cursors.store import CursorStoreError
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerUnavailableError, RelayError
from readonly_engine.owner.single_flight import SingleFlight
from readonly_engine.waiting import wait_until_done

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.cursors.partition import CursorPartition
    from readonly_engine.broker.pool.claim_store import ClaimHandle, ClaimStore
    from readonly_engine.broker.pool.membership import PoolMembership
    from readonly_engine.metadata.topic_name import TopicName

log = logging.getLogger(__name__)

WHOLE_PARTITION: Final = ""
"""Name in the claim of a partition, which is for all its subscriptions."""

PLACE_S: Final = 1.0
"""Age of a known holder of a partition."""

RETURN_S: Final = 15.0
"""Time without a change of the pool's members, after which a broker with more than its share of partitions gives some away."""

RETURN_INTERVAL_S: Final = 2.0
"""Interval between two partitions that move."""

CANCEL_S: Final = 1.0
"""Time for the end of what is being opened when the broker stops."""

MAX_OPENING: Final = 8
"""Partitions that are opened at the same time."""


class _Held(NamedTuple):
    partition: CursorPartition
    claim: ClaimHandle


class CursorBackend(Protocol):
    """Keeps the cursors of partitions, and knows how many there are."""

    async def partitions(self, cursors: TopicName) -> int:
        """Return the number of partitions of a group of topics.

        Args:
            cursors: name of the group (`cursor_topic`).

        Raises:
            RelayError: it is not known now, or the pool cannot keep cursors there.
        """

    async def open(self, key: ClaimKey, on_lost: Callable[[str], None], is_held: Callable[[], bool]) -> CursorPartition:
        """Return the cursors of a partition that this broker has claimed.

        Args:
            key: the claim.
            on_lost: called with the reason when nothing can be stored any more.
            is_held: returns whether no other broker can have the partition now.

        Raises:
            CursorStoreError: they cannot be read or written now.
        """

    def close(self) -> None:
        """Ask no owners any more."""

    async def disconnect(self) -> None:
        """Close all connections."""


class LocalCursors:
    """Has the partitions of local cursors that this broker has claimed.

    Args:
        backend: keeps the cursors.
        claims: the claims of this broker.
        pool: the pool.
    """

    def __init__(self, backend: CursorBackend, claims: ClaimStore, pool: PoolMembership) -> None:
        self._backend = backend
        self._claims = claims
        self._pool = pool
        self._counts: dict[TopicName, int] = {}
        self._counting: SingleFlight[int] = SingleFlight()
        self._held: dict[ClaimKey, _Held] = {}
        self._opening: dict[ClaimKey, asyncio.Task[CursorPartition]] = {}
        self._slots = asyncio.Semaphore(MAX_OPENING)
        self._ending: dict[ClaimKey, asyncio.Task[None]] = {}
        self._places: dict[ClaimKey, tuple[float, str]] = {}
        self._assigned: dict[TopicName, tuple[float, frozenset[str], tuple[str, ...]]] = {}
        self._assigning: SingleFlight[tuple[str, ...]] = SingleFlight()
        self._returning: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def held(self) -> dict[ClaimKey, CursorPartition]:
        """The partitions that this broker has, by their claims."""
        return {key: one.partition for key, one in self._held.items()}

    def subscriptions(self, key: ClaimKey) -> list[tuple[TopicName, str]]:
        """Return the topics and names of the subscriptions with consumers in a partition of this broker."""
        held = self._held.get(key)
        return [] if held is None else [(one.topic, one.cursor.name) for one in held.partition.subscriptions]

    # Places

    async def key_of(self, topic: TopicName, subscription: str) -> ClaimKey:
        """Return the claim of the partition of a subscription.

        Raises:
            OwnerUnavailableError: the admin API does not answer.
            OwnerRefusedError: the topic with cursors cannot be created, or belongs to somebody else.
        """
        cursors = cursor_topic(topic, self._pool.identity)
        partitions = self._counts.get(cursors)
        if partitions is None:
            partitions = self._counts[cursors] = await self._counting.run(
                cursors, lambda: self._backend.partitions(cursors)
            )
        return ClaimKey(cursors.at(partition_of(topic, subscription, partitions)), WHOLE_PARTITION)

    async def place(self, key: ClaimKey) -> str:
        """Return the URL of the broker that has a partition, or should have it; empty for this broker.

        Raises:
            MetadataUnavailableError: the metadata store does not answer.
        """
        url, members = await self._holder(key), frozenset(self._pool.members)
        if url not in members:
            url = await self._assignee(key, members)
        return "" if url == self._pool.url else url

    async def _holder(self, key: ClaimKey) -> str:
        """Return the URL of the broker that has a partition; empty for none."""
        if key in self._held:
            return self._pool.url
        now = asyncio.get_running_loop().time()
        at, url = self._places.get(key, (-PLACE_S, ""))
        if now - at >= PLACE_S:
            url = await self._claims.holder(key)
            self._places[key] = (now, url)
        return url

    async def _assignee(self, key: ClaimKey, members: frozenset[str]) -> str:
        """Return the URL of the broker that should have a partition; empty without one."""
        topic = key.topic.base

        async def assign() -> tuple[str, ...]:
            now, count = asyncio.get_running_loop().time(), self._counts[topic]
            at, among, found = self._assigned.get(topic, (-PLACE_S, members, ()))
            if among != members or now - at >= PLACE_S:
                keys = [ClaimKey(topic.at(partition), WHOLE_PARTITION) for partition in range(count)]
                holders = await asyncio.gather(*(self._holder(key) for key in keys))
                found = assign_partitions(topic, count, members, holders)
                self._assigned[topic] = now, members, found
            return found

        found = await self._assigning.run((topic, members), assign)
        return found[key.topic.partition] if found else ""

    # Partitions of this broker

    async def open(self, key: ClaimKey) -> CursorPartition:
        """Return the cursors of a partition that this broker has claimed.

        Raises:
            OwnerUnavailableError: they cannot be read or written now, or another broker has them.
        """
        held = self._held.get(key)
        if held is not None:
            return held.partition
        if self._closed or key in self._ending:
            raise OwnerUnavailableError("the local cursors move to another broker; look the topic up again")
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.get_running_loop().create_task(self._open(key))
            opening.add_done_callback(lambda done: self._open_done(key, done))
        await wait_until_done(opening)
        if opening.cancelled():
            raise OwnerUnavailableError("this broker stops; look the topic up again")
        try:
            return opening.result()
        except CursorStoreError as error:
            raise OwnerUnavailableError(str(error)) from error

    def _open_done(self, key: ClaimKey, opening: asyncio.Task[CursorPartition]) -> None:
        self._opening.pop(key, None)
        # All that waited may have gone: then nobody else gets the error.
        if not opening.cancelled() and isinstance(opening.exception(), (CursorStoreError, RelayError, MetadataError)):
            log.info("local cursors not opened: topic=%s error=%s", key.topic, opening.exception())

    async def _open(self, key: ClaimKey) -> CursorPartition:
        claim = await self._claims.acquire(key)
        opened = False
        try:
            if claim.url:
                raise OwnerUnavailableError(
                    f"{claim.url} has the local cursors in {key.topic}; look the topic up again"
                )
            async with self._slots:
                held = await self._backend.open(
                    key, lambda reason: self.end(key, reason), lambda: self._claims.serves(key)
                )
            if held.store.lost or not self._claims.is_valid(claim):
                await held.end("another broker has the cursors")
                raise OwnerUnavailableError(f"{key.topic} has moved to another broker; look the topic up again")
            self._held[key] = _Held(held, claim)
            opened = True
        finally:
            if not opened:
                self._claims.release(claim)
        if self._returning is None:
            self._returning = run_forever(self._return_partitions, "the return of local cursors to other brokers")
        log.info("local cursors opened: topic=%s subscriptions=%d", key.topic, len(held.store))
        return held

    async def topic_deleted(self, topic: TopicName) -> None:
        """Forget the subscriptions of a topic that the metadata store has lost, maybe to have it again."""
        for held in list(self._held.values()):
            if held.partition.store.has(str(topic)):
                await held.partition.forget_if_deleted(topic)

    def end(self, key: ClaimKey, reason: str) -> None:
        """Give a partition up: another broker has its cursors, or they cannot be stored."""
        held = self._held.pop(key, None)
        if held is not None:
            log.warning("local cursors closed: topic=%s reason=%s", key.topic, reason)
            self._places[key] = (asyncio.get_running_loop().time(), "")
            task = self._ending[key] = asyncio.get_running_loop().create_task(self._end(held, reason))
            task.add_done_callback(lambda _: self._ending.pop(key, None))

    async def _end(self, held: _Held, reason: str) -> None:
        try:
            await held.partition.end(reason)
        finally:
            self._claims.release(held.claim)

    async def _return_partitions(self) -> None:
        """Give partitions above this broker's share away, one by one, when the members have not changed for a while."""
        members, since = frozenset(self._pool.members), asyncio.get_running_loop().time()
        settled: frozenset[ClaimKey] = frozenset()
        while True:
            await asyncio.sleep(RETURN_INTERVAL_S)
            now, current = asyncio.get_running_loop().time(), frozenset(self._pool.members)
            if current != members or self._pool.url not in current:
                members, since, settled = current, now, frozenset()
            elif now - since >= RETURN_S and settled != self._held.keys():
                held = frozenset(self._held)
                try:
                    key = await self._above_share(members)
                except MetadataError as error:
                    log.info("claims of partitions unknown, trying again: error=%s", error)
                    continue
                if key is None:
                    settled = held
                else:
                    self.end(key, "the local cursors move to another broker of the pool")

    async def _above_share(self, members: frozenset[str]) -> ClaimKey | None:
        """Return a partition that another broker should have; None without one."""
        own = Counter(key.topic.base for key in self._held)
        for key in list(self._held):
            topic = key.topic.base
            if own[topic] > self._counts[topic] // len(members):
                url = await self._assignee(key, members)
                if url != self._pool.url and key in self._held:
                    return key
        return None

    async def close(self) -> None:
        """Store all cursors, and let other brokers have them."""
        await self._cancel_openings()
        if self._returning is not None:
            self._returning.cancel()
        for key in list(self._held):
            self.end(key, "this broker stops")
        if self._ending:
            await asyncio.wait(set(self._ending.values()))
        self._backend.close()
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close the client. A drain that ran out of time did not get that far."""
        await self._cancel_openings()
        await self._backend.disconnect()

    async def _cancel_openings(self) -> None:
        """End what is being opened, before its client closes; nothing is opened any more."""
        self._closed = True
        openings = set(self._opening.values())
        for opening in openings:
            opening.cancel()
        if openings:  # a silent owner may hold their end up; the client's close fails them then
            await asyncio.wait(openings, timeout=CANCEL_S)
