"""Partly acked batches of a subscription, for the next broker of the pool: a mark, or the batches of consumers that have left.

The owner keeps the batches in memory. Its stored cursor is not reliable for them: after a SEEK it still has earlier ones
(ManagedCursorImpl.internalResetCursor), and acks of single messages alone are not stored (asyncDelete). So a broker writes a mark
at the first partly acked batch, and after its death the next broker asks the owner through a consumer (partial_batches.py). The
last consumer that leaves stores the batches themselves, which saves this search while they are valid.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from readonly_engine.background import end_with
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

MAX_AGE_S = 7 * 86400.0
"""Age at which marks and stored batches are removed."""

RENEW_S = 86400.0
"""Age at which a mark is written again, so that it does not reach MAX_AGE_S while the subscription is served."""

SWEEP_INTERVAL_S = 3600.0

MAX_WAITING_MARKS = 100_000
"""Bound of the marks that wait to be written. Without a mark, batches may be delivered again completely."""


class LoadedBatches(NamedTuple):
    """What earlier consumers of the pool have left.

    Attributes:
        valid: whether `batches` are those of the owner. If not, only the owner knows.
        marked: whether a broker of the pool has seen partly acked batches.
        batches: positions, with the bits of their unacked messages.
    """

    valid: bool
    marked: bool
    batches: list[tuple[Position, int]]


NOT_MARKED: Final = LoadedBatches(valid=False, marked=False, batches=[])


class StoredBatches(NamedTuple):
    """Stored batches of one subscription.

    Attributes:
        version: version of the owner's cursor at that time (AdminClient.cursor_version); empty for a mark.
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
        self._waiting: dict[str, None] = {}  # paths of marks, in order
        self._marking: asyncio.Task[None] | None = None

    def mark(self, topic: TopicName, subscription: str) -> None:
        """Write a mark soon: the subscription has partly acked batches, or had some."""
        if len(self._waiting) < MAX_WAITING_MARKS:
            self._waiting[self._path(topic, subscription)] = None
        if self._marking is None or self._marking.done():
            self._marking = asyncio.create_task(self._write_marks())
            end_with(self._marking, lambda _: None)  # the next one is due later

    def save(
        self,
        topic: TopicName,
        subscription: str,
        batches: Iterable[tuple[Position, int]],
        owner_consumer: CursorConsumer,
        still_ours: Callable[[], bool] = lambda: True,
    ) -> asyncio.Task[None]:
        """Store the batches of a subscription when its last consumer leaves. Without batches the mark is removed.

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

    async def load(self, topic: TopicName, subscription: str) -> LoadedBatches:
        """Return the stored batches of a subscription, or its mark. A consumer of it must be on the owner already."""
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_S):
                node = await self._store.get(self._path(topic, subscription))
                if node is None:
                    return NOT_MARKED
                stored = decode_batches(node.value)
                if (
                    stored is not None
                    and stored.version
                    and stored.version == await self._admin.cursor_version(topic, subscription)
                ):
                    return LoadedBatches(valid=True, marked=True, batches=stored.batches)
        except (RelayError, MetadataError, TimeoutError) as error:
            log.info(
                "stored batches not loaded, asking the owner: topic=%s subscription=%s error=%s",
                topic,
                subscription,
                error or "no answer in time",
            )
        return LoadedBatches(valid=False, marked=True, batches=[])

    def close(self) -> None:
        """Stop writing marks and removing old ones."""
        for task in (self._sweeping, self._marking):
            if task is not None:
                task.cancel()

    async def _write_marks(self) -> None:
        """Write the waiting marks, one after the other. A mark that cannot be written is given up."""
        while self._waiting:
            path = next(iter(self._waiting))
            del self._waiting[path]
            try:
                await self._store.put(path, encode_batches(StoredBatches("", time.time(), [])))
            except MetadataError as error:
                log.info("mark of partly acked batches not written: node=%s error=%s", path, error)
        self._sweep_if_due(time.time())

    async def _save(
        self,
        topic: TopicName,
        subscription: str,
        batches: list[tuple[Position, int]],
        owner_consumer: CursorConsumer,
        still_ours: Callable[[], bool],
    ) -> None:
        path = self._path(topic, subscription)
        self._waiting.pop(path, None)
        subscribe_count = owner_consumer.subscribe_count
        try:
            async with asyncio.timeout(SAVE_TIMEOUT_S):
                if not batches:
                    if still_ours():
                        await self._store.remove(path)
                    return
                await owner_consumer.wait_for_acks()
                version = await self._admin.cursor_version(topic, subscription)
                await owner_consumer.state()
                if owner_consumer.subscribe_count != subscribe_count:
                    raise OwnerUnavailableError("the owner has closed the consumer")
                if not still_ours():
                    raise OwnerUnavailableError("another broker may have served the subscription meanwhile")
                stored = StoredBatches(version, time.time(), batches)
                await self._store.put(path, encode_batches(stored))
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
        if now - self._swept >= SWEEP_INTERVAL_S and (self._sweeping is None or self._sweeping.done()):
            self._swept = now
            self._sweeping = asyncio.create_task(self._sweep(now))
            end_with(self._sweeping, lambda _: None)  # the next one is due later

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
