"""Credentials, and the client of SASL DIGEST-MD5 (RFC 2831, quality of protection `auth`) for ZooKeeper and bookies."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MECHANISM: Final = "DIGEST-MD5"

MAX_LOGIN_BYTES: Final = 4096
"""Limit of a login file."""

_DIRECTIVE: Final = re.compile(r'([A-Za-z][A-Za-z-]*)=(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?:,\s*|$)')
_COUNT: Final = "00000001"
_NONCE_BYTES: Final = 24


class LoginError(ValueError):
    """A login file cannot be used, or a server does not follow DIGEST-MD5."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and a password; the password is in no text about it."""

    user: str
    password: str = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Credentials:
        """Read `USER:PASSWORD` from a file; the password may have colons, and white space at the file's end does not count.

        Raises:
            LoginError: the file cannot be read, or has another form. The text has nothing of the file.
        """
        try:
            text = path.read_bytes()[: MAX_LOGIN_BYTES + 1].decode()
        except OSError as error:
            raise LoginError(f"{path} cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError:
            raise LoginError(f"{path} must be a text of one line, USER:PASSWORD, in UTF-8") from None
        user, _, password = text.strip().partition(":")
        if not user or not password or len(text) > MAX_LOGIN_BYTES or not text.strip().isprintable():
            raise LoginError(f"{path} must be a text of one line, USER:PASSWORD")
        return cls(user, password)


class DigestMd5:
    """One login at one server.

    Args:
        login: user and password.
        service: the service's name, such as `zookeeper`.
        host: the host's name in the digest, which is a constant of each server.
        nonce: the client's nonce; None for a random one.
    """

    def __init__(self, login: Credentials, service: str, host: str, nonce: str | None = None) -> None:
        self._login = login
        self._uri = f"{service}/{host}"
        self._nonce = nonce or secrets.token_urlsafe(_NONCE_BYTES)
        self._proof = b""
        self.complete = False
        """Whether the server has proved that it knows the password."""

    def answer(self, challenge: bytes) -> bytes:
        """Return the answer to a challenge. The one to the second challenge is empty and ends the login.

        Raises:
            LoginError: the challenge is malformed, or the server does not know the password.
        """
        directives = _directives(challenge)
        if self._proof:
            if not hmac.compare_digest(directives.get("rspauth", "").encode(), self._proof):
                raise LoginError("the server does not prove that it knows the password")
            self.complete = True
            return b""
        nonce, realm = directives.get("nonce"), directives.get("realm", "")
        if nonce is None or directives.get("algorithm") != "md5-sess":
            raise LoginError("the server's challenge is not one of DIGEST-MD5")
        offered = directives.get("qop", "auth").split(",")
        if "auth" not in [one.strip() for one in offered]:
            raise LoginError(f"the server wants DIGEST-MD5 with {directives['qop']}; only auth is supported")
        self._proof = self._response(realm, nonce, "")
        response = self._response(realm, nonce, "AUTHENTICATE")
        return b",".join(
            (
                b"charset=utf-8",
                b"username=" + _quoted(self._login.user),
                b"realm=" + _quoted(realm),
                b"nonce=" + _quoted(nonce),
                b"nc=" + _COUNT.encode(),
                b"cnonce=" + _quoted(self._nonce),
                b"digest-uri=" + _quoted(self._uri),
                b"maxbuf=65536",
                b"response=" + response,
                b"qop=auth",
            )
        )

    def _response(self, realm: str, nonce: str, method: str) -> bytes:
        secret = b":".join(_hashed(text) for text in (self._login.user, realm, self._login.password))
        first = b":".join((_md5(secret), nonce.encode(), self._nonce.encode()))
        second = f"{method}:{self._uri}".encode()
        parts = (_hex(first), nonce.encode(), _COUNT.encode(), self._nonce.encode(), b"auth", _hex(second))
        return _hex(b":".join(parts))


def _directives(challenge: bytes) -> dict[str, str]:
    """Parse the directives of a challenge; of one with several values, the first counts."""
    try:
        text = challenge.decode()
    except UnicodeDecodeError:
        raise LoginError("the server's challenge is not UTF-8") from None
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise LoginError("the server's challenge is malformed")
        quoted = match[2]
        found.setdefault(match[1].lower(), match[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = match.end()
    return found


def _quoted(text: str) -> bytes:
    return b'"' + text.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


def _hashed(text: str) -> bytes:
    """Encode as RFC 2831 does for hashes: in ISO 8859-1 if that has all characters."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _hex(data: bytes) -> bytes:
    return _md5(data).hex().encode()
