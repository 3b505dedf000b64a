"""Interface of a metadata store; zookeeper.py and oxia/ implement it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from readonly_engine.metadata.lease import SessionLease
    from readonly_engine.metadata.watches import NodeSource, NodeWatch
    from readonly_engine.net.durations import Durations


OWN_ROOT = "/pulsar-readonly"
"""Root of all nodes that brokers write. All other nodes are Pulsar's and BookKeeper's."""


def is_own(path: str) -> bool:
    """Return whether a node is below OWN_ROOT, so that it may be written."""
    return path.startswith(f"{OWN_ROOT}/")


def check_own(path: str) -> None:
    """Check that a node may be written. An owner broker whose node changes fences its topic off.

    Raises:
        ValueError: the node is not below OWN_ROOT.
    """
    if not is_own(path):
        raise ValueError(f"{path} must not be written: it is not below {OWN_ROOT}")


class Versioned(NamedTuple):
    """A node.

    Attributes:
        value: its value.
        version: increases with every change.
        created_ms: time of its creation by the store's clock, ms since the epoch.
        origin: number of the store that it is from; a copy in another store has another time of creation.
    """

    value: bytes
    version: int
    created_ms: int = 0
    origin: int = 0


class ClaimResult(NamedTuple):
    """Holder of a claimed node.

    Attributes:
        session: session of this store that holds the node; 0 if another process holds it.
        value: the other process's value.
    """

    session: int
    value: bytes = b""


class Fence(NamedTuple):
    """A second node, written in one transaction with a registered node.

    Attributes:
        path: a persistent node.
        value: its new value.
        version: its expected version; None if it must not exist.
    """

    path: str
    value: bytes
    version: int | None


class Watch(Protocol):
    """A running watch."""

    def stop(self) -> None:
        """Stop the callbacks."""


class MetadataStore(Protocol):
    """A tree of small values with watches.

    All callbacks run on the event loop. A watch calls back with the value at its start and after every change. It survives the
    loss of the session, and may leave out values that were replaced quickly.
    """

    async def start(self) -> None:
        """Connect.

        Raises:
            AccessDeniedError: the store refuses this client, or the client does not trust the store.
            MetadataUnavailableError: no server of the store answers at its address.
            MetadataError: the store has no such root.
        """

    @property
    def connected(self) -> bool:
        """Return whether the store answers now."""

    @property
    def denied(self) -> int:
        """Return the number of requests and connections that the store refused for a missing right, login or certificate."""

    @property
    def durations(self) -> Durations:
        """Return how many requests the store has answered, and how long that took."""

    async def get(self, path: str) -> Versioned | None:
        """Return a node's value, None if there is no such node.

        Raises:
            MetadataUnavailableError: the store did not answer in time.
        """

    async def children(self, path: str) -> frozenset[str] | None:
        """Return the names of a node's children, None if there is no such node.

        Raises:
            MetadataUnavailableError: the store did not answer in time.
        """

    def watch(self, path: str, changed: Callable[[Versioned | None], None]) -> Watch:
        """Watch a node's value; None while there is no such node."""

    def watch_children(self, path: str, changed: Callable[[frozenset[str]], None]) -> Watch:
        """Watch the names of a node's children; empty while there is no such node. A missing node below OWN_ROOT is created."""

    async def register(self, path: str, value: bytes, admit: Callable[[], Awaitable[Fence]] | None = None) -> None:
        """Keep an ephemeral node with this value until `unregister`; after the loss of the session it is created again.

        Args:
            path: the node.
            value: its value.
            admit: returns the fence before the node is created, and again if the fence did not hold; None for no fence.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            NotAdmittedError: raised by `admit`.
            MetadataUnavailableError: the store did not answer in time.
        """

    async def update(self, path: str, value: bytes) -> None:
        """Change the value of a node made by `register`.

        Raises:
            MetadataUnavailableError: the store did not answer in time; the value is written when it answers again.
        """

    async def unregister(self, path: str) -> None:
        """Remove a node made by `register`; a missing node is no error."""

    async def claim(self, path: str, value: bytes) -> ClaimResult:
        """Create an ephemeral node, which ends with this session, unless another process holds it.

        A node with the same value belongs to an earlier session of the same broker. The call waits for the end of that session,
        at most for the time that sessions last.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            MetadataUnavailableError: the store did not answer in time.
        """

    async def release(self, path: str) -> None:
        """Remove a node made by `claim`; a node of another session stays.

        Raises:
            MetadataUnavailableError: the store did not answer in time.
        """

    async def put(self, path: str, value: bytes) -> None:
        """Create a persistent node, or change its value. The caller removes it.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            MetadataUnavailableError: the store did not answer in time.
        """

    async def put_if(self, path: str, value: bytes, version: int | None) -> int | None:
        """Create a persistent node, or change its value, unless another process has done so meanwhile.

        Args:
            path: the node.
            value: its value.
            version: its expected version; None if it must not exist.

        Returns:
            The new version; None if the node has another version, or exists already.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            MetadataUnavailableError: the store did not answer in time, so the node may have been written.
        """

    async def remove(self, path: str) -> None:
        """Remove a node made by `put`; a missing node is no error.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            MetadataUnavailableError: the store did not answer in time.
        """

    async def check_writable(self, path: str) -> None:
        """Check that an ephemeral node may be created here, with its parents, and be changed and removed. It writes nothing.

        Raises:
            ValueError: the node is not below OWN_ROOT.
            AccessDeniedError: a right is missing; the text names it and the node.
            MetadataUnavailableError: the store did not answer in time.
        """

    def on_session(self, changed: Callable[[SessionLease], None]) -> None:
        """Call back with the session's lease, now and after every change. The store is probed continuously."""

    async def close(self) -> None:
        """End the session, which removes its ephemeral nodes immediately."""


class WatchedStore(MetadataStore, Protocol):
    """A store whose watches can go on in another one (NodeWatch.move)."""

    @property
    def watched_values(self) -> NodeSource[Versioned | None]:
        """The watched values of nodes."""

    @property
    def watched_names(self) -> NodeSource[frozenset[str]]:
        """The watched names of nodes' children."""

    @property
    def watches(self) -> list[NodeWatch[Any]]:
        """All watches."""
