"""Partly acked batches of consumers that have left, stored for the next broker of the pool.

The owner keeps the batches in memory and does not report them. Its stored cursor is not reliable for them: after a SEEK it still
has earlier ones (ManagedCursorImpl.internalResetCursor), and acks of single messages alone are not stored (asyncDelete).
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
    from readonly_engine.owner.cursor_consumer import CursorConsumer

log = logging.getLogger(__name__)

MAX_BYTES = 256 << 10
"""Bound of one subscription's node; ZooKeeper accepts 1 MiB. Batches above it are delivered again completely."""

SAVE_TIMEOUT_S = 5.0
"""Time for which the close of a consumer on the owner may wait for `save`."""

LOAD_TIMEOUT_S = 5.0
"""Time for which a new or newly active consumer waits for `load`, so that it starts even without the metadata store."""

MAX_AGE_S = 3600.0
"""Age at which stored batches are removed."""


class StoredBatches(NamedTuple):
    """Stored batches of one subscription.

    Attributes:
        version: version of the owner's cursor at that time (AdminClient.cursor_version).
        at: time, in seconds since the epoch.
        batches: positions, with the bits of their unacked messages.
    """

    version: str
    at: float
    batches: list[tuple[Position, int]]


def encode_batches(stored: StoredBatches) -> bytes:
    """Encode batches for the metadata store, as JSON: the first ones of the topic, with MAX_BYTES at most."""
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
    """Decode batches of the metadata store; None for an unknown format."""
    try:
        fields = json.loads(value)
        batches = [(Position(int(ledger), int(entry)), int(bits, 16)) for ledger, entry, bits in fields["batches"]]
        return StoredBatches(str(fields["version"]), float(fields["at"]), batches)
    except (ValueError, TypeError, KeyError):
        return None


class BatchIndexAckStore:
    """Stores partly acked batches in the metadata store while they are valid.

    A reset of the cursor makes them invalid. The owner closes the subscription's consumers, stores the reset, and then applies
    it. So batches are valid while the owner has neither stored the cursor nor loaded the topic since a moment with a consumer of
    this pool. Dropping them too early costs a second delivery, as after a restart of the owner.

    Args:
        admin: returns the version of the owner's cursor.
        store: the metadata store.
        folder: path of the pool in the store.
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
        owner_consumer: CursorConsumer,
        still_ours: Callable[[], bool] = lambda: True,
    ) -> asyncio.Task[None]:
        """Store the batches of a subscription when its last consumer leaves.

        Args:
            topic: the topic.
            subscription: name of the subscription.
            batches: positions, with the bits of their unacked messages.
            owner_consumer: the consumer on the owner. It must stay there until the task is done (SAVE_TIMEOUT_S at most).
            still_ours: returns whether no other broker can have served the subscription meanwhile, and stored newer batches.

        Returns:
            The task, which raises no error.
        """
        return asyncio.create_task(self._save(topic, subscription, list(batches), owner_consumer, still_ours))

    async def load(self, topic: TopicName, subscription: str) -> list[tuple[Position, int]]:
        """Return the stored batches of a subscription if they are valid. A consumer of it must be on the owner already."""
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
            log.info(
                "partly acked batches not loaded, delivering them completely: topic=%s subscription=%s error=%s",
                topic,
                subscription,
                why,
            )
        return []

    def close(self) -> None:
        """Stop the removal of old batches."""
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def _save(
        self,
        topic: TopicName,
        subscription: str,
        batches: list[tuple[Position, int]],
        owner_consumer: CursorConsumer,
        still_ours: Callable[[], bool],
    ) -> None:
        subscribe_count = owner_consumer.subscribe_count
        try:
            async with asyncio.timeout(SAVE_TIMEOUT_S):
                await owner_consumer.wait_for_acks()
                version = await self._admin.cursor_version(topic, subscription)
                await owner_consumer.state()
                if owner_consumer.subscribe_count != subscribe_count:
                    raise OwnerUnavailableError("the owner has closed the consumer")
                if not still_ours():
                    raise OwnerUnavailableError("another broker may have served the subscription meanwhile")
                stored = StoredBatches(version, time.time(), batches)
                await self._store.put(self._path(topic, subscription), encode_batches(stored))
            self._sweep_if_due(stored.at)
        except (RelayError, MetadataError, TimeoutError) as error:
            reason = error or "no answer in time"
            log.info(
                "partly acked batches not stored, they will be delivered completely: topic=%s subscription=%s error=%s",
                topic,
                subscription,
                reason,
            )

    def _sweep_if_due(self, now: float) -> None:
        """Remove old batches in a task of their own, because there may be many nodes."""
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
            log.info("removal of old batches failed: error=%s", error)

    def _path(self, topic: TopicName, subscription: str) -> str:
        return f"{self._folder}/{quote(str(topic), safe='')}:{quote(subscription, safe='')}"
