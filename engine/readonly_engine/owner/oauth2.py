"""Access tokens of an OAuth 2.0 server for the broker's own requests: HTTP, files and a clock around TokenRefresh."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Final

import aiohttp

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
from readonly_engine.net.tls import ClientTls, Reloaded, TlsError, TlsFiles
from readonly_engine.owner.errors import OwnerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from readonly_engine.config.oauth2 import OAuth2Config

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0
"""Deadline of one request."""
FIRST_S: Final = 3.0
"""Longest time for which the start of a broker waits for its first token."""
FILE_CHECK_S: Final = 5.0
"""Longest interval between two checks of the files."""


class OAuth2Login:
    """Has a valid access token while `follow` runs.

    Args:
        config: the settings.
        clock: seconds, monotonic.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file has no credentials or certificates; the text has no secret.
    """

    def __init__(self, config: OAuth2Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        files = [path for path in (config.key_file, config.client_id_file, config.client_secret_file) if path]
        self._credentials = Reloaded(files, self._read)
        self._used = self._credentials.get()
        try:
            self._tls = ClientTls(TlsFiles("admin-oauth2", config.trust_certificates))
        except TlsError as error:
            raise ValueError(str(error).removeprefix("admin-oauth2-")) from None
        self._refresh = TokenRefresh()
        self._problem = "no token has been requested yet"
        self._asked = asyncio.Event()

    @property
    def client_secret(self) -> str:
        """The secret of the files, for programs that remove secrets from their output."""
        return self._used.client_secret

    def get(self) -> str:
        """Return the access token.

        Raises:
            OwnerUnavailableError: there is no valid one.
        """
        token = self.current()
        if not token:
            raise OwnerUnavailableError(f"admin-oauth2: {self._config.issuer_url}: {self._problem}")
        return token

    def current(self) -> str:
        """Return the access token; empty for none. Threads may call it."""
        return self._refresh.current(self._clock())

    def reject(self, token: str) -> None:
        """Handle a token that a broker refused; see TokenRefresh. `follow` requests another one within FILE_CHECK_S."""
        self._refresh.reject(token, self._clock())

    async def await_first(self) -> None:
        """Wait for the outcome of the first request, for FIRST_S at most: a silent server must not fail a startup probe."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_S):
                await self._asked.wait()

    async def follow(self) -> None:
        """Request a token whenever one is due."""
        while True:
            await self.refresh()
            await asyncio.sleep(min(max(self._refresh.next_timer() - self._clock(), 0.1), FILE_CHECK_S))

    async def refresh(self) -> None:
        """Request a token if one is due, or if the credentials have changed. An error is logged, and kept for `get`."""
        credentials = self._credentials.get()
        if credentials != self._used:
            self._used = credentials
            self._refresh.restart()
        requested = self._clock()
        if not self._refresh.is_due(requested):
            return
        try:
            token = await self._request(credentials)
        except AccessTokenError as error:
            self._fail(str(error))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            # texts of the HTTP client may contain parts of an answer
            self._fail(
                "no answer in time" if isinstance(error, TimeoutError) else f"request failed, {type(error).__name__}"
            )
        else:
            self._refresh.succeed(token, requested)
            self._asked.set()
            log.debug("access token obtained: issuer=%s lifetime_s=%.0f", self._config.issuer_url, token.lifetime_s)

    def _fail(self, problem: str) -> None:
        self._problem = problem
        self._asked.set()
        self._refresh.fail(self._clock())
        log.warning("no access token, retrying: issuer=%s error=%s", self._config.issuer_url, problem)

    async def _request(self, credentials: ClientCredentials) -> AccessToken:
        issuer = self._config.issuer_url
        headers = {"Accept": "application/json"}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), headers=headers) as session:
            url = token_endpoint(issuer, *await self._exchange(session, "GET", discovery_url(issuer)))
            form = credentials.form(self._config.audience, self._config.scope)
            return AccessToken.parse(*await self._exchange(session, "POST", url, form))

    async def _exchange(
        self, session: aiohttp.ClientSession, method: str, url: str, form: bytes | None = None
    ) -> tuple[int, bytes]:
        headers = {} if form is None else {"Content-Type": FORM_TYPE}
        # no redirect is followed: it could take the secret elsewhere
        async with session.request(
            method, url, data=form, headers=headers, ssl=self._tls.context(), allow_redirects=False
        ) as response:
            body = bytearray()
            async for piece in response.content.iter_chunked(MAX_ANSWER_BYTES):
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise AccessTokenError(f"an answer is larger than {MAX_ANSWER_BYTES} bytes")
            return response.status, bytes(body)

    def _read(self) -> ClientCredentials:
        config = self._config
        try:
            if config.key_file is not None:
                return ClientCredentials.of_key_file(_text(config.key_file))
            assert config.client_id_file is not None, config
            assert config.client_secret_file is not None, config
            return ClientCredentials(_text(config.client_id_file).strip(), _text(config.client_secret_file).strip())
        except AccessTokenError as error:
            raise ValueError(f"{config.key_file or config.client_secret_file}: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: must be UTF-8") from None
