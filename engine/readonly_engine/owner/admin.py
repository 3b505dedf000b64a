"""The few questions to the writable cluster's admin API."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, urljoin, urlsplit

import aiohttp

from readonly_engine.metadata.topic_name import encode_name
from readonly_engine.net.tls import Reloaded
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.single_flight import SingleFlight
from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from pathlib import Path

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.net.tls import ClientTls

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
MAX_REDIRECTS = 5

MAX_ANSWER_BYTES = 256 << 20
"""Bytes of one answer. The internal statistics of a topic with 40,000 subscriptions take some 25 MB."""

_READ_BYTES = 1 << 20
_CURSOR_VERSION = ("cursorLedger", "cursorLedgerLastEntry", "lastLedgerSwitchTimestamp")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_NOT_PERSISTED = "NoLedger"
"""The state of a cursor after its owner has loaded it and before it stores it again (ManagedCursorImpl.recoveredCursor)."""

_LONG_TEXT = 100_000
"""Characters of holes that are not taken apart in the event loop: 1 us for each hole."""

_BUFFER_STATES = frozenset({"Ready", "NoSnapshot"})
"""Of a topic's transaction buffer, in which its maxReadPosition holds; in the others it is read anew (TopicTransactionBuffer)."""

_RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


def parse_holes(text: str) -> list[tuple[Position, Position]]:
    """The ranges (lower, upper] in a cursor's individuallyDeletedMessages, as in `[(4:0..4:1],(4:5..4:9]]`."""
    return [(Position(int(a), int(b)), Position(int(c), int(d))) for a, b, c, d in _RANGE.findall(text)]


def acked_ranges(cursor: dict[str, Any]) -> list[tuple[Position, Position]]:
    """What is acked, as ranges (lower, upper], of a cursor in a topic's internal statistics."""
    up_to = f"({EARLIEST.ledger_id}:{EARLIEST.entry_id}..{cursor.get('markDeletePosition')}]"
    return parse_holes(f"{up_to},{cursor.get('individuallyDeletedMessages', '')}")


class AdminClient:
    """Asks the admin API.

    Args:
        urls: `http://HOST:PORT` or `https://HOST:PORT` of brokers of the writable cluster; the first that answers is asked until
            it does not, and redirects to the owner where needed.
        tls: what is trusted, needed for `https`.
        token_file: a file with a token to show, read again when it changes; None for none.

    Raises:
        OSError: the token cannot be read.
        ValueError: it is no text.
    """

    def __init__(self, *urls: str, tls: ClientTls | None = None, token_file: Path | None = None) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._preferred = 0
        self._tls = tls
        self._token = None if token_file is None else Reloaded([token_file], partial(_read_token, token_file))
        self._session: aiohttp.ClientSession | None = None
        self._single_flight: SingleFlight[dict[str, Any]] = SingleFlight()

    async def cursor(self, topic: TopicName, subscription: str) -> tuple[list[tuple[Position, Position]], bool]:
        """What of a subscription is acked, all at one moment: ranges (lower, upper], the first up to the mark-delete position.

        The admin API is the only place that has the owner's present state of these; it costs the owner one internalStats, which
        tells of all subscriptions, so that those who ask together share it.

        Returns:
            The ranges, and whether the owner has stored nothing of the cursor since it has loaded the topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        cursor = await self._cursor(topic, subscription)
        not_persisted = cursor.get("state") == _NOT_PERSISTED
        if len(cursor.get("individuallyDeletedMessages", "")) < _LONG_TEXT:
            return acked_ranges(cursor), not_persisted
        return await asyncio.to_thread(acked_ranges, cursor), not_persisted

    async def cursor_version(self, topic: TopicName, subscription: str) -> str:
        """Changes whenever the owner stores where a subscription stands, and when it has loaded the topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with internal statistics of such a subscription.
        """
        cursor = await self._cursor(topic, subscription)
        try:
            # A cursor that was closed in good order has no ledger, whatever was stored before: the time tells it apart.
            return ":".join(str(cursor[key]) for key in _CURSOR_VERSION)
        except KeyError as error:
            raise OwnerUnavailableError(f"the admin API says nothing of subscription {subscription}") from error

    async def _cursor(self, topic: TopicName, subscription: str) -> dict[str, Any]:
        stats = await self._internal_stats(topic)
        cursor: dict[str, Any] = stats.get("cursors", {}).get(encode_name(subscription), {})
        return cursor

    async def _internal_stats(self, topic: TopicName) -> dict[str, Any]:
        path = f"/admin/v2/{topic.rest_path}/internalStats"
        return await self._single_flight.run(path, partial(self._get, path))

    async def configuration(self) -> dict[str, Any]:
        """The configuration that a broker of the writable cluster runs with, as texts by key.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with a configuration.
        """
        return await self._get("/admin/v2/brokers/configuration/runtime")

    async def policy(self, topic: TopicName, name: str) -> Any:
        """A policy as it is in force for a topic: the topic's own, else the namespace's, else the brokers'; None for none.

        Args:
            topic: a topic, no partition.
            name: as the last part of the policy's path, e.g. maxUnackedMessagesOnConsumer.

        Raises:
            OwnerUnavailableError: the admin API did not answer.
        """
        return await self._fetch(f"/admin/v2/{topic.rest_path}/{name}?applied=true")

    async def stats(self, topic: TopicName) -> dict[str, Any] | None:
        """A topic's statistics, with the consumers that its owner knows; None where there is no such topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with statistics.
        """
        path = f"/admin/v2/{topic.rest_path}/stats?excludePublishers=true&subscriptionBacklogSize=false"
        return await self._get(path, or_none=True)

    async def last_confirmed(self, topic: TopicName) -> Position | None:
        """The last entry of a topic, be it one that consumers may get or not; None where its owner does not say.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        return _last_confirmed(await self._get(f"/admin/v2/{topic.rest_path}/internalStats"))

    async def mark_delete_and_last(self, topic: TopicName, subscription: str) -> tuple[Position, Position]:
        """A subscription's mark-delete position, and the last entry of its topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or knows of no such subscription.
        """
        stats = await self._internal_stats(topic)
        cursor = stats.get("cursors", {}).get(encode_name(subscription), {})
        mark_delete, last = _position(cursor.get("markDeletePosition")), _last_confirmed(stats)
        if mark_delete is None or last is None:
            raise OwnerUnavailableError(f"the admin API does not know where {subscription} of {topic} stands")
        return mark_delete, last

    async def max_read_position(self, topic: TopicName) -> Position | None:
        """How far its owner lets consumers read a topic; None where it does not know yet, or has no transactions there.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with such statistics.
        """
        where = topic.rest_path.removeprefix(f"{topic.domain}/")
        stats = await self._get(f"/admin/v3/transactions/transactionBufferStats/{where}", or_none=True)
        if stats is None or stats.get("state") not in _BUFFER_STATES:
            return None
        return _position(stats.get("maxReadPosition"))

    async def transaction(self, topic: TopicName, txn: tuple[int, int]) -> tuple[bool, bool] | None:
        """Ask a topic's owner about a transaction (TransactionInBufferStats).

        Args:
            topic: the topic.
            txn: most and least significant bits of the transaction's id.

        Returns:
            Whether it is open there, and whether it is known as aborted. None where the owner does not know yet, or has no
            transactions.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with such statistics.
        """
        where = topic.rest_path.removeprefix(f"{topic.domain}/")
        path = f"/admin/v3/transactions/transactionInBufferStats/{where}/{txn[0]}/{txn[1]}"
        stats = await self._get(path, or_none=True)
        # An owner that is reading its snapshot knows of no transaction yet.
        if stats is None or await self.max_read_position(topic) is None:
            return None
        return stats.get("startPosition") is not None, stats.get("aborted") is True

    async def last_pending_ack(self, topic: TopicName, subscription: str) -> Position | None:
        """The last entry of the log of a subscription's acks in transactions; None where its owner does not say.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with such statistics.
        """
        where = topic.rest_path.removeprefix(f"{topic.domain}/")
        stats = await self._get(
            f"/admin/v3/transactions/pendingAckInternalStats/{where}/{quote(subscription, safe='')}"
        )
        return _last_confirmed((stats.get("pendingAckLogStats") or {}).get("managedLedgerInternalStats") or {})

    async def close(self) -> None:
        """End the connections."""
        if self._session is not None:
            await self._session.close()

    @overload
    async def _get(self, path: str) -> dict[str, Any]: ...

    @overload
    async def _get(self, path: str, *, or_none: bool) -> dict[str, Any] | None: ...

    async def _get(self, path: str, *, or_none: bool = False) -> dict[str, Any] | None:
        document = await self._fetch(path, or_none=or_none)
        if document is None and or_none:
            return None
        if not isinstance(document, dict):
            raise OwnerUnavailableError(f"the admin API answered {path} with no object")
        return document

    async def _fetch(self, path: str, *, or_none: bool = False) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        failure: Exception | None = None
        for _ in self._urls:
            number = self._preferred
            try:
                return await self._request(self._session, self._urls[number] + path, or_none=or_none)
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                failure = error
                if self._preferred == number:
                    self._preferred = (number + 1) % len(self._urls)
        raise OwnerUnavailableError(
            f"the admin API at {', '.join(self._urls)} did not answer: {failure or 'no answer in time'}"
        ) from failure

    async def _request(self, session: aiohttp.ClientSession, url: str, *, or_none: bool) -> Any:
        # Redirects are followed here: aiohttp drops the token when the host changes, and the owner needs it.
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token.get()}"}
        tls = True if self._tls is None else self._tls.context()
        for _ in range(MAX_REDIRECTS):
            async with session.get(url, headers=headers, ssl=tls, allow_redirects=False) as response:
                if response.status in _REDIRECTS and "Location" in response.headers:
                    url = _redirected(response)
                    continue
                if response.status == HTTPStatus.NO_CONTENT or (or_none and response.status == HTTPStatus.NOT_FOUND):
                    return None
                if response.status != HTTPStatus.OK:
                    raise OwnerUnavailableError(
                        f"the admin API answered {response.status} to {response.url.path}"
                        + _hint(response.status, token=self._token is not None)
                    )
                return json.loads(await _body(response))
        raise OwnerUnavailableError(f"the admin API redirected {MAX_REDIRECTS} times, at last to {url}")


def _redirected(response: aiohttp.ClientResponse) -> str:
    """Return the URL that an answer redirects to.

    Raises:
        OwnerUnavailableError: the token would go there in clear text, or it is no HTTP URL.
    """
    asked = response.url.origin()
    allowed = ("https",) if asked.scheme == "https" else ("http", "https")
    try:
        url = urljoin(str(response.url), response.headers["Location"])
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname
    except ValueError:
        scheme, host = "", None
    if scheme not in allowed or not host:
        raise OwnerUnavailableError(
            f"the admin API at {asked} redirected to {scheme or '?'}://{host or '?'}; expected "
            f"{' or '.join(allowed)}://HOST:PORT. Set webServicePortTls on every broker of the source cluster"
        )
    return url


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Read an answer.

    Raises:
        OwnerUnavailableError: it is larger than MAX_ANSWER_BYTES.
    """
    body = bytearray()
    async for piece in response.content.iter_chunked(_READ_BYTES):
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise OwnerUnavailableError(
                f"the admin API answered {response.url.path} with more than {MAX_ANSWER_BYTES} bytes"
            )
    return bytes(body)


def _last_confirmed(stats: dict[str, Any]) -> Position | None:
    return _position(stats.get("lastConfirmedEntry"))


def _position(text: Any) -> Position | None:
    ledger_id, found, entry_id = str(text or "").partition(":")
    return Position(int(ledger_id), int(entry_id)) if found else None


def _read_token(path: Path) -> str:
    token = path.read_text(encoding="ascii").strip()
    if not token or not token.isprintable():
        raise ValueError(f"{path} would hold one token")
    return token


def _hint(status: int, *, token: bool) -> str:
    """What to do about a refusal. Brokers answer 401 to a known role too, where it may not do what it asks (AdminResource)."""
    if status not in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return ""
    if token:
        return ": the role of admin-token-file is not permitted to, or the token is not valid"
    return ": it wants to know who asks; give admin-token-file"
