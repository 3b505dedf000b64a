"""What a connection to an owner needs of others: clients of its producers, users of its credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import AuthData

C_contra = TypeVar("C_contra", contravariant=True)  # the connection, whose module imports this one


class Publisher(Protocol[C_contra]):
    """A client that has a connection for its producers alone; it answers the owner's PINGs and backpressure."""

    def on_owner_writable(self, connection: C_contra, *, writable: bool) -> None:
        """Handle the start or end of the connection's backpressure; the end of the connection counts as writable."""

    def on_owner_ping(self, connection: C_contra) -> None:
        """Handle a PING of the owner, which expects `pong`, or any other command."""


class ConnectionEvents(Protocol[C_contra]):
    """Gets a connection's events that concern its credentials and clients."""

    def on_challenge(self, connection: C_contra, challenge: AuthData) -> None:
        """Handle a request for credentials: for more during the handshake, for newer ones later."""

    def on_connection_lost(self, connection: C_contra) -> None:
        """Handle the end of the connection; its handlers are called next."""

    def on_probe(self) -> None:
        """Handle a PING by which the owner asks whether a consumer is alive. It has been answered for all of them."""
