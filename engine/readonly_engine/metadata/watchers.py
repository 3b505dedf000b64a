"""Watches in kazoo that can be taken back: kazoo keeps a watch, and all that it holds, until its node changes."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kazoo.exceptions import EXCEPTIONS, ZookeeperError

if TYPE_CHECKING:
    import asyncio

    from kazoo.client import KazooClient

    from readonly_engine.metadata.watches import NodeWatch

CHILDREN: Final = 1
DATA: Final = 2
"""Kinds of watches, as in WatcherType of ZooKeeper's client. One for the existence of a node is of its data."""


class NoWatcherError(ZookeeperError):  # type: ignore[misc] # kazoo has no types
    """ZooKeeper does not have the watch that is taken back. kazoo ends its connection over an error that it does not know."""

    code = -121


EXCEPTIONS[NoWatcherError.code] = NoWatcherError


class RemoveWatches(namedtuple("RemoveWatches", "path kind")):  # noqa: PYI024 - kazoo's requests are made so
    """Take all watches of a kind on a node back; a request as kazoo sends it (RemoveWatchesRequest, ZooKeeper 3.5)."""

    __slots__ = ()

    type = 18

    def serialize(self) -> bytearray:
        """The request's body."""
        path = self.path.encode()
        return bytearray(len(path).to_bytes(4, "big") + path + self.kind.to_bytes(4, "big"))

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:
        """The answer has no body."""
        del data, offset
        return True


class _Key(NamedTuple):
    kind: int
    path: str


class _Handler:
    """What kazoo holds of all watches of a kind on a node: called in a thread of kazoo's when one has fired."""

    __slots__ = ("_key", "_watchers")

    def __init__(self, watchers: Watchers, key: _Key) -> None:
        self._watchers = watchers
        self._key = key

    def __call__(self, _event: object) -> None:
        self._watchers.fired(self._key)


class Watchers:
    """Who follows which node of one ZooKeeper session. Of a node that nobody follows any more nothing is kept, here or there.

    Args:
        client: the session.
        loop: where those who follow are called.
    """

    def __init__(self, client: KazooClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self._watches: dict[_Key, set[NodeWatch[Any]]] = {}
        self._handlers: dict[_Key, _Handler] = {}

    @property
    def all(self) -> list[NodeWatch[Any]]:
        """All who follow a node."""
        return [watch for watches in self._watches.values() for watch in watches]

    def add(self, kind: int, path: str, watch: NodeWatch[Any]) -> None:
        """A node is followed."""
        self._watches.setdefault(_Key(kind, path), set()).add(watch)

    def handler(self, kind: int, path: str) -> _Handler:
        """What is given to kazoo to be called: the same for all who follow a node, as kazoo calls each once."""
        key = _Key(kind, path)
        return self._handlers.setdefault(key, _Handler(self, key))

    def remove(self, kind: int, path: str, watch: NodeWatch[Any]) -> None:
        """A node is followed no more."""
        key = _Key(kind, path)
        watches = self._watches.get(key, set())
        watches.discard(watch)
        if watches:
            return
        self._watches.pop(key, None)
        if self._handlers.pop(key, None) is None:
            return
        self._forget(key)
        if not self._client.connected:
            return  # watches end with the connection
        # A look may be under way. kazoo adds its watch when it is answered, and this is answered after it.
        answer = self._client.handler.async_result()
        answer.rawlink(lambda _: self._call_soon(self._forget, key))
        self._client._call(RemoveWatches(self._rooted(path), kind), answer)  # noqa: SLF001 - kazoo has no such request

    def fired(self, key: _Key) -> None:
        """Called in a thread of kazoo's."""
        self._call_soon(self._refresh, key)

    def _refresh(self, key: _Key) -> None:
        for watch in list(self._watches.get(key, ())):
            watch.refresh()

    def _forget(self, key: _Key) -> None:
        if key not in self._watches:
            of_kind = self._client._child_watchers if key.kind == CHILDREN else self._client._data_watchers  # noqa: SLF001
            of_kind.pop(self._rooted(key.path), None)

    def _rooted(self, path: str) -> str:
        return f"{self._client.chroot}{path}"

    def _call_soon(self, function: Any, key: _Key) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, key)
