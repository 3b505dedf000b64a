"""Client of the source cluster's admin API: cursors, statistics, policies, transactions."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from readonly_engine.metadata.topic_name import encode_name
from readonly_engine.owner.admin_requests import Accepted, AdminRequests
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.topic.position import EARLIEST, Position

if TYPE_CHECKING:
    import aiohttp

    from readonly_engine.metadata.topic_name import TopicName

MAX_VERSION_BYTES = 1024
"""Bytes of a broker's version that are kept."""

_CURSOR_VERSION = ("cursorLedger", "cursorLedgerLastEntry", "lastLedgerSwitchTimestamp")
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


class BrokerVersion(NamedTuple):
    """Version of a broker of the source cluster.

    Attributes:
        version: the version, such as 4.0.8.
        date: the header Date of the answer, by the broker's clock; empty without one.
    """

    version: str
    date: str


class AdminClient(AdminRequests):
    """Reads cursors, statistics, policies and transactions from the admin API. Its arguments are those of AdminRequests."""

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
