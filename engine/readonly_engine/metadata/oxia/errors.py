"""What a failed call to Oxia means."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import grpc


class Failure(Enum):
    """A kind of failed call."""

    RETRY = auto()
    """The server does not lead the shard, or does not answer: try again at the leader."""
    SESSION_ENDED = auto()
    """The session does not exist."""
    REFUSED = auto()
    """The same call would fail again."""


_SESSION_ENDED: Final = "session not found"
_REFUSED: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
_REFUSED_TEXTS: Final = ("namespace not found", "notifications not enabled", "session timeout")


def kind_of(error: grpc.aio.AioRpcError) -> Failure:
    """Return the kind of a failure.

    Oxia has status codes of its own (constant/grpc_errors.go), which gRPC for Python gives as UNKNOWN with the text.
    """
    text = (error.details() or "").lower()
    if _SESSION_ENDED in text:
        return Failure.SESSION_ENDED
    if error.code() in _REFUSED or any(one in text for one in _REFUSED_TEXTS):
        return Failure.REFUSED
    return Failure.RETRY


def describe(error: grpc.aio.AioRpcError) -> str:
    """Return a failure in a few words."""
    details = " ".join((error.details() or "").split())[:200]
    return f"{error.code().name}: {details}" if details else str(error.code().name)
