"""Requests of `top` to the HTTP ports of brokers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from aiohttp import ClientError, ClientSession, ClientTimeout

from readonly_engine.status.addresses import without_user
from readonly_engine.status.document import DocumentError
from readonly_engine.status.text import printable
from readonly_engine.tool.errors import ToolError
from readonly_engine.top.observed import Observed, answered

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

TIMEOUT_S: Final = 5.0
MAX_ANSWER_BYTES: Final = 16 << 20
"""Bytes of an answer that are read. A page of 100 items has less than half, with the longest names."""

MAX_WORKERS: Final = 64
NOT_FOUND: Final = 404


def check_url(text: str) -> str:
    """Return the URL of an HTTP port, without the last slash.

    Raises:
        ToolError: the text is no such URL.
    """
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise ToolError(f"{without_user(text)!r} is no URL of a broker's HTTP port; write http://HOST:8080")
    return text.rstrip("/")


class StatusClient:
    """Reads the states of brokers, all at once.

    Args:
        urls: URLs of their HTTP ports. Those of all workers replace the URL that several workers share.
        query: query of /status, with `?`; empty for none.
        token: token of the ports; empty for none.
        context: TLS context; None for the system's authorities.
    """

    def __init__(self, urls: Iterable[str], query: str, token: str = "", context: ssl.SSLContext | None = None) -> None:
        self._urls = list(dict.fromkeys(urls))
        self._query = query
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._ssl: ssl.SSLContext | bool = context or True
        self._session: ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def read(self) -> list[Observed]:
        """Return a result for each broker. A broker without an answer is no error: its result has the reason."""
        found = await asyncio.gather(*map(self._read, self._urls))
        return [one for results in found for one in results]

    async def _read(self, url: str) -> list[Observed]:
        try:
            code, document = await self._get(url)
            workers = document.get("workers") if code == NOT_FOUND and isinstance(document, dict) else None
            if isinstance(workers, list):
                urls = [one for one in (_at_host_of(url, worker) for worker in workers[:MAX_WORKERS]) if one]
                return list(await asyncio.gather(*map(self._read_one, urls)))
        except (ClientError, OSError, TimeoutError, ValueError, DocumentError) as error:
            return [_failed(url, error)]
        return [answered(without_user(url), code, document)]

    async def _read_one(self, url: str) -> Observed:
        try:
            return answered(without_user(url), *await self._get(url))
        except (ClientError, OSError, TimeoutError, ValueError) as error:
            return _failed(url, error)

    async def _get(self, url: str) -> tuple[int, Any]:
        """Return the HTTP status and the JSON of /status.

        Raises:
            ClientError: no answer.
            ValueError: the answer is no JSON, or too long.
        """
        if self._session is None:
            self._session = ClientSession(timeout=ClientTimeout(total=TIMEOUT_S))
        async with self._session.get(
            f"{url}/status{self._query}", allow_redirects=False, headers=self._headers, ssl=self._ssl
        ) as response:
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES >> 20} MiB")
            try:
                return response.status, json.loads(body)
            except RecursionError:
                raise ValueError("the answer is nested too deeply") from None


def _failed(url: str, error: Exception) -> Observed:
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        text = "the answer is no JSON: no broker, or one of a version without a status page"
    elif isinstance(error, TimeoutError):
        text = f"no answer within {TIMEOUT_S:g} s"
    else:
        text = str(error) or type(error).__name__
    return Observed(without_user(url), error=printable(text))


def _at_host_of(url: str, worker: object) -> str:
    """Return the URL of a worker at the host that was given; the broker knows its workers by an address of its own machine."""
    try:
        port = urlsplit(str(worker)).port
        parts = urlsplit(url)
    except ValueError:
        return ""
    if not port:
        return ""
    user, found, _ = parts.netloc.rpartition("@")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return urlunsplit((parts.scheme, f"{user}{found}{host}:{port}", "", "", ""))
