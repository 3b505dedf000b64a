"""Removable watches in kazoo. kazoo itself keeps a watch, and everything that it references, until its node changes."""

from __future__ import annotations

from collections import namedtuple
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import EXCEPTIONS, ZookeeperError

from readonly_engine.metadata.watches import Refreshes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from kazoo.client import KazooClient
    from kazoo.protocol.states import WatchedEvent

    from readonly_engine.metadata.watches import NodeWatch

CHILDREN: Final = 1
DATA: Final = 2
"""Kinds of watches, as in WatcherType of ZooKeeper's client. A watch for the existence of a node is of kind DATA."""


class NoWatcherError(ZookeeperError):  # type: ignore[misc] # kazoo has no types
    """ZooKeeper does not have the watch to remove. kazoo closes its connection after an error code that it does not know."""

    code = -121


EXCEPTIONS[NoWatcherError.code] = NoWatcherError


class RemoveWatches(namedtuple("RemoveWatches", "path kind")):  # noqa: PYI024 - the form of kazoo's requests
    """Request to remove all watches of a kind on a node, in kazoo's form (RemoveWatchesRequest, ZooKeeper 3.5)."""

    __slots__ = ()

    type = 18

    def serialize(self) -> bytearray:
        """Return the request's body."""
        path = self.path.encode()
        return bytearray(len(path).to_bytes(4, "big") + path + self.kind.to_bytes(4, "big"))

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:
        """Return True: the answer has no body."""
        del data, offset
        return True


class _CallbackTable:
    """Takes the place of one of kazoo's two tables {node: set of callbacks}, where every node has the same callback.

    A set takes more memory than the rest of a watch, and there are tens of thousands. The callback finds the watches.

    Args:
        callback: called with each event, in a thread of kazoo's.
    """

    __slots__ = ("_callbacks",)

    def __init__(self, callback: Callable[[WatchedEvent], None]) -> None:
        self._callbacks = (callback,)

    def __getitem__(self, _path: str) -> _CallbackTable:
        """Return this, as the set of callbacks of a node."""
        return self

    def add(self, callback: object) -> None:
        """Add nothing: it has the callback."""

    def pop(self, _path: str, _default: object) -> Iterable[object]:
        """Return the callback for an event of a node."""
        return self._callbacks

    def values(self) -> Iterable[Iterable[object]]:
        """Return the callback once, for the event of all nodes."""
        return (self._callbacks,)


class _WatchesOfKind:
    """The watches of one kind by node, as a rule one of each.

    Args:
        table: name of kazoo's table of their callbacks.
        fired: called in a thread of kazoo's with this object, and the node of an event; None for an event of all nodes.

    Attributes:
        callback: kazoo's callback for all of them.
    """

    def __init__(self, table: str, fired: Callable[[_WatchesOfKind, str | None], None]) -> None:
        self._name = table
        self.callback = lambda event: fired(self, event.path)
        self._table = _CallbackTable(self.callback)
        self._first: dict[str, NodeWatch[Any]] = {}
        self._more: dict[str, tuple[NodeWatch[Any], ...]] = {}

    def install(self, client: KazooClient) -> None:
        """Let kazoo use the table. After the end of a session kazoo has a new one of its own."""
        if getattr(client, self._name) is not self._table:
            setattr(client, self._name, self._table)

    def of(self, path: str | None) -> tuple[NodeWatch[Any], ...]:
        """Return the watches of a node; all watches for None."""
        if path is None:
            return (*self._first.values(), *chain.from_iterable(self._more.values()))
        return (self._first[path], *self._more.get(path, ())) if path in self._first else ()

    def add(self, path: str, watch: NodeWatch[Any]) -> None:
        """Add a watch on a node."""
        if path in self._first:
            self._more[path] = (*self._more.get(path, ()), watch)
        else:
            self._first[path] = watch

    def remove(self, path: str, watch: NodeWatch[Any]) -> bool:
        """Remove a watch on a node; return whether it was the last one."""
        present = self.of(path)
        left = tuple([one for one in present if one is not watch])
        self._first.pop(path, None)
        self._more.pop(path, None)
        if left:
            self._first[path] = left[0]
        if left[1:]:
            self._more[path] = left[1:]
        return bool(present) and not left


class Watchers:
    """Watches of one ZooKeeper session by node. The last watch of a node that stops is removed here and in ZooKeeper.

    Args:
        client: the session.
        loop: event loop of the callbacks.
    """

    def __init__(self, client: KazooClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self._kinds = {
            CHILDREN: _WatchesOfKind("_child_watchers", self._fired),
            DATA: _WatchesOfKind("_data_watchers", self._fired),
        }
        self._refreshes = Refreshes()

    @property
    def all(self) -> list[NodeWatch[Any]]:
        """All watches."""
        return list(dict.fromkeys(watch for kind in self._kinds.values() for watch in kind.of(None)))

    def add(self, kind: int, path: str, watch: NodeWatch[Any]) -> None:
        """Add a watch on a node."""
        self._kinds[kind].add(path, watch)

    def callback(self, kind: int) -> Callable[[WatchedEvent], None]:
        """Return kazoo's callback for the watches of a kind."""
        of_kind = self._kinds[kind]
        of_kind.install(self._client)
        return of_kind.callback

    def remove(self, kind: int, path: str, watch: NodeWatch[Any]) -> None:
        """Remove a watch on a node."""
        if not self._kinds[kind].remove(path, watch) or not self._client.connected:
            return  # watches end with the connection
        # A read may be in flight. ZooKeeper answers this request later, and then has the watch no more.
        answer = self._client.handler.async_result()
        self._client._call(RemoveWatches(f"{self._client.chroot}{path}", kind), answer)  # noqa: SLF001 - kazoo has no such request

    def refresh_all(self) -> None:
        """Read all nodes again, by turns: their watches ended with a connection. The broker's own come before those of topics."""
        self._refreshes.begin(self.all)

    def _fired(self, of_kind: _WatchesOfKind, path: str | None) -> None:
        """Read a node again; called in a thread of kazoo's. An event of all nodes is the end of the connection."""
        if path is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._refresh, of_kind, path)

    @staticmethod
    def _refresh(of_kind: _WatchesOfKind, path: str) -> None:
        for watch in of_kind.of(path):
            watch.refresh()
