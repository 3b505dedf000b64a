"""Access tokens by client credentials: requests, answers, and the time of the next request. Pure; the caller does HTTP.

Broker and operator share it. It follows the stock clients: discovery below the issuer (DefaultMetadataResolver), a form by
POST (TokenClient), and the fields of the key file (KeyFile). No error contains credentials or text of the server.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
GRANT: Final = "client_credentials"

MAX_ANSWER_BYTES: Final = 256 << 10
"""Largest answer. Tokens with many claims have some 10 KiB."""
MAX_URL_LENGTH: Final = 2048
MAX_SECRET_LENGTH: Final = 64 << 10

DEFAULT_LIFETIME_S: Final = 300.0
"""Lifetime of a token whose answer has no expires_in, which RFC 6749 only recommends."""
MIN_LIFETIME_S: Final = 10.0
MAX_LIFETIME_S: Final = 86400.0
"""Bounds of a lifetime, so that a wrong number causes neither a stream of requests nor a token for ever."""
REFRESH_FRACTION: Final = 0.8
"""Part of the lifetime after which a new token is requested."""
MIN_REJECTED_AGE_S: Final = 300.0
"""Age of a token from which its refusal by a broker makes another one due. A new one would not help a role without a permission,
to which Pulsar answers 401 too, and must not be requested with every such answer."""
FIRST_RETRY_S: Final = 1.0
MAX_RETRY_S: Final = 60.0

_URL_TEXT: Final = re.compile("[!-~]+")

_CODES: Final = frozenset(
    {
        "access_denied",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "invalid_target",
        "server_error",
        "temporarily_unavailable",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)
"""Errors of RFC 6749 and RFC 8707. Other texts of the server could contain credentials."""


class AccessTokenError(ValueError):
    """No access token can be had; the text says why, without credentials."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Credentials of a client.

    Attributes:
        client_id: its id.
        client_secret: its secret; never printed.
    """

    client_id: str
    client_secret: str = field(repr=False)

    def __post_init__(self) -> None:
        for name, value in (("client_id", self.client_id), ("client_secret", self.client_secret)):
            if not value or not value.isprintable() or len(value) > MAX_SECRET_LENGTH:
                raise AccessTokenError(f"{name} must be a non-empty text in one line")

    @classmethod
    def of_key_file(cls, text: str) -> ClientCredentials:
        """Parse a key file: JSON with client_id, client_secret and, if present, the type client_credentials.

        Raises:
            AccessTokenError: it is no such file; the text names the field.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise AccessTokenError("the key file is not JSON") from None
        if not isinstance(document, dict):
            raise AccessTokenError("the key file is not a JSON object")
        if document.get("type", GRANT) != GRANT:
            raise AccessTokenError(f"type of the key file must be {GRANT}")
        values = [document.get(name) for name in ("client_id", "client_secret")]
        for name, value in zip(("client_id", "client_secret"), values, strict=True):
            if not isinstance(value, str):
                raise AccessTokenError(f"{name} of the key file is missing")
        return cls(*map(str, values))

    def form(self, audience: str, scope: str) -> bytes:
        """Return the body of a token request; an empty audience or scope is left out."""
        fields = {"grant_type": GRANT, "client_id": self.client_id, "client_secret": self.client_secret}
        optional = {"audience": audience, "scope": scope}
        return urlencode({**fields, **{name: value for name, value in optional.items() if value}}).encode()


@dataclass(frozen=True, slots=True)
class AccessToken:
    """An access token.

    Attributes:
        value: the token; never printed.
        lifetime_s: seconds from the request in which it is valid.
    """

    value: str = field(repr=False)
    lifetime_s: float

    @classmethod
    def parse(cls, status: int, body: bytes) -> AccessToken:
        """Parse the answer of a token endpoint.

        Raises:
            AccessTokenError: the server refuses, or the answer has no bearer token.
        """
        document = _object(body)
        if status != HTTPStatus.OK:
            code = document.get("error") if document else None
            shown = f", {code}" if isinstance(code, str) and code in _CODES else ""
            raise AccessTokenError(f"the token endpoint answers HTTP {status}{shown}")
        value = document.get("access_token") if document else None
        if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
            raise AccessTokenError("the answer of the token endpoint has no access_token")
        if str((document or {}).get("token_type") or "bearer").lower() != "bearer":
            raise AccessTokenError("the token endpoint answers with another token_type than Bearer")
        return cls(value, _lifetime((document or {}).get("expires_in")))


def discovery_url(issuer_url: str) -> str:
    """Return the URL of the issuer's metadata."""
    return f"{issuer_url.rstrip('/')}{DISCOVERY_PATH}"


def token_endpoint(issuer_url: str, status: int, body: bytes) -> str:
    """Return the token endpoint in the answer to `discovery_url`.

    Raises:
        AccessTokenError: the answer has none, or one to which the secret would go in clear text from an issuer with TLS.
    """
    if status != HTTPStatus.OK:
        raise AccessTokenError(f"the issuer answers HTTP {status} to {DISCOVERY_PATH}")
    url = (_object(body) or {}).get("token_endpoint")
    try:
        parts = urlsplit(url) if isinstance(url, str) and len(url) <= MAX_URL_LENGTH else None
        usable = parts is not None and bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:
        usable, parts = False, None
    allowed = ("https",) if issuer_url.startswith("https://") else ("http", "https")
    if not usable or parts is None or parts.scheme not in allowed or not _URL_TEXT.fullmatch(str(url)):
        raise AccessTokenError(
            f"the issuer's {DISCOVERY_PATH} has no token_endpoint of {' or '.join(f'{one}://' for one in allowed)}"
        )
    return str(url)


class TokenRefresh:
    """Schedule of one access token, as a pure state machine. Times are seconds of the caller's monotonic clock."""

    def __init__(self) -> None:
        self._token = ""
        self._requested = self._expires = self._due = -math.inf
        self._failures = 0

    def is_due(self, now: float) -> bool:
        """Return whether to request a token now."""
        return now >= self._due

    def next_timer(self) -> float:
        """Return the time of the next request."""
        return self._due

    def current(self, now: float) -> str:
        """Return the valid token; empty for none."""
        return self._token if now < self._expires else ""

    def succeed(self, token: AccessToken, requested: float) -> None:
        """Handle a token.

        Args:
            token: the token.
            requested: time of the request: the lifetime began after it.
        """
        self._token, self._failures = token.value, 0
        self._requested = requested
        self._expires = requested + token.lifetime_s
        self._due = requested + REFRESH_FRACTION * token.lifetime_s

    def fail(self, now: float) -> None:
        """Handle a failed request: the next one follows after a longer delay."""
        self._due = now + min(FIRST_RETRY_S * 2.0 ** min(self._failures, 10), MAX_RETRY_S)
        self._failures += 1

    def reject(self, token: str, now: float) -> None:
        """Handle a token that a broker refused, though it has not expired: it was revoked, or its key was replaced.

        Another one is due if this is still the token, and not a new one. The last one stays until then.
        """
        if token == self._token and not self._failures and now - self._requested >= MIN_REJECTED_AGE_S:
            self._due = min(self._due, now)

    def restart(self) -> None:
        """Handle changed credentials: a token is due at once. The last one stays valid until then."""
        self._due, self._failures = -math.inf, 0


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _lifetime(value: object) -> float:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        return DEFAULT_LIFETIME_S
    return float(min(max(value, MIN_LIFETIME_S), MAX_LIFETIME_S))
