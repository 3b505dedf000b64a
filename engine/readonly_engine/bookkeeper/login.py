"""Steps before the first request on a connection to a bookie: START_TLS in clear, and a login by SASL DIGEST-MD5. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.bookkeeper.errors import BookieRefusedError, BookieUnavailableError
from readonly_engine.net.digest_md5 import DigestMd5, LoginError
from readonly_engine.wire.bookie import decode_reply, encode_start_tls
from readonly_engine.wire.bookie_auth import decode_auth_reply, encode_auth

if TYPE_CHECKING:
    from readonly_engine.net.digest_md5 import Credentials

SASL: Final = "sasl"
"""Name of BookKeeper's SASL provider (SaslConstants.PLUGIN_NAME)."""

NO_PROVIDER: Final = "AuthDisabledPlugin"
"""Name that a bookie without a provider answers with (AuthProviderFactoryFactory)."""

_SERVICE: Final = "bookkeeper"
"""Service and host in the digest (SaslConstants.SASL_BOOKKEEPER_PROTOCOL and SASL_MD5_DUMMY_HOSTNAME)."""


class Exchange(Protocol):
    """Some steps, of which the client does the first."""

    def begin(self) -> bytes:
        """Return the first request."""

    def received(self, frame: bytes) -> bytes | None:
        """Return the next request after a reply; None at the end.

        Raises:
            BookieRefusedError: the bookie refuses.
            WireError: the reply is malformed.
        """


class StartTls:
    """The request for TLS, in clear; the handshake follows."""

    def begin(self) -> bytes:
        """Return the request."""
        return encode_start_tls(1)

    def received(self, frame: bytes) -> None:
        """Check the reply."""
        _, reply = decode_reply(frame)
        if not reply.ok:
            raise BookieRefusedError(f"it answered {reply.status} to START_TLS: TLS is not set up there")


class SaslLogin:
    """A login by DIGEST-MD5 at BookKeeper's SASL provider.

    Args:
        login: user and password.
        option: name of the option with their file, for errors.
    """

    def __init__(self, login: Credentials, option: str) -> None:
        self._user = login.user
        self._option = option
        self._digest = DigestMd5(login, _SERVICE, _SERVICE)
        self._steps = 0

    def unanswered(self) -> BookieUnavailableError:
        """Return the error of a login without an answer.

        A bookie of 4.17 answers nothing to a wrong password. One that did not answer before it does not answer at all.
        """
        kind = BookieUnavailableError if self._steps == 1 else BookieRefusedError
        return kind(f"it does not answer the login of {self._option} as {self._user}; are user and password right?")

    def begin(self) -> bytes:
        """Return the first message, which has no content."""
        return self._message(b"")

    def received(self, frame: bytes) -> bytes | None:
        """Return the answer to a challenge."""
        reply = decode_auth_reply(frame)
        if reply.ok and reply.plugin == NO_PROVIDER:
            return None  # it serves everyone
        if not reply.ok or reply.plugin != SASL:
            known = f", whose authentication provider is {reply.plugin}" if reply.plugin not in {"", SASL} else ""
            raise BookieRefusedError(f"it refuses the login of {self._option} as {self._user}{known}")
        try:
            answer = self._digest.answer(reply.payload)
        except LoginError as error:
            raise BookieRefusedError(f"{self._option}: {error}") from error
        return None if self._digest.complete else self._message(answer)

    def _message(self, payload: bytes) -> bytes:
        self._steps += 1
        return encode_auth(self._steps, SASL, payload)
