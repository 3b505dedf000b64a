"""What the engine needs of a metadata store; ZooKeeper is the one that there is (zookeeper.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.metadata.lease import SessionLease


OWN_ROOT = "/pulsar-readonly"
"""Everything that this project writes into a metadata store is below this node; all else belongs to Pulsar and BookKeeper."""


def is_own(path: str) -> bool:
    """Whether a node may be written."""
    return path.startswith(f"{OWN_ROOT}/")


def check_own(path: str) -> None:
    """Raise a ValueError for a node that must not be written: an owner whose node changes under it fences itself off."""
    if not is_own(path):
        raise ValueError(f"{path} is not ours to write; our nodes are below {OWN_ROOT}")


class Versioned(NamedTuple):
    """A node's value and its version, which grows with every change."""

    value: bytes
    version: int


class Claimed(NamedTuple):
    """Who has a node that was claimed.

    Attributes:
        session: this store's session that the node belongs to; 0 where another's does.
        value: what another has given it.
    """

    session: int
    value: bytes = b""


class Fence(NamedTuple):
    """What is written together with a node that is registered, or neither is.

    Attributes:
        path: a node that outlives sessions.
        value: what it says then.
        version: which it must have; None where it must not be there.
    """

    path: str
    value: bytes
    version: int | None


class Watch(Protocol):
    """A running watch."""

    def stop(self) -> None:
        """Call back no more."""


class MetadataStore(Protocol):
    """A tree of small values with watches.

    All callbacks come on the event loop. A watch calls back once with what is there when it starts and again after every change,
    survives the loss of the session, and may leave out values that were replaced quickly.
    """

    @property
    def connected(self) -> bool:
        """Whether the store answers now."""

    async def get(self, path: str) -> Versioned | None:
        """A node's value, None where there is no such node.

        Raises:
            MetadataUnavailableError: the store did not answer in time.
        """

    async def children(self, path: str) -> frozenset[str] | None:
        """The names of a node's children, None where there is no such node.

        Raises:
            MetadataUnavailableError: the store did not answer in time.
        """

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> Watch:
        """Follow a node's value; None while there is no such node."""

    def watch_children(self, path: str, changed: Callable[[frozenset[str]], None]) -> Watch:
        """Follow the names of a node's children; none while there is no such node. One of our own is made if it is missing."""

    async def register(self, path: str, value: bytes, admit: Callable[[], Awaitable[Fence]] | None = None) -> None:
        """Keep an ephemeral node with this value, through losses of the session, until `unregister`.

        Args:
            path: the node.
            value: its value.
            admit: called before the node is made, and again where what it says was not so; None where nothing must be.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            NotAdmittedError: `admit` does not admit it.
            MetadataUnavailableError: the store did not answer in time.
        """

    async def update(self, path: str, value: bytes) -> None:
        """Give a node made by `register` another value.

        Raises:
            MetadataUnavailableError: the store did not answer in time; the value follows when it answers again.
        """

    async def unregister(self, path: str) -> None:
        """Remove a node made by `register`; no error where it is gone already."""

    async def claim(self, path: str, value: bytes) -> Claimed:
        """Make an ephemeral node, which ends with this session, unless somebody else has it.

        One with the same value belongs to an earlier session of the same broker; the end of that session is waited for, so long
        as sessions last.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            MetadataUnavailableError: the store did not answer in time.
        """

    async def release(self, path: str) -> None:
        """Remove a node made by `claim`; nothing happens where it is not this session's.

        Raises:
            MetadataUnavailableError: the store did not answer in time.
        """

    async def put(self, path: str, value: bytes) -> None:
        """Make a node, or give it another value. It outlives this session: whoever puts it sees to its end.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            MetadataUnavailableError: the store did not answer in time.
        """

    async def remove(self, path: str) -> None:
        """Remove a node made by `put`; no error where it is gone already.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            MetadataUnavailableError: the store did not answer in time.
        """

    def on_session(self, changed: Callable[[SessionLease], None]) -> None:
        """Call back with the session's lease, now and whenever it changes: the store is probed all the time."""

    async def close(self) -> None:
        """End the session: ephemeral nodes go at once."""
