"""TLS and token of the HTTP port, as a server and as a client of the pool's other ports.

Probes of a kubelet have no credentials and check no certificate: OPEN_PATHS need no token, and no client certificate is required.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiohttp import Fingerprint, web

from readonly_engine.net.certificates import first_certificate
from readonly_engine.net.interfaces import LOOPBACK_HOSTS
from readonly_engine.net.tls import ClientTls, Reloaded
from readonly_engine.owner.admin_requests import read_token

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path

    from readonly_engine.net.tls import TlsFiles

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Paths that need no token: they have `ok`, or one line of text why a broker is not ready."""

TOKEN_HEADER: Final = "X-Pulsar-Readonly-Token"  # noqa: S105 - the name of a header
"""Header with the token for clients behind a proxy that keeps Authorization for itself, as the API server of Kubernetes does."""

CHALLENGE: Final = 'Bearer realm="pulsar-readonly", Basic realm="pulsar-readonly"'
REFUSAL: Final = (
    "this path needs the token of --http-token-file: send it as 'Authorization: Bearer TOKEN', or as the password of any "
    "user\n"
)


class HttpAccess:
    """TLS and token of an HTTP port. Changed files count from the next connection or request on.

    Args:
        tls: files of the server's certificate; None for no TLS.
        token_file: file of the token; None if no path needs one.
        peers: files of TLS with the HTTP ports of the pool's other brokers; None for no TLS.

    Raises:
        TlsError: a file of TLS cannot be used.
        OSError: the token cannot be read.
        ValueError: the file has no token.
    """

    def __init__(
        self, tls: TlsFiles | None = None, token_file: Path | None = None, peers: TlsFiles | None = None
    ) -> None:
        self.tls = tls is not None
        self._context = None if tls is None else Reloaded(tls.files, tls.server_context)
        self._own = None if tls is None else Reloaded(tls.files, partial(_fingerprint, tls))
        self._token = None if token_file is None else Reloaded((token_file,), partial(read_token, token_file))
        self._peers = None if peers is None else ClientTls(peers)

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the server; None without TLS."""
        return None if self._context is None else self._context.get()

    def peer_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the pool's other HTTP ports; None without TLS."""
        return None if self._peers is None else self._peers.context()

    def own_certificate(self) -> Fingerprint | bool:
        """Return what a client checks at another port with the same files, which has another name there (`ssl` of aiohttp)."""
        return True if self._own is None else self._own.get()

    def headers_for(self, url: str) -> dict[str, str]:
        """Return the headers of a request to another HTTP port of the pool. The token leaves this machine with TLS only."""
        if self._token is None or not (url.startswith("https:") or urlsplit(url).hostname in LOOPBACK_HOSTS):
            return {}
        return {"Authorization": f"Bearer {self._token.get()}"}

    def refusal(self, path: str, headers: Mapping[str, str]) -> web.Response | None:
        """Return the answer to a request without the token; None if the request is admitted."""
        if self._token is None or path in OPEN_PATHS:
            return None
        token = self._token.get().encode()
        if any(hmac.compare_digest(one, token) for one in _tokens(headers)):  # in constant time
            return None
        return web.Response(
            status=web.HTTPUnauthorized.status_code, text=REFUSAL, headers={"WWW-Authenticate": CHALLENGE}
        )


OPEN: Final = HttpAccess()
"""Access without TLS and token."""


def _tokens(headers: Mapping[str, str]) -> list[bytes]:
    """Return the tokens of a request's headers: that of Bearer, the password of Basic, and that of TOKEN_HEADER."""
    scheme, _, text = headers.get("Authorization", "").partition(" ")
    value = text.strip().encode(errors="surrogateescape")
    found = [headers.get(TOKEN_HEADER, "").encode(errors="surrogateescape")]
    if scheme.lower() == "bearer":
        found.append(value)
    elif scheme.lower() == "basic":
        with suppress(binascii.Error):
            found.append(base64.b64decode(value, validate=True).partition(b":")[2])
    return found


def _fingerprint(tls: TlsFiles) -> Fingerprint:
    tls.server_context()  # a pair that no server could use must not replace the last valid one
    path = tls.certificate
    return Fingerprint(hashlib.sha256(b"" if path is None else first_certificate(path)).digest())
