"""Removable watches in kazoo. kazoo itself keeps a watch, and everything that it references, until its node changes."""

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


class _Key(NamedTuple):
    kind: int
    path: str


class _Handler:
    """The watches of a kind on a node, and kazoo's callback for all of them, which runs in a thread of kazoo's.

    Attributes:
        watches: the watches, as a rule one.
        given: whether kazoo may have the callback.
    """

    __slots__ = ("_key", "_watchers", "given", "watches")

    def __init__(self, watchers: Watchers, key: _Key) -> None:
        self._watchers = watchers
        self._key = key
        self.watches: tuple[NodeWatch[Any], ...] = ()
        self.given = False

    def __call__(self, _event: object) -> None:
        self._watchers.fired(self._key)


class Watchers:
    """Watches of one ZooKeeper session by node. The last watch of a node that stops is removed here and in ZooKeeper.

    Args:
        client: the session.
        loop: event loop of the callbacks.
    """

    def __init__(self, client: KazooClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self._handlers: dict[_Key, _Handler] = {}

    @property
    def all(self) -> list[NodeWatch[Any]]:
        """All watches."""
        return [watch for handler in self._handlers.values() for watch in handler.watches]

    def add(self, kind: int, path: str, watch: NodeWatch[Any]) -> None:
        """Add a watch on a node."""
        self._handler(kind, path).watches += (watch,)

    def handler(self, kind: int, path: str) -> _Handler:
        """Return the callback for kazoo. All watches on a node share one, as kazoo calls each callback once."""
        handler = self._handler(kind, path)
        handler.given = True
        return handler

    def _handler(self, kind: int, path: str) -> _Handler:
        key = _Key(kind, path)
        if (handler := self._handlers.get(key)) is None:
            handler = self._handlers[key] = _Handler(self, key)
        return handler

    def remove(self, kind: int, path: str, watch: NodeWatch[Any]) -> None:
        """Remove a watch on a node."""
        key = _Key(kind, path)
        if (handler := self._handlers.get(key)) is None:
            return
        handler.watches = tuple(one for one in handler.watches if one is not watch)
        if handler.watches:
            return
        del self._handlers[key]
        if not handler.given:
            return
        self._forget(key)
        if not self._client.connected:
            return  # watches end with the connection
        # A read may be in flight. kazoo adds the watch when its answer arrives, and the answer to this request arrives later.
        answer = self._client.handler.async_result()
        answer.rawlink(lambda _: self._call_soon(self._forget, key))
        self._client._call(RemoveWatches(self._rooted(path), kind), answer)  # noqa: SLF001 - kazoo has no such request

    def fired(self, key: _Key) -> None:
        """Read the node again; called in a thread of kazoo's."""
        self._call_soon(self._refresh, key)

    def _refresh(self, key: _Key) -> None:
        if (handler := self._handlers.get(key)) is not None:
            for watch in handler.watches:
                watch.refresh()

    def _forget(self, key: _Key) -> None:
        handler = self._handlers.get(key)
        if handler is None or not handler.watches:  # a read in flight may have made one without
            self._handlers.pop(key, None)
            of_kind = self._client._child_watchers if key.kind == CHILDREN else self._client._data_watchers  # noqa: SLF001
            of_kind.pop(self._rooted(key.path), None)

    def _rooted(self, path: str) -> str:
        return f"{self._client.chroot}{path}"

    def _call_soon(self, function: Any, key: _Key) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, key)
