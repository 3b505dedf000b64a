"""Small HTTP GETs with a deadline, for brokers of pools and for the writable cluster's admin API."""

from __future__ import annotations

import http.client
import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

MAX_BYTES = 8 * 1024 * 1024
"""More than any answer that is asked for here: a pool's bindings are limited by a ConfigMap's 1 MiB."""
CHUNK = 64 * 1024


class FetchError(Exception):
    """There was no usable answer; the text says why, without the URL."""


def get_json(url: str, timeout: float) -> Any:
    """The JSON that a URL gives within `timeout` seconds.

    Raises:
        FetchError: it gives none.
    """
    status, body = get(url, timeout)
    if status != http.client.OK:
        text = " ".join(body.decode(errors="replace").split())[:200]
        reason = http.client.responses.get(status, "")
        raise FetchError(f"HTTP {status} {reason}".rstrip() + (f": {text}" if text else ""))
    try:
        return json.loads(body)
    except ValueError:
        raise FetchError("the answer is not JSON") from None


def get(url: str, timeout: float) -> tuple[int, bytes]:
    """Status and body that a URL gives within `timeout` seconds.

    Raises:
        FetchError: there is no answer, or it is too large or too slow.
    """
    deadline = time.monotonic() + timeout
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    except ValueError as error:
        raise FetchError(str(error).lower()) from None
    try:
        connection.request("GET", parts.path or "/", headers={"Accept": "application/json", "Connection": "close"})
        response = connection.getresponse()
        body = _read(response, deadline)
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(explain(error)) from error
    finally:
        connection.close()
    return response.status, body


def connect(host: str, port: int, timeout: float) -> None:
    """Open and close a TCP connection.

    Raises:
        FetchError: there is none within `timeout` seconds.
    """
    if not 0 < port < 65536:  # the C library would take it modulo 65536
        raise FetchError(f"{port} is no port")
    try:
        socket.create_connection((host, port), timeout).close()
    except OSError as error:
        raise FetchError(explain(error)) from error


def explain(error: Exception) -> str:
    """What went wrong, in a few words."""
    if isinstance(error, socket.gaierror):
        return "the host name does not resolve"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    body = bytearray()
    while chunk := response.read1(CHUNK):
        body += chunk
        if len(body) > MAX_BYTES:
            raise http.client.HTTPException(f"the answer is larger than {MAX_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body)
