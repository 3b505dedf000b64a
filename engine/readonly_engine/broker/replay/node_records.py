"""Records of a replay's cursors, as nodes of the metadata store."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote, unquote

from readonly_engine.broker.cursors.store import CursorStoreError
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.wire.cursor_records import DEFINITIONS, decode_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from readonly_engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_NODE_BYTES: Final = 900_000
"""Largest record. ZooKeeper refuses requests from about 1 MB on (jute.maxbuffer)."""

AT_A_TIME: Final = 50
"""Requests under way at the same time."""


class NodeRecords:
    """The records of one partition (CursorRecords), each a node whose name is its key.

    A node is written only in the version that this broker has read or written. So of two brokers that take themselves for the
    holder of the partition, at most one writes on.

    Args:
        store: the metadata store.
        folder: path of the partition.
    """

    def __init__(self, store: MetadataStore, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._versions: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The path."""
        return self._folder

    @property
    def compaction_due(self) -> bool:
        """Return False: a node has its last record only."""
        return False

    async def compact(self) -> None:
        """Do nothing."""

    async def open(self) -> dict[str, bytes]:
        """Return the records.

        Raises:
            CursorStoreError: the metadata store does not answer.
            MalformedFrameError: another node is among them.
        """
        records: dict[str, bytes] = {}
        try:
            names = sorted(await self._store.children(self._folder) or ())
            for some in batches(names):
                nodes = await asyncio.gather(*(self._store.get(f"{self._folder}/{name}") for name in some))
                for name, node in zip(some, nodes, strict=True):
                    if node is not None:
                        key = unquote(name)
                        decode_key(key)
                        records[key], self._versions[key] = node.value, node.version
        except MetadataError as error:
            raise CursorStoreError(f"the cursors in {self._folder} cannot be read: {error}") from error
        return records

    async def write(self, records: Sequence[tuple[str, bytes]]) -> None:
        """Store records: first the subscriptions, then what they have acked. An empty one removes its key.

        Raises:
            CursorStoreError: another broker has written, or the metadata store does not answer.
        """
        try:
            for first in (True, False):
                wanted = [one for one in records if one[0].startswith(f"{DEFINITIONS}|") is first]
                for some in batches(wanted):
                    await asyncio.gather(*(self._write(key, value) for key, value in some))
        except MetadataError as error:
            raise CursorStoreError(f"the cursors in {self._folder} cannot be stored: {error}") from error

    async def _write(self, key: str, value: bytes) -> None:
        path = f"{self._folder}/{quote(key, safe='')}"
        if not value:
            if self._versions.pop(key, None) is not None:
                await self._store.remove(path)
            return
        if len(value) > MAX_NODE_BYTES:
            log.warning(
                "a record of cursors is too large, its acks may be delivered again: path=%s bytes=%d", path, len(value)
            )
            return
        version = await self._store.put_if(path, value, self._versions.get(key))
        if version is None:
            raise CursorStoreError(f"another broker has written {path}")
        self._versions[key] = version

    async def close(self) -> None:
        """Do nothing: the claim of the partition lets other brokers write."""


async def remove_tree(store: MetadataStore, path: str) -> None:
    """Remove a node with all below it.

    Raises:
        MetadataUnavailableError: the store does not answer.
    """
    for name in sorted(await store.children(path) or ()):
        await remove_tree(store, f"{path}/{name}")
    await store.remove(path)


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items, AT_A_TIME together."""
    for begin in range(0, len(items), AT_A_TIME):
        yield items[begin : begin + AT_A_TIME]
