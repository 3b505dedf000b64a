"""Explicit LAC of a topic: the last confirmed entry that its owner broker wrote to the bookies."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.metadata.errors import MetadataError, TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from readonly_engine.bookkeeper.pool import BookiePool
    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName

TIMEOUT_S = 5.0
_HEALTH = re.compile(r"persistent://pulsar/[^/:]+:[0-9]+/healthcheck")
"""Topics of the owner brokers' health checks (NamespaceService.getHeartbeatNamespaceV2). They need no
binding: they have no data of users."""


class LacUnavailableError(Exception):
    """A topic without an answer.

    Args:
        status: HTTP status of the response.
        reason: the reason.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class LastConfirmed:
    """Reads the explicit LAC of bound topics, and of topics of health checks, one topic at a time.

    Args:
        broker: has the bindings.
        cluster: lists a topic's ledgers.
        bookies: connections to bookies.
    """

    def __init__(self, broker: Broker, cluster: ClusterMetadata, bookies: BookiePool) -> None:
        self._broker = broker
        self._cluster = cluster
        self._bookies = bookies
        self._lock = asyncio.Lock()

    async def document(self, name: str) -> dict[str, Any]:
        """Return the state of a topic's newest ledger.

        Returns:
            `topic`, `ledger` (None for a topic without a ledger, or no topic), whether the ledger is `open`, its `lastEntry` and
            `lac` (-1 for none), and whether bookies have an `explicit` LAC.

        Raises:
            NotAskableError: the name is invalid, the topic has partitions or no binding, or storage does not answer.
        """
        try:
            topic = parse_topic_name(name)
        except TopicNameError as error:
            raise LacUnavailableError(400, f"topic: {error}") from None
        if not self._broker.bindings.covers(topic) and not _HEALTH.fullmatch(str(topic)):
            raise LacUnavailableError(404, f"no binding names {topic}")
        try:
            async with asyncio.timeout(TIMEOUT_S), self._lock:
                return await self._query(topic)
        except TimeoutError:
            raise LacUnavailableError(503, f"storage did not answer within {TIMEOUT_S:.0f} s") from None
        except (MetadataError, BookKeeperError, WireError) as error:
            raise LacUnavailableError(503, str(error)) from error

    async def _query(self, topic: TopicName) -> dict[str, Any]:
        if await self._cluster.partitions(topic):
            raise LacUnavailableError(400, f"{topic} has partitions; name a topic without them")
        said: dict[str, Any] = {"topic": str(topic), "ledger": None, "open": False, "lastEntry": -1, "lac": -1}
        info = await self._cluster.topic(topic)
        if info is None or not info.ledger_info:
            return {**said, "explicit": False}
        ledger_id = max(ledger.ledger_id for ledger in info.ledger_info)  # the list is not always in order
        metadata = await self._cluster.ledger(ledger_id)
        if metadata is None or metadata.closed:
            last = -1 if metadata is None else metadata.last_entry_id
            return {**said, "ledger": ledger_id, "lastEntry": last, "lac": last, "explicit": False}
        answer = await LedgerReader(ledger_id, metadata, self._bookies).read_lac()
        return {
            **said,
            "ledger": ledger_id,
            "open": True,
            "lastEntry": answer.last_entry,
            "lac": answer.lac,
            "explicit": answer.explicit,
        }
