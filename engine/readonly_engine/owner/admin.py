"""Client of the source cluster's admin API: cursors, statistics, policies, transactions."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, overload
from urllib.parse import quote

import aiohttp

from readonly_engine.config.admin_redirect import (
    RedirectError,
    has_dot_segment,
    is_same_host,
    redirect_target,
)
from readonly_engine.metadata.topic_name import encode_name
from readonly_engine.net.tls import Reloaded
from readonly_engine.owner.errors import AdminRefusedError, OwnerUnavailableError
from readonly_engine.owner.oauth2 import OAuth2Login
from readonly_engine.owner.redirect_sessions import RedirectSessions
from readonly_engine.owner.single_flight import SingleFlight
from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.net.tls import ClientTls

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
MAX_REDIRECTS = 5

MAX_ANSWER_BYTES = 256 << 20
"""Bound of one answer. The internal statistics of a topic with 40,000 subscriptions have some 25 MB."""

COMMAND_ANSWER_BYTES = 64 << 20
"""Bound of one answer for commands, which ask several servers and topics at once."""

MAX_VERSION_BYTES = 1024
"""Bytes of a broker's version that are kept."""

_READ_BYTES = 1 << 20
_CURSOR_VERSION = ("cursorLedger", "cursorLedgerLastEntry", "lastLedgerSwitchTimestamp")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NONE: frozenset[int] = frozenset()
_MISSING = frozenset({HTTPStatus.NOT_FOUND})
_UNSUPPORTED = frozenset({HTTPStatus.METHOD_NOT_ALLOWED})

_NOT_PERSISTED = "NoLedger"
"""State of a cursor between its load and the next time it is stored (ManagedCursorImpl.recoveredCursor)."""

LONG_TEXT = 100_000
"""Characters of acked ranges above which a thread parses them: a range takes 1 us."""

_BUFFER_STATES = frozenset({"Ready", "NoSnapshot"})
"""States of a transaction buffer with a valid maxReadPosition; in others it is recovering (TopicTransactionBuffer)."""

_RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


def parse_ranges(text: str) -> list[tuple[Position, Position]]:
    """Return the ranges (lower, upper] of a cursor's individuallyDeletedMessages, as in `[(4:0..4:1],(4:5..4:9]]`."""
    return [(Position(int(a), int(b)), Position(int(c), int(d))) for a, b, c, d in _RANGE.findall(text)]


def acked_ranges(cursor: dict[str, Any]) -> list[tuple[Position, Position]]:
    """Return the acked ranges (lower, upper] of a cursor in a topic's internal statistics."""
    up_to = f"({EARLIEST.ledger_id}:{EARLIEST.entry_id}..{cursor.get('markDeletePosition')}]"
    return parse_ranges(f"{up_to},{cursor.get('individuallyDeletedMessages', '')}")


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


class BrokerVersion(NamedTuple):
    """Version of a broker of the source cluster.

    Attributes:
        version: the version, such as 4.0.8.
        date: the header Date of the answer, by the broker's clock; empty without one.
    """

    version: str
    date: str


class AdminClient:
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

    async def cursor(self, topic: TopicName, subscription: str) -> tuple[list[tuple[Position, Position]], bool]:
        """Return the acked ranges of a subscription at one moment, as (lower, upper], the first up to the mark-delete position.

        Only the admin API has this state. It costs the owner one internalStats, which covers all subscriptions, so that
        simultaneous callers share it.

        Returns:
            The ranges, and whether the owner has not stored the cursor since it loaded the topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        cursor = await self._cursor(topic, subscription)
        not_persisted = cursor.get("state") == _NOT_PERSISTED
        if len(cursor.get("individuallyDeletedMessages", "")) < LONG_TEXT:
            return acked_ranges(cursor), not_persisted
        return await asyncio.to_thread(acked_ranges, cursor), not_persisted

    async def cursor_version(self, topic: TopicName, subscription: str) -> str:
        """Return a text that changes whenever the owner stores the cursor of a subscription, or loads the topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with internal statistics of such a subscription.
        """
        cursor = await self._cursor(topic, subscription)
        try:
            # A cursor that was closed cleanly has no ledger, so its time distinguishes versions.
            return ":".join(str(cursor[key]) for key in _CURSOR_VERSION)
        except KeyError as error:
            raise OwnerUnavailableError(
                f"the internal statistics of {topic} have no subscription {subscription}"
            ) from error

    async def _cursor(self, topic: TopicName, subscription: str) -> dict[str, Any]:
        stats = await self.internal_stats(topic)
        cursor: dict[str, Any] = stats.get("cursors", {}).get(encode_name(subscription), {})
        return cursor

    async def internal_stats(self, topic: TopicName) -> dict[str, Any]:
        """Return the internal statistics of a topic, with all its cursors; simultaneous callers share a request.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        path = f"/admin/v2/{topic.rest_path}/internalStats"
        return await self._single_flight.run(path, partial(self._get, path))

    async def version(self) -> BrokerVersion:
        """Return the version and the clock of a broker of the source cluster (BrokersBase.version).

        Raises:
            OwnerUnavailableError: the admin API did not answer, or refused.
        """
        found: BrokerVersion = await self.fetch("/admin/v2/brokers/version", read=_broker_version)
        return found

    async def configuration(self) -> dict[str, Any]:
        """Return the runtime configuration of a broker of the source cluster, as texts by key.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with a configuration.
        """
        return await self._get("/admin/v2/brokers/configuration/runtime")

    async def policy(self, topic: TopicName, name: str) -> Any:
        """Return the applied policy of a topic: its own, else the namespace's, else the brokers'; None without one.

        Args:
            topic: a topic, not a partition.
            name: the last part of the policy's path, for example maxUnackedMessagesOnConsumer.

        Raises:
            OwnerUnavailableError: the admin API did not answer.
        """
        return await self.fetch(f"/admin/v2/{topic.rest_path}/{name}?applied=true")

    async def topic_policy(self, topic: TopicName, name: str) -> Any:
        """Return a policy of the topic itself; None without one, also where topics cannot have policies.

        Args:
            topic: a topic, not a partition.
            name: the last part of the policy's path, for example maxSubscriptionsPerTopic.

        Raises:
            OwnerUnavailableError: the admin API did not answer.
        """
        found = await self.fetch(f"/admin/v2/{topic.rest_path}/{name}", accepted=_UNSUPPORTED)
        return None if isinstance(found, Accepted) else found

    async def namespace_policy(self, topic: TopicName, name: str) -> Any:
        """Return a policy of the topic's namespace; None without one.

        Raises:
            OwnerUnavailableError: the admin API did not answer.
        """
        return await self.fetch(f"/admin/v2/namespaces/{topic.tenant}/{topic.namespace}/{name}")

    async def namespace_policies(self, topic: TopicName) -> dict[str, Any]:
        """Return all policies of the topic's namespace, by name (Policies).

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with policies.
        """
        return await self._get(f"/admin/v2/namespaces/{topic.tenant}/{topic.namespace}")

    async def extent(self, topic: TopicName) -> tuple[bool, str]:
        """Whether a topic has no entry, also no compacted one; and its last entry, as text that each new entry changes.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        stats = await self.internal_stats(topic)
        compacted = (stats.get("compactedLedger") or {}).get("entries", 0)
        empty = stats.get("numberOfEntries") == 0 and isinstance(compacted, int) and compacted <= 0
        return empty, str(stats.get("lastConfirmedEntry"))

    async def stats(self, topic: TopicName) -> dict[str, Any] | None:
        """Return a topic's statistics, including the consumers on its owner; None for an unknown topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with statistics.
        """
        path = f"/admin/v2/{topic.rest_path}/stats?excludePublishers=true&subscriptionBacklogSize=false"
        return await self._get(path, missing_ok=True)

    async def last_confirmed(self, topic: TopicName) -> Position | None:
        """Return the last entry of a topic, delivered or not; None if the answer has none.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with the topic's internal statistics.
        """
        return _last_confirmed(await self._get(f"/admin/v2/{topic.rest_path}/internalStats"))

    async def mark_delete_and_last(self, topic: TopicName, subscription: str) -> tuple[Position, Position]:
        """Return a subscription's mark-delete position, and the last entry of its topic.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or has no such subscription.
        """
        stats = await self.internal_stats(topic)
        cursor = stats.get("cursors", {}).get(encode_name(subscription), {})
        mark_delete, last = position_of(cursor.get("markDeletePosition")), _last_confirmed(stats)
        if mark_delete is None or last is None:
            raise OwnerUnavailableError(
                f"the internal statistics of {topic} have no positions of subscription {subscription}"
            )
        return mark_delete, last

    async def max_read_position(self, topic: TopicName) -> Position | None:
        """Return the maxReadPosition of a topic; None while the owner recovers it, or without transactions.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with such statistics.
        """
        where = topic.rest_path.removeprefix(f"{topic.domain}/")
        stats = await self._get(f"/admin/v3/transactions/transactionBufferStats/{where}", missing_ok=True)
        if stats is None or stats.get("state") not in _BUFFER_STATES:
            return None
        return position_of(stats.get("maxReadPosition"))

    async def transaction(self, topic: TopicName, txn: tuple[int, int]) -> tuple[bool, bool] | None:
        """Return the state of a transaction on a topic's owner (TransactionInBufferStats).

        Args:
            topic: the topic.
            txn: most and least significant bits of the transaction's id.

        Returns:
            Whether it is open, and whether it is aborted. None while the owner recovers its transactions, or without any.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with such statistics.
        """
        where = topic.rest_path.removeprefix(f"{topic.domain}/")
        path = f"/admin/v3/transactions/transactionInBufferStats/{where}/{txn[0]}/{txn[1]}"
        stats = await self._get(path, missing_ok=True)
        if stats is None:
            return None
        known = stats.get("startPosition") is not None, stats.get("aborted") is True
        # An owner that recovers from its snapshot has no transactions yet.
        return known if any(known) or await self.max_read_position(topic) is not None else None

    async def last_pending_ack(self, topic: TopicName, subscription: str) -> Position | None:
        """Return the last entry of a subscription's pending-ack log; None if the answer has none.

        Raises:
            OwnerUnavailableError: the admin API did not answer, or not with such statistics.
        """
        where = topic.rest_path.removeprefix(f"{topic.domain}/")
        stats = await self._get(
            f"/admin/v3/transactions/pendingAckInternalStats/{where}/{quote(subscription, safe='')}"
        )
        return _last_confirmed((stats.get("pendingAckLogStats") or {}).get("managedLedgerInternalStats") or {})

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


def _broker_version(response: aiohttp.ClientResponse, body: bytes) -> BrokerVersion:
    """Return a broker's version: a text that is not JSON, or is in quotes."""
    text = body[:MAX_VERSION_BYTES].decode(errors="replace")
    return BrokerVersion(text.strip().strip('"'), response.headers.get("Date", ""))


def _last_confirmed(stats: dict[str, Any]) -> Position | None:
    return position_of(stats.get("lastConfirmedEntry"))


def position_of(text: Any) -> Position | None:
    """Return a position of statistics, `LEDGER:ENTRY`; None without one."""
    ledger_id, found, entry_id = str(text or "").partition(":")
    return Position(int(ledger_id), int(entry_id)) if found else None


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
