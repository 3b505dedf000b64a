"""Kinds of errors of the engine's clients."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.errors import BookieRefusedError
from readonly_engine.doctor.checks.failure import Failure, FailureKind
from readonly_engine.metadata.errors import AccessDeniedError
from readonly_engine.owner.errors import AdminRefusedError, OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_WRONG_HOST: Final = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""

_OWN_SOURCE: Final = re.compile(r" \(_ssl\.c:\d+\)")
"""Where Python itself noticed an error of TLS."""

_UNREACHABLE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})

_PRECEDENCE: Final = (
    FailureKind.NAME,
    FailureKind.TLS_HOST,
    FailureKind.TLS_TRUST,
    FailureKind.TLS,
    FailureKind.REFUSED,
    FailureKind.CREDENTIALS,
    FailureKind.RIGHTS,
    FailureKind.TIMEOUT,
)
"""The kind of several causes: a refusal may be one of TLS, and bookies answer a wrong password by silence."""


def failure_of(error: BaseException) -> Failure:
    """Return an error as a failure, of the most exact kind of its causes."""
    kinds = {kind for cause in _chain(error) if (kind := _kind(cause)) is not None}
    text = str(error) or ("no answer in time" if FailureKind.TIMEOUT in kinds else type(error).__name__)
    text = _OWN_SOURCE.sub("", text)
    return Failure(next((kind for kind in _PRECEDENCE if kind in kinds), FailureKind.OTHER), text)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    known: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in known:
        known.append(following)
        yield following
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)


def _kind(error: BaseException) -> FailureKind | None:
    match error:
        case socket.gaierror():
            return FailureKind.NAME
        case ssl.SSLCertVerificationError():
            # aiohttp's own subclass has no verify_code; its cause has one.
            wrong_host = getattr(error, "verify_code", None) in _WRONG_HOST
            return FailureKind.TLS_HOST if wrong_host else FailureKind.TLS_TRUST
        case ssl.SSLError():
            return FailureKind.TLS
        case TimeoutError():
            return FailureKind.TIMEOUT
        case OSError():
            return _kind_of_connection(error)
        case OwnerRefusedError(code=ServerError.AuthenticationError):
            return FailureKind.CREDENTIALS
        case OwnerRefusedError(code=ServerError.AuthorizationError) | AdminRefusedError() | AccessDeniedError():
            return FailureKind.RIGHTS
        case BookieRefusedError():
            return FailureKind.CREDENTIALS
        case _:
            return None


def _kind_of_connection(error: OSError) -> FailureKind | None:
    # asyncio joins the errors of several addresses of a host to one text.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return FailureKind.REFUSED
    return FailureKind.TIMEOUT if error.errno in _UNREACHABLE else None
