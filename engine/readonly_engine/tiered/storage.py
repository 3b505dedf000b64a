"""Tiered storage: opens each offloaded ledger and each store once."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from readonly_engine.config.tiered import TieredConfig
from readonly_engine.tiered.filesystem import FileSystemLedger
from readonly_engine.tiered.jcloud import JcloudLedger, JcloudPart, read_index
from readonly_engine.tiered.ranged import RangedObject
from readonly_engine.tiered.stores import FILESYSTEM_DRIVER, locate, open_store
from readonly_engine.tiered.windows import WindowCache
from readonly_engine.waiting import await_shared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.tiered.objects import Objects
    from readonly_engine.tiered.stores import Location
    from readonly_engine.wire.entry import Entry
    from readonly_engine.wire.managed_ledger_pb2 import OffloadContext

_MAX_LEDGERS = 1000
"""Open ledgers, each with its index."""

_WORD = (1 << 64) - 1


class OffloadedLedger(Protocol):
    """Entries of a ledger in tiered storage."""

    async def read(self, first: int, last: int, *, views: bool = False) -> list[Entry]:
        """Return the entries from `first` to `last`, both included, in order.

        Args:
            first: the first entry.
            last: the last entry.
            views: whether payloads of some KB may be views of a whole request's memory: for a caller that soon drops them.

        Raises:
            TieredStorageError: the store cannot be read.
            WireError: the store has other data than these entries.
        """
        ...


class TieredStorage:
    """The offloaded ledgers of a cluster.

    Args:
        config: the option `tiered-storage`.
        environment: variables with credentials; by default those of the process.
    """

    def __init__(self, config: TieredConfig | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.config = TieredConfig() if config is None else config
        self.windows = WindowCache(self.config.read_size, self.config.cache_size)
        self._environment = os.environ if environment is None else environment
        self._stores: dict[Location, Objects] = {}
        self._credentials = self._signature()
        self._ledgers: OrderedDict[tuple[int, bytes], asyncio.Task[OffloadedLedger]] = OrderedDict()

    async def open(self, topic_path: str, ledger_id: int, context: OffloadContext) -> OffloadedLedger:
        """Open an offloaded ledger.

        Args:
            topic_path: the topic as the name of a managed ledger, `tenant/namespace/persistent/name`.
            ledger_id: the ledger.
            context: its completed offload, from the topic's list of ledgers.

        Raises:
            TieredStorageError: a setting is missing, or the index cannot be read.
            WireError: the index is damaged.
        """
        self._reload_credentials()
        key = (ledger_id, context.SerializeToString(deterministic=True))
        opening = self._ledgers.get(key)
        if opening is None:
            opening = self._ledgers[key] = asyncio.create_task(self._open(topic_path, ledger_id, context))
            opening.add_done_callback(lambda done: self._open_done(key, done))
            while len(self._ledgers) > _MAX_LEDGERS:
                self._ledgers.popitem(last=False)
        else:
            self._ledgers.move_to_end(key)
        return await await_shared(opening)

    def _reload_credentials(self) -> None:
        """Close all stores and ledgers after a change of the credentials file, as the old credentials may expire soon."""
        found = self._signature()
        if found != self._credentials:
            self._credentials = found
            self._stores.clear()
            self._ledgers.clear()

    def _signature(self) -> tuple[int, int, int] | None:
        """Return a value that changes with the credentials file; None for no file."""
        if self.config.credentials_file is None:
            return None
        try:
            found = self.config.credentials_file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def close(self) -> None:
        """Cancel all reads."""
        for opening in self._ledgers.values():
            opening.cancel()
        self._ledgers.clear()
        self.windows.close()

    def _open_done(self, key: tuple[int, bytes], opening: asyncio.Task[OffloadedLedger]) -> None:
        if (opening.cancelled() or opening.exception() is not None) and self._ledgers.get(key) is opening:
            del self._ledgers[key]

    async def _open(self, topic_path: str, ledger_id: int, context: OffloadContext) -> OffloadedLedger:
        location = locate(context.driver_metadata, self.config)
        store = self._stores.get(location)
        if store is None:
            store = self._stores[location] = open_store(location, self.config, self._environment)
        uid = _uuid(context.uid_msb, context.uid_lsb)
        if location.driver == FILESYSTEM_DRIVER:
            folder = f"{topic_path}/{ledger_id}-{uid}"
            data = RangedObject(store, f"{folder}/data", self.windows)
            return await FileSystemLedger.open(ledger_id, store, folder, data)
        names = [
            (str(segment), f"{segment}-index")
            for segment in (_uuid(segment.uid_msb, segment.uid_lsb) for segment in context.offload_segment)
        ] or [(f"{uid}-ledger-{ledger_id}", f"{uid}-ledger-{ledger_id}-index")]
        parts = []
        for data_key, index_key in names:
            index = await read_index(store, index_key, ledger_id)
            parts.append(JcloudPart(index, RangedObject(store, data_key, self.windows), self.windows.size))
        return JcloudLedger(ledger_id, parts)


def _uuid(msb: int, lsb: int) -> UUID:
    """Return Java's UUID(msb, lsb)."""
    return UUID(int=(msb & _WORD) << 64 | lsb & _WORD)
