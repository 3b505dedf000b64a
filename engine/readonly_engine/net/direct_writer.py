"""Interface of a client's connection for direct writes, which bypass the transport of the event loop."""

from __future__ import annotations

from typing import Final, Protocol

NO_DESCRIPTOR: Final = -1


class DirectSubscriber(Protocol):
    """A subscription whose bytes bypass a connection's transport."""

    def leave_fanout(self) -> None:
        """Stop direct writes: all bytes must go through the transport from now on."""


class DirectWriter(Protocol):
    """A client's connection.

    Attributes:
        unsent: pending frames; none may overtake them.
        direct_subscribers: subscriptions whose bytes bypass the transport. They leave the group when bypassing ends.
    """

    unsent: list[bytes]
    direct_subscribers: dict[DirectSubscriber, None]

    @property
    def descriptor(self) -> int:
        """Return the socket's descriptor; NO_DESCRIPTOR while bytes must go through the transport."""

    @property
    def tls(self) -> bool:
        """Return whether bytes are encrypted, so that they never bypass the transport."""

    def send(self, data: bytes) -> None:
        """Send frames, at the end of the event loop's iteration or before."""

    def send_pieces(self, pieces: list[bytes | memoryview], size: int) -> None:
        """Send large frames at once, after the pending ones of this client, without joining their pieces."""

    def write_now(self, data: bytes) -> None:
        """Send frames at once, after the pending ones of this client."""

    def flush_all(self) -> None:
        """Send the pending frames of all clients now."""

    def write_remainder(self, data: bytes, written: int) -> None:
        """Send the rest of `data`, of which the socket took `written` bytes."""
