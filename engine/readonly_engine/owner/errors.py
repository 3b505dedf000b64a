"""Errors of talking to the writable cluster.

RelayError
├── OwnerUnavailableError   no broker of the writable cluster answers, or the connection broke; try again
└── OwnerRefusedError       the owner answered with an error, which the client should see as it is
"""

from __future__ import annotations

from readonly_engine.wire.pulsar_pb2 import ServerError


class RelayError(Exception):
    """Base of all that this package can raise.

    Attributes:
        code: the ServerError that a client is told.
    """

    code: ServerError = ServerError.ServiceNotReady


class OwnerUnavailableError(RelayError):
    """No broker answers, or not in time, or the connection broke.

    Attributes:
        refused: URL of the broker at whose address nobody listens; empty where that is not known.
    """

    def __init__(self, message: str, *, refused: str = "") -> None:
        super().__init__(message)
        self.refused = refused


class OwnerRefusedError(RelayError):
    """The owner refused a request."""

    def __init__(self, code: ServerError, message: str) -> None:
        super().__init__(message)
        self.code = code
