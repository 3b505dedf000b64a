"""Nodes of ZooKeeper as their watches read them: values, and names of children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoNodeError

from readonly_engine.metadata.store import Versioned, is_own
from readonly_engine.metadata.watchers import CHILDREN, DATA, Watchers
from readonly_engine.metadata.watches import NodeRead, PollRounds

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from kazoo.client import KazooClient

    from readonly_engine.metadata.watches import NodeWatch


class WatchedNodes:
    """All watched nodes of one session.

    Args:
        client: the session.
        call: sends a request of the session, and returns the answer.
        loop: event loop of the callbacks.

    Attributes:
        watchers: the watches.
        values: nodes whose values are watched.
        names: nodes whose children are watched.
    """

    def __init__(
        self, client: KazooClient, call: Callable[..., Awaitable[Any]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.watchers = Watchers(client, loop)
        rounds = PollRounds()
        self.values = NodeValues(client, call, self.watchers, rounds)
        self.names = ChildNames(client, call, self.watchers, rounds)


class NodeValues:
    """Values of nodes (NodeSource); None for a missing node.

    Args:
        client: the session.
        call: sends a request of the session, and returns the answer.
        watchers: all watches of the session.
        rounds: polls them.
    """

    of_names = False

    def __init__(
        self, client: KazooClient, call: Callable[..., Awaitable[Any]], watchers: Watchers, rounds: PollRounds
    ) -> None:
        self._client, self._call = client, call
        self._watchers, self.rounds = watchers, rounds

    async def read(self, path: str) -> NodeRead[Versioned | None]:
        """As NodeSource."""
        while True:
            try:
                value, stat = await self._call(self._client.get_async, path, self._watchers.callback(DATA))
                return NodeRead(Versioned(value or b"", stat.version, stat.ctime), stat.mzxid)
            except NoNodeError:
                if await self._call(self._client.exists_async, path, self._watchers.callback(DATA)) is None:
                    return NodeRead(None, None)

    async def probe(self, path: str) -> int | None:
        """As NodeSource."""
        stat = await self._call(self._client.exists_async, path)
        return None if stat is None else int(stat.mzxid)

    def started(self, watch: NodeWatch[Versioned | None]) -> None:
        """As NodeSource."""
        self._watchers.add(DATA, watch.path, watch)

    def stopped(self, watch: NodeWatch[Versioned | None]) -> None:
        """As NodeSource."""
        self._watchers.remove(DATA, watch.path, watch)


class ChildNames:
    """Names of nodes' children (NodeSource); none for a missing node. Arguments as of NodeValues."""

    of_names = True

    def __init__(
        self, client: KazooClient, call: Callable[..., Awaitable[Any]], watchers: Watchers, rounds: PollRounds
    ) -> None:
        self._client, self._call = client, call
        self._watchers, self.rounds = watchers, rounds

    async def read(self, path: str) -> NodeRead[frozenset[str]]:
        """As NodeSource."""
        while True:
            try:
                handler = self._watchers.callback(CHILDREN)
                names, stat = await self._call(self._client.get_children_async, path, handler, True)
                return NodeRead(frozenset(names), stat.pzxid)
            except NoNodeError:
                if is_own(path):
                    await self._call(self._client.ensure_path_async, path)
                elif await self._call(self._client.exists_async, path, self._watchers.callback(DATA)) is None:
                    return NodeRead(frozenset(), None)

    async def probe(self, path: str) -> int | None:
        """As NodeSource."""
        stat = await self._call(self._client.exists_async, path)
        return None if stat is None else int(stat.pzxid)

    def started(self, watch: NodeWatch[frozenset[str]]) -> None:
        """As NodeSource."""
        for kind in (CHILDREN, DATA):  # DATA fires when a missing node is created
            self._watchers.add(kind, watch.path, watch)

    def stopped(self, watch: NodeWatch[frozenset[str]]) -> None:
        """As NodeSource."""
        for kind in (CHILDREN, DATA):
            self._watchers.remove(kind, watch.path, watch)
