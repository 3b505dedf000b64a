"""Errors of requests to the source cluster. A broker of the pool raises the same ones for its own refusals.

RelayError
├── OwnerUnavailableError   no broker answers, the connection broke, or this broker cannot serve it now: ServiceNotReady, retry
│   └── AdminRefusedError    the admin API does not permit a request: retry, when the role or the token was changed
└── OwnerRefusedError       the owner, or this broker, answers with an error code for the client
"""

from __future__ import annotations

from readonly_engine.wire.pulsar_pb2 import ServerError

_NOT_RETRIABLE = frozenset(
    {
        ServerError.AuthenticationError,
        ServerError.AuthorizationError,
        ServerError.ConsumerBusy,
        ServerError.TopicNotFound,
        ServerError.SubscriptionNotFound,
        ServerError.TopicTerminatedError,
        ServerError.InvalidTopicName,
        ServerError.IncompatibleSchema,
        ServerError.ConsumerAssignError,
        ServerError.NotAllowedError,
    }
)
"""Errors that a retry does not solve (PulsarClientException.isRetriableError)."""


class RelayError(Exception):
    """Base of all errors that this package raises.

    Attributes:
        code: the ServerError for the client.
    """

    code: ServerError = ServerError.ServiceNotReady

    @property
    def retriable(self) -> bool:
        """Whether a retry may succeed."""
        return self.code not in _NOT_RETRIABLE


class OwnerUnavailableError(RelayError):
    """No broker answers in time, or the connection broke.

    Attributes:
        refused: URL of the broker whose address refused the connection; empty if unknown.
    """

    def __init__(self, message: str, *, refused: str = "") -> None:
        super().__init__(message)
        self.refused = refused


class AdminRefusedError(OwnerUnavailableError):
    """The admin API refuses this client."""


class OwnerRefusedError(RelayError):
    """The owner refused a request, or this broker did."""

    def __init__(self, code: ServerError, message: str) -> None:
        super().__init__(message)
        self.code = code
