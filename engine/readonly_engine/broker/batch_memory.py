"""Batches that were acked in part by consumers that have left: the owner keeps them in memory, and shows them to nobody."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.relay.errors import RelayError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.relay.admin import AdminClient
    from readonly_engine.topic.position import Position

log = logging.getLogger(__name__)

MOST_SUBSCRIPTIONS = 1000


class Remembered(NamedTuple):
    """What one subscription left.

    Attributes:
        batches: positions, and the bits of the messages that are not acked.
        version: of the owner's cursor at that time; None where it could not be asked.
    """

    batches: list[tuple[Position, int]]
    version: asyncio.Task[str | None]


class BatchMemory:
    """Remembers them until the subscription has consumers here again.

    Whoever resets the cursor meanwhile makes them void. An owner stores a reset at once, so they count only while it has stored
    nothing; forgetting them too early costs a second delivery, as after a restart of the owner.

    Args:
        admin: tells whether the owner has stored the cursor anew.
    """

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._kept: OrderedDict[tuple[TopicName, str], Remembered] = OrderedDict()

    def keep(self, topic: TopicName, subscription: str, batches: Iterable[tuple[Position, int]]) -> None:
        """The last consumer has left."""
        found = list(batches)
        if found:
            version = asyncio.create_task(self._version(topic, subscription))
            self._kept[topic, subscription] = Remembered(found, version)
            if len(self._kept) > MOST_SUBSCRIPTIONS:
                self._kept.popitem(last=False)

    async def recall(self, topic: TopicName, subscription: str) -> list[tuple[Position, int]]:
        """What the subscription left, if it still counts; it is forgotten here."""
        kept = self._kept.pop((topic, subscription), None)
        if kept is None:
            return []
        before = await kept.version
        now = await self._version(topic, subscription)
        return kept.batches if before is not None and before == now else []

    async def _version(self, topic: TopicName, subscription: str) -> str | None:
        try:
            return await self._admin.cursor_version(topic, subscription)
        except RelayError as error:
            log.info("%s, %s: batches that were acked in part come again as a whole: %s", topic, subscription, error)
            return None
