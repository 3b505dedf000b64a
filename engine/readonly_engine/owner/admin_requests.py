"""Requests to the source cluster's admin API: servers in turn, redirects, the token, bounds of answers."""

from __future__ import annotations

import json
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import aiohttp

from readonly_engine.config.admin_redirect import (
    RedirectError,
    has_dot_segment,
    is_same_host,
    redirect_target,
)
from readonly_engine.net.tls import Reloaded
from readonly_engine.owner.errors import AdminRefusedError, OwnerUnavailableError
from readonly_engine.owner.oauth2 import OAuth2Login
from readonly_engine.owner.redirect_sessions import RedirectSessions
from readonly_engine.owner.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from readonly_engine.net.tls import ClientTls

TIMEOUT_S = 10.0
MAX_REDIRECTS = 5

MAX_ANSWER_BYTES = 256 << 20
"""Bound of one answer. The internal statistics of a topic with 40,000 subscriptions have some 25 MB."""

COMMAND_ANSWER_BYTES = 64 << 20
"""Bound of one answer for commands, which ask several servers and topics at once."""

_READ_BYTES = 1 << 20
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NONE: frozenset[int] = frozenset()
_MISSING = frozenset({HTTPStatus.NOT_FOUND})


class Body(NamedTuple):
    """Body of a request.

    Attributes:
        document: the JSON document.
        content_type: its media type.
    """

    document: object
    content_type: str = "application/json"


class Accepted(NamedTuple):
    """Answer with a status that the caller accepts.

    Attributes:
        status: the status.
    """

    status: int


class AdminRequests:
    """Sends requests to the admin API.

    Args:
        urls: `http://HOST:PORT` or `https://HOST:PORT` of brokers of the source cluster. The first that answers is used until it
            fails; it redirects to the owner if necessary.
        tls: certificates, required for `https`.
        token_file: a file with a bearer token, read again when it changes; None for no token.
        file_option: name of its option, for errors.
        login: has access tokens, instead of a file; None for none.
        max_answer_bytes: bound of one answer; None for MAX_ANSWER_BYTES.

    Raises:
        OSError: the token cannot be read.
        ValueError: the file does not contain a token.
    """

    def __init__(
        self,
        *urls: str,
        tls: ClientTls | None = None,
        token_file: Path | None = None,
        file_option: str = "admin-token-file",
        login: OAuth2Login | None = None,
        max_answer_bytes: int | None = None,
    ) -> None:
        self._max_answer_bytes = max_answer_bytes or MAX_ANSWER_BYTES
        self._file_option = file_option if login is None else "admin-oauth2"
        self._urls = [url.rstrip("/") for url in urls]
        self._preferred = 0
        self._tls = tls
        self._token: Reloaded[str] | OAuth2Login | None = login
        if token_file is not None and login is None:
            self._token = Reloaded([token_file], partial(read_token, token_file))
        self._session: aiohttp.ClientSession | None = None
        self._redirects = RedirectSessions(TIMEOUT_S)
        self._single_flight: SingleFlight[dict[str, Any]] = SingleFlight()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
        await self._redirects.close()

    @overload
    async def _get(self, path: str) -> dict[str, Any]: ...

    @overload
    async def _get(self, path: str, *, missing_ok: bool) -> dict[str, Any] | None: ...

    async def _get(self, path: str, *, missing_ok: bool = False) -> dict[str, Any] | None:
        document = await self.fetch(path, accepted=_MISSING if missing_ok else _NONE)
        if isinstance(document, Accepted):
            return None
        if not isinstance(document, dict):
            raise OwnerUnavailableError(
                f"the admin API answered {path} with {type(document).__name__}; expected a JSON object"
            )
        return document

    async def fetch(
        self,
        path: str,
        *,
        accepted: frozenset[int] = _NONE,
        method: str = "GET",
        body: Body | None = None,
        read: Callable[[aiohttp.ClientResponse, bytes], Any] | None = None,
    ) -> Any:
        """Send a request to any path of the admin API.

        Args:
            path: the path, with its query.
            accepted: statuses besides 200 and 204 that are no errors.
            method: the HTTP method.
            body: the body; None for none.
            read: converts the answer and its body; None for a JSON document.

        Returns:
            The document of the answer; None without one, and an `Accepted` for an accepted status.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
            AdminRefusedError: a name in the path is `.` or `..`.
        """
        if has_dot_segment(path):
            raise AdminRefusedError(f"invalid name in {path}: '.' and '..' are not allowed in paths of the admin API")
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        failure: Exception | None = None
        for _ in self._urls:
            number = self._preferred
            try:
                return await self._request(self._session, method, self._urls[number] + path, accepted, body, read)
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                failure = error
                if self._preferred == number:
                    self._preferred = (number + 1) % len(self._urls)
        raise OwnerUnavailableError(
            f"the admin API at {', '.join(self._urls)} did not answer: {failure or 'no answer in time'}"
        ) from failure

    async def _request(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: str,
        accepted: frozenset[int],
        body: Body | None,
        read: Callable[[aiohttp.ClientResponse, bytes], Any] | None,
    ) -> Any:
        # Redirects are followed here: aiohttp drops the token when the host changes, and the owner needs it. The given host
        # knows the token already.
        given = url
        token = "" if self._token is None else self._token.get()
        headers = {"Authorization": f"Bearer {token}"} if self._token is not None else {}
        data = None if body is None else json.dumps(body.document).encode()
        if method != "GET":
            # Brokers refuse others, even without a body.
            headers["Content-Type"] = "application/json" if body is None else body.content_type
        tls = True if self._tls is None else self._tls.context()
        for _ in range(MAX_REDIRECTS):
            used = session if is_same_host(given, url) else self._redirects.session(given, url)
            async with used.request(
                method, url, headers=headers, data=data, ssl=tls, allow_redirects=False
            ) as response:
                if response.status in _REDIRECTS and "Location" in response.headers:
                    url = _redirected(response)
                    continue
                if response.status in accepted:
                    return Accepted(response.status)
                if response.status == HTTPStatus.NO_CONTENT:
                    return None
                if response.status != HTTPStatus.OK:
                    if response.status == HTTPStatus.UNAUTHORIZED and isinstance(self._token, OAuth2Login):
                        self._token.reject(token)
                    hint = _hint(response.status, self._file_option, token=self._token is not None)
                    error = AdminRefusedError if hint else OwnerUnavailableError
                    raise error(f"the admin API answered {response.status} to {response.url.path}{hint}")
                found = await _body(response, self._max_answer_bytes)
                if read is not None:
                    return read(response, found)
                try:
                    return json.loads(found) if found else None  # a namespace without the policy has no body
                except RecursionError:
                    raise ValueError(f"the answer to {response.url.path} is nested too deeply") from None
        raise OwnerUnavailableError(
            f"the admin API redirected {MAX_REDIRECTS} times, at last to {url}; expected an answer after one or two"
        )


def _redirected(response: aiohttp.ClientResponse) -> str:
    """Return the target of a redirect.

    Raises:
        OwnerUnavailableError: the redirect is not followed; see redirect_target.
    """
    try:
        return redirect_target(str(response.url), response.headers["Location"])
    except RedirectError as error:
        asked = response.url.origin()
        hint = ". Set webServicePortTls on every broker of the source cluster" if asked.scheme == "https" else ""
        raise OwnerUnavailableError(f"the admin API at {asked} {error}{hint}") from None


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body of an answer.

    Raises:
        OwnerUnavailableError: the body has more than `most` bytes.
    """
    body = bytearray()
    async for piece in response.content.iter_chunked(_READ_BYTES):
        body += piece
        if len(body) > most:
            raise OwnerUnavailableError(f"the admin API answered {response.url.path} with more than {most} bytes")
    return bytes(body)


def read_token(path: Path) -> str:
    """Return the token in a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file does not contain a token.
    """
    token = path.read_text(encoding="ascii").strip()
    if not token or not token.isprintable():
        raise ValueError(f"{path}: expected one token, as printable ASCII in one line")
    return token


def _hint(status: int, option: str, *, token: bool) -> str:
    """Return the remedy for a refusal. Brokers answer 401 also to a known role without the permission (AdminResource)."""
    if status not in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return ""
    if token:
        return f": the role of {option} is not permitted to, or the token is not valid"
    return f": it requires authentication; set {option}"
