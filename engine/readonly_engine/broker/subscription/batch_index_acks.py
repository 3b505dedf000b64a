"""Batches that were acked in part by consumers that have left, handed on from one broker of the pool to the next.

The owner keeps them in memory, and shows them to nobody. What it has stored of them says nothing: after a SEEK the stored cursor
still has those from before (ManagedCursorImpl.internalResetCursor), and acks of parts alone are not stored (asyncDelete).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from readonly_engine.metadata.errors import MetadataError
from readonly_engine.owner.errors import OwnerUnavailableError, RelayError
from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from readonly_engine.metadata.store import MetadataStore
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.admin import AdminClient
    from readonly_engine.owner.consumer import OwnerConsumer

log = logging.getLogger(__name__)

MAX_BYTES = 256 << 10
"""Of one subscription; ZooKeeper takes 1 MiB. What is beyond comes again as whole batches."""

SAVE_TIMEOUT_S = 5.0
"""So long a consumer that leaves may be kept at the owner for it."""

LOAD_TIMEOUT_S = 5.0
"""So long a consumer that comes, or takes over, waits for what was left: it goes on also while the metadata store is away."""

MAX_AGE_S = 3600.0
"""What nobody has come back for in this time is removed."""


class StoredBatches(NamedTuple):
    """What the consumers of one subscription left.

    Attributes:
        version: of the owner's cursor at that time.
        at: when, in seconds since the epoch.
        batches: positions, and the bits of the messages that are not acked.
    """

    version: str
    at: float
    batches: list[tuple[Position, int]]


def encode_batches(stored: StoredBatches) -> bytes:
    """As it stands in the metadata store; at most MAX_BYTES, the first batches of the topic."""
    rows: list[tuple[int, int, str]] = []
    size = 0
    for position, unacked in sorted(stored.batches):
        row = (position.ledger_id, position.entry_id, f"{unacked:x}")
        size += len(json.dumps(row)) + 2
        if size > MAX_BYTES:
            break
        rows.append(row)
    return json.dumps({"version": stored.version, "at": stored.at, "batches": rows}).encode()


def decode_batches(value: bytes) -> StoredBatches | None:
    """From the metadata store; None for what this version does not understand."""
    try:
        fields = json.loads(value)
        batches = [(Position(int(ledger), int(entry)), int(bits, 16)) for ledger, entry, bits in fields["batches"]]
        return StoredBatches(str(fields["version"]), float(fields["at"]), batches)
    except (ValueError, TypeError, KeyError):
        return None


class BatchIndexAckStore:
    """Keeps them in the metadata store until they are void.

    Whoever resets the cursor makes them void. The owner stores a reset before it is in force, and closes the subscription's
    consumers before that: so they count as long as it has stored nothing, and not loaded the topic, since a moment at which a
    consumer of ours was there.
    Forgetting them too early costs a second delivery, as after a restart of the owner.

    Args:
        admin: tells whether the owner has stored the cursor anew.
        store: where they are.
        folder: of the pool, in the store.
    """

    def __init__(self, admin: AdminClient, store: MetadataStore, folder: str) -> None:
        self._admin = admin
        self._store = store
        self._folder = f"{folder}/batches"
        self._swept = 0.0
        self._sweeping: asyncio.Task[None] | None = None

    def save(
        self,
        topic: TopicName,
        subscription: str,
        batches: Iterable[tuple[Position, int]],
        owner_consumer: OwnerConsumer,
        still_ours: Callable[[], bool] = lambda: True,
    ) -> asyncio.Task[None]:
        """The last consumer leaves.

        Args:
            topic: the topic.
            subscription: the subscription.
            batches: positions, and the bits of the messages that are not acked.
            owner_consumer: the consumer at the owner. It must stay there until the task is done (SAVE_TIMEOUT_S at most).
            still_ours: whether no other broker can have served the subscription meanwhile, whose batches would be written over.

        Returns:
            Does it; ends without an error.
        """
        return asyncio.create_task(self._save(topic, subscription, list(batches), owner_consumer, still_ours))

    async def load(self, topic: TopicName, subscription: str) -> list[tuple[Position, int]]:
        """What the subscription's consumers left, if it still counts. A consumer of it must be at the owner by now."""
        path = self._path(topic, subscription)
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                node = await self._store.get(path)
                stored = None if node is None else decode_batches(node.value)
                if stored is None:
                    return []
                if stored.version == await self._admin.cursor_version(topic, subscription):
                    return stored.batches
                await self._store.remove(path)
        except (RelayError, MetadataError, TimeoutError) as error:
            why = error or "no answer in time"
            log.info("%s, %s: batches that were acked in part come again as a whole: %s", topic, subscription, why)
        return []

    def close(self) -> None:
        """Remove nothing more."""
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def _save(
        self,
        topic: TopicName,
        subscription: str,
        batches: list[tuple[Position, int]],
        owner_consumer: OwnerConsumer,
        still_ours: Callable[[], bool],
    ) -> None:
        subscribe_count = owner_consumer.subscribe_count
        try:
            async with asyncio.timeout(SAVE_TIMEOUT_S):
                await owner_consumer.wait_for_acks()
                version = await self._admin.cursor_version(topic, subscription)
                await owner_consumer.state()
                if owner_consumer.subscribe_count != subscribe_count:
                    raise OwnerUnavailableError("the consumer was closed at the owner")
                if not still_ours():
                    raise OwnerUnavailableError("another broker may have served the subscription meanwhile")
                stored = StoredBatches(version, time.time(), batches)
                await self._store.put(self._path(topic, subscription), encode_batches(stored))
            self._sweep_if_due(stored.at)
        except (RelayError, MetadataError, TimeoutError) as error:
            reason = error or "no answer in time"
            log.info(
                "%s, %s: batches that are acked in part will come again as a whole: %s", topic, subscription, reason
            )

    def _sweep_if_due(self, now: float) -> None:
        """Remove what is outdated, beside: there may be many nodes, and no consumer waits for it."""
        if now - self._swept >= MAX_AGE_S and (self._sweeping is None or self._sweeping.done()):
            self._swept = now
            self._sweeping = asyncio.create_task(self._sweep(now))

    async def _sweep(self, now: float) -> None:
        try:
            for name in await self._store.children(self._folder) or ():
                path = f"{self._folder}/{name}"
                node = await self._store.get(path)
                stored = None if node is None else decode_batches(node.value)
                if stored is None or now - stored.at > MAX_AGE_S:
                    await self._store.remove(path)
        except MetadataError as error:
            log.info("what consumers have left of batches long ago cannot be removed now: %s", error)

    def _path(self, topic: TopicName, subscription: str) -> str:
        return f"{self._folder}/{quote(str(topic), safe='')}:{quote(subscription, safe='')}"
