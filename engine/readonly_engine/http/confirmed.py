"""What the bookies know of the end of a topic: has its owner told them the last confirmed entry by itself (explicit LAC)?"""

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
    from readonly_engine.broker.broker import Broker
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName

LONGEST_S = 5.0
_HEALTH = re.compile(r"persistent://pulsar/[^/:]+:[0-9]+/healthcheck")
"""Topics that writable brokers check themselves with (NamespaceService.getHeartbeatNamespaceV2): of no user, so always told."""


class NotAskableError(Exception):
    """Nothing can be said about this topic.

    Args:
        status: of the HTTP answer.
        reason: why.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class LastConfirmed:
    """Asks bookies for the explicit LAC of a topic, one at a time: of topics that are bound, and of brokers' health checks.

    Args:
        broker: knows what is bound.
        cluster: where a topic's ledgers are listed.
        bookies: what is asked.
    """

    def __init__(self, broker: Broker, cluster: ClusterMetadata, bookies: BookiePool) -> None:
        self._broker = broker
        self._cluster = cluster
        self._bookies = bookies
        self._one = asyncio.Lock()

    async def document(self, name: str) -> dict[str, Any]:
        """What is known of the newest ledger of a topic.

        Returns:
            `topic`, `ledger` (None for none yet, also where there is no such topic), whether it is `open`, its `lastEntry` and
            `lac` (-1 for none), and whether an `explicit` LAC is there.

        Raises:
            NotAskableError: it is no topic, has partitions, is not bound, or storage does not answer.
        """
        try:
            topic = parse_topic_name(name)
        except TopicNameError as error:
            raise NotAskableError(400, f"topic: {error}") from None
        if not self._broker.bindings.covers(topic) and not _HEALTH.fullmatch(str(topic)):
            raise NotAskableError(404, f"no binding names {topic}")
        try:
            async with asyncio.timeout(LONGEST_S), self._one:
                return await self._look(topic)
        except TimeoutError:
            raise NotAskableError(503, f"storage did not answer within {LONGEST_S:.0f} s") from None
        except (MetadataError, BookKeeperError, WireError) as error:
            raise NotAskableError(503, str(error)) from error

    async def _look(self, topic: TopicName) -> dict[str, Any]:
        if await self._cluster.partitions(topic):
            raise NotAskableError(400, f"{topic} has partitions; name a topic without them")
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
