"""Records of Oxia as their watches read them: values, and names of children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import xxhash

from readonly_engine.metadata.store import Versioned
from readonly_engine.metadata.watches import NodeRead

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.metadata.oxia.index import WatchIndex
    from readonly_engine.metadata.watches import NodeWatch, PollRounds
    from readonly_engine.wire.oxia_pb2 import GetResponse


class Read(Protocol):
    """Reads a record, with its value or without it; None for a missing one."""

    async def __call__(self, path: str, *, value: bool) -> GetResponse | None:
        """Read a record."""


class RecordValues:
    """Values of records (NodeSource).

    Args:
        read: reads a record.
        watches: all watches of the store.
        rounds: polls them.
    """

    of_names = False

    def __init__(self, read: Read, watches: WatchIndex, rounds: PollRounds) -> None:
        self._read, self._watches, self.rounds = read, watches, rounds

    async def read(self, path: str) -> NodeRead[Versioned | None]:
        """As NodeSource."""
        found = await self._read(path, value=True)
        return NodeRead(None, None) if found is None else NodeRead(versioned(found), found.version.version_id)

    async def probe(self, path: str) -> int | None:
        """As NodeSource."""
        found = await self._read(path, value=False)
        return None if found is None else int(found.version.version_id)

    def started(self, watch: NodeWatch[Versioned | None]) -> None:
        """As NodeSource."""
        self._watches.add(watch.path, watch)

    def stopped(self, watch: NodeWatch[Versioned | None]) -> None:
        """As NodeSource."""
        self._watches.remove(watch.path, watch)


class ChildNames:
    """Names of records' children (NodeSource).

    Args:
        list_: lists the children of a record.
        watches: all watches of the store.
        rounds: polls them.
    """

    of_names = True

    def __init__(
        self, list_: Callable[[str], Awaitable[frozenset[str]]], watches: WatchIndex, rounds: PollRounds
    ) -> None:
        self._list, self._watches, self.rounds = list_, watches, rounds

    async def read(self, path: str) -> NodeRead[frozenset[str]]:
        """As NodeSource."""
        names = await self._list(path)
        return NodeRead(names, _mark(names))

    async def probe(self, path: str) -> int | None:
        """As NodeSource."""
        return _mark(await self._list(path))

    def started(self, watch: NodeWatch[frozenset[str]]) -> None:
        """As NodeSource."""
        self._watches.add_children(watch.path, watch)

    def stopped(self, watch: NodeWatch[frozenset[str]]) -> None:
        """As NodeSource."""
        self._watches.remove_children(watch.path, watch)


def versioned(found: GetResponse) -> Versioned:
    """Return a record as a MetadataStore does."""
    return Versioned(found.value, found.version.version_id, found.version.created_timestamp)


def _mark(names: frozenset[str]) -> int:
    """Return a mark of names, which differs for other names."""
    return xxhash.xxh3_64_intdigest("\0".join(sorted(names)).encode()) if names else 0
