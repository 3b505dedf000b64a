"""Access tokens of OAuth 2.0 servers for admin APIs: blocking HTTP around the state machine that brokers use, too."""

from __future__ import annotations

import http.client
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_engine.config.access_token import (
    FORM_TYPE,
    MAX_ANSWER_BYTES,
    AccessToken,
    AccessTokenError,
    ClientCredentials,
    TokenRefresh,
    discovery_url,
    token_endpoint,
)

from readonly_operator.cluster.fetch import Credentials, FetchError, exchange

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from readonly_operator.api.pool.authentication import OAuth2

TIMEOUT_SECONDS = 5.0
"""Deadline of one request."""
UNUSED_SECONDS = 3600.0
"""How long a token is kept after its last use."""


@dataclass(slots=True)
class _TokenLogin:
    """A login at one issuer.

    Attributes:
        credentials: the last ones.
        refresh: schedule of its token.
        problem: why the last request failed.
        used: time of the last use.
        lock: held while a token is requested.
    """

    credentials: ClientCredentials
    refresh: TokenRefresh = field(default_factory=TokenRefresh)
    problem: str = ""
    used: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class AccessTokens:
    """Request and keep tokens, in memory only. Thread-safe.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._logins: dict[tuple[str, OAuth2], _TokenLogin] = {}

    def get(
        self, namespace: str, wanted: OAuth2, credentials: ClientCredentials, context: ssl.SSLContext | None
    ) -> tuple[str, float]:
        """Return a valid token, and the seconds until it should be renewed.

        Args:
            namespace: namespace of the Secret: pools of one namespace do not use tokens of another.
            wanted: the settings.
            credentials: of the client; changed ones are used at once.
            context: TLS context for the issuer; None for the system's default.

        Raises:
            FetchError: the issuer gives no token; the text has no secret.
        """
        now = self._clock()
        with self._lock:
            self._logins = {key: one for key, one in self._logins.items() if now - one.used < UNUSED_SECONDS}
            login = self._logins.setdefault((namespace, wanted), _TokenLogin(credentials, used=now))
            login.used = now
        with login.lock:
            if login.credentials != credentials:
                # a token of the former client must not act for the new one
                login.credentials, login.refresh = credentials, TokenRefresh()
            now = self._clock()
            if login.refresh.is_due(now):
                try:
                    login.refresh.succeed(_request(wanted, credentials, context), now)
                except (AccessTokenError, FetchError) as error:
                    login.problem = str(error)
                    login.refresh.fail(self._clock())
            now = self._clock()
            token = login.refresh.current(now)
            if not token:
                raise FetchError(f"no access token of {wanted.issuer_url}: {login.problem}")
            return token, max(0.0, login.refresh.next_timer() - now)

    def reject(self, namespace: str, wanted: OAuth2, token: str) -> None:
        """Handle a token that the admin API refused; see TokenRefresh.

        Args:
            namespace: as above.
            wanted: as above.
            token: the token.
        """
        with self._lock:
            login = self._logins.get((namespace, wanted))
        if login is not None:
            login.refresh.reject(token, self._clock())


def _request(wanted: OAuth2, credentials: ClientCredentials, context: ssl.SSLContext | None) -> AccessToken:
    """Discover the token endpoint, and request a token.

    Raises:
        AccessTokenError: the answers have none.
        FetchError: a server does not answer.
    """
    tls = Credentials(context=context)
    try:
        status, body = exchange(
            "GET", discovery_url(wanted.issuer_url), TIMEOUT_SECONDS, tls, max_bytes=MAX_ANSWER_BYTES
        )
        url = token_endpoint(wanted.issuer_url, status, body)
        form = credentials.form(wanted.audience, wanted.scope)
        status, body = exchange("POST", url, TIMEOUT_SECONDS, tls, form, FORM_TYPE, max_bytes=MAX_ANSWER_BYTES)
    except FetchError as error:
        if not isinstance(error.__cause__, http.client.HTTPException):
            raise
        # such an error quotes the answer, and a server may send the form back, with the secret in it
        raise FetchError("the answer is not one of HTTP, or is too large") from None
    return AccessToken.parse(status, body)
