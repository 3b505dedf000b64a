"""Small HTTP requests with a deadline, to brokers of pools and to the source cluster's admin API."""

from __future__ import annotations

import errno
import http.client
import json
import socket
import ssl
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from readonly_engine.config.admin_redirect import (
    RedirectError,
    has_dot_segment,
    is_followed,
    is_same_host,
    redirect_target,
)

from readonly_operator.cluster.deadline import answer_until, open_connection, remaining

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_BYTES = 8 * 1024 * 1024
"""Largest answer. A pool's bindings are limited by a ConfigMap's 1 MiB."""
CHUNK = 64 * 1024
JSON_TYPE = "application/json"
REFUSAL_SECONDS = 0.3
"""Time in which a server that has completed a TLS handshake refuses the client."""
REDIRECTS = 3
"""Most redirects: the admin API redirects at most from the queried broker to the topic's owner."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials for a server.

    Attributes:
        token: a bearer token; empty for none.
        context: TLS context; None for the system's default.
        namespace: where short names of hosts are looked for first; empty for the operator's own.
        on_rejected: called when a server answers 401 to the token.
        server_name: host that the server's certificate must name; empty for that of the URL.
    """

    token: str = field(default="", repr=False)
    context: ssl.SSLContext | None = None
    namespace: str = ""
    on_rejected: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    server_name: str = ""


ANONYMOUS = Credentials()

MAX_QUOTE = 200
"""Characters of an answer of the given host in an error."""
NOT_HTTP = (http.client.BadStatusLine, http.client.UnknownProtocol)

TLS_REASONS = {
    "WRONG_VERSION_NUMBER": "the port is not one of TLS",
    "UNEXPECTED_EOF_WHILE_READING": "the server closes the connection in the TLS handshake",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a client certificate",
}
"""Reasons of OpenSSL in plain words."""


class FetchError(Exception):
    """A request without a usable answer; the text is the reason, without the URL.

    Args:
        text: the reason.
        status: the HTTP status of the answer; 0 for no answer.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def get_json(url: str, timeout: float, credentials: Credentials = ANONYMOUS, given: Sequence[str] = ()) -> Any:
    """Return the JSON at a URL, within `timeout` seconds.

    Args:
        url: the URL.
        timeout: seconds in all.
        credentials: for the server.
        given: URLs of the spec, if a server at one of them has named this one; then it is reached like the target of a redirect.

    Raises:
        FetchError: there is no answer, or it is not JSON.
    """
    body = get_text(url, timeout, credentials, given)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise FetchError("the answer is not JSON", http.client.OK) from None


def get_text(url: str, timeout: float, credentials: Credentials = ANONYMOUS, given: Sequence[str] = ()) -> bytes:
    """Return the body at a URL, within `timeout` seconds; the arguments are those of `get_json`.

    Raises:
        FetchError: there is no answer, or its status is not 200.
    """
    admits = _admission(given, url)
    status, _, body = _exchange("GET", url, None, timeout, credentials, None, JSON_TYPE, admits)
    if status != http.client.OK:
        raise FetchError(_refusal(status, body if admits is None else b""), status)
    return body


def get(url: str, timeout: float, credentials: Credentials = ANONYMOUS) -> tuple[int, bytes]:
    """Return status and body of a URL, within `timeout` seconds.

    Raises:
        FetchError: there is no answer, or it is too large or too slow.
    """
    status, _, body = _exchange("GET", url, None, timeout, credentials)
    return status, body


def exchange(
    method: str,
    url: str,
    timeout: float,
    credentials: Credentials = ANONYMOUS,
    body: bytes | None = None,
    content_type: str = JSON_TYPE,
    *,
    max_bytes: int = MAX_BYTES,
) -> tuple[int, bytes]:
    """Return status and body of one request, within `timeout` seconds. Redirects are not followed.

    Raises:
        FetchError: there is no answer, or it is too large or too slow.
    """
    status, _, answer = _exchange(method, url, body, timeout, credentials, max_bytes, content_type)
    return status, answer


def send(
    method: str,
    url: str,
    value: Any,
    timeout: float,
    credentials: Credentials = ANONYMOUS,
    max_bytes: int | None = None,
) -> bytes:
    """Send JSON and follow redirects: Pulsar redirects a request to the broker that can serve it.

    A redirect keeps the path, and leads to no link-local address, to no metadata service, and to loopback from loopback only.

    Args:
        method: GET, PUT, POST or DELETE.
        url: the URL.
        value: JSON; None for no body.
        timeout: seconds in all.
        credentials: also sent to the target of a redirect, which needs them; the given host knows them already.
        max_bytes: largest answer; None for MAX_BYTES.

    Returns:
        The body of the answer.

    Raises:
        FetchError: there is no answer, its status is not 2xx, or a redirect is not followed. The text quotes only an answer of
            the given host: a redirect could lead to any other.
    """
    deadline = time.monotonic() + timeout
    body = None if value is None else json.dumps(value).encode()
    given = (url,)
    for _ in range(REDIRECTS + 1):
        left = max(0.1, deadline - time.monotonic())
        admits = _admission(given, url)
        status, location, answer = _exchange(method, url, body, left, credentials, max_bytes, JSON_TYPE, admits)
        if status != http.client.TEMPORARY_REDIRECT or not location:
            break
        try:
            url = redirect_target(url, location)
        except RedirectError as error:
            raise FetchError(f"it {error}") from None
    if not 200 <= status < 300:
        text = _refusal(status, answer) if admits is None else f"{_refusal(status, b'')} after a redirect"
        raise FetchError(text, status)
    return answer


def _admission(given: Sequence[str], url: str) -> Callable[[str], None] | None:
    """Return the check of addresses for a URL that a server has chosen; None for a host that the spec names."""
    if not given or any(is_same_host(one, url) for one in given):
        return None
    return partial(_admit, [urlsplit(one).hostname or "" for one in given])


def _admit(given_hosts: Sequence[str], address: str) -> None:
    if not any(is_followed(address, host) for host in given_hosts):
        raise OSError(errno.EPERM, "it leads to an address of this machine or of a metadata service")


def _exchange(
    method: str,
    url: str,
    body: bytes | None,
    timeout: float,
    credentials: Credentials,
    max_bytes: int | None = None,
    content_type: str = JSON_TYPE,
    admits: Callable[[str], None] | None = None,
) -> tuple[int, str, bytes]:
    deadline = time.monotonic() + timeout
    parts = urlsplit(url)
    if has_dot_segment(parts.path):
        raise FetchError("a name in the path of the request is '.' or '..', which the admin API cannot name")
    try:
        port = parts.port or (http.client.HTTPS_PORT if parts.scheme == "https" else http.client.HTTP_PORT)
        connection = http.client.HTTPConnection(parts.hostname or "", port, timeout=timeout)
    except (ValueError, http.client.InvalidURL) as error:
        raise FetchError(str(error).lower()) from None
    headers = {"Accept": "application/json", "Connection": "close"}
    if body is not None:
        headers["Content-Type"] = content_type
    if credentials.token:
        headers["Authorization"] = f"Bearer {credentials.token}"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.sock = open_connection(connection.host, connection.port, deadline, admits, credentials.namespace)
        if parts.scheme == "https":
            connection.default_port = http.client.HTTPS_PORT  # it is not part of the header Host
            context = credentials.context or ssl.create_default_context()
            name = credentials.server_name or connection.host
            connection.sock = context.wrap_socket(connection.sock, server_hostname=name)
        connection.sock.settimeout(remaining(deadline))
        connection.response_class = cast("type[http.client.HTTPResponse]", partial(answer_until, deadline))
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        answer = _read(response, deadline, MAX_BYTES if max_bytes is None else max_bytes)
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        if admits is not None and isinstance(error, NOT_HTTP) and not isinstance(error, http.client.RemoteDisconnected):
            raise FetchError("the answer is not HTTP") from None  # the error quotes its first line
        raise FetchError(explain(error)) from error
    finally:
        connection.close()
    if response.status == http.client.UNAUTHORIZED and credentials.token:
        credentials.on_rejected()
    return response.status, response.headers.get("Location") or "", answer


def _refusal(status: int, body: bytes) -> str:
    text = " ".join(body.decode(errors="replace").split())[:MAX_QUOTE]
    reason = http.client.responses.get(status, "")
    return f"HTTP {status} {reason}".rstrip() + (f": {text}" if text else "")


def connect(host: str, port: int, timeout: float, context: ssl.SSLContext | None = None, namespace: str = "") -> None:
    """Open and close a TCP connection, or one with TLS.

    Args:
        host: host of the server.
        port: its port.
        timeout: longest duration of the connect, and of the TLS handshake, in seconds.
        context: TLS context; None for no TLS.
        namespace: where a short name is looked for first; empty for the operator's own.

    Raises:
        FetchError: the connection failed or took too long.
    """
    if not 0 < port < 65536:  # the C library takes it modulo 65536
        raise FetchError(f"{port} is no port")
    try:
        with open_connection(host, port, time.monotonic() + timeout, namespace=namespace) as plain:
            if context is None:
                return
            with context.wrap_socket(plain, server_hostname=host) as secured:
                _await_refusal(secured)
    except (OSError, UnicodeError) as error:
        raise FetchError(explain(error)) from error


def _await_refusal(secured: ssl.SSLSocket) -> None:
    """Wait shortly for the server to refuse the client's certificate: in TLS 1.3 it does so after the client's handshake.

    Raises:
        OSError: it has refused.
    """
    secured.settimeout(REFUSAL_SECONDS)
    try:
        if not secured.recv(1):
            raise OSError("the server closes the connection after the TLS handshake")
    except TimeoutError:
        pass  # it waits for a request


def explain(error: Exception) -> str:
    """Return the reason of an error in a few words."""
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return "the host name does not resolve"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.').lower()}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return TLS_REASONS.get(error.reason) or f"TLS: {error.reason.replace('_', ' ').lower()}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)[:MAX_QUOTE] or type(error).__name__


def _read(response: http.client.HTTPResponse, deadline: float, max_bytes: int) -> bytes:
    body = bytearray()
    while chunk := response.read1(CHUNK):
        body += chunk
        if len(body) > max_bytes:
            raise http.client.HTTPException(f"the answer is larger than {max_bytes} bytes")
        remaining(deadline)
    return bytes(body)
