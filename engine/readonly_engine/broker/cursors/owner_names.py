"""Durable subscriptions at owners, whose names a new local subscription must not have."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from readonly_engine.metadata.topic_name import encode_name
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.owner.single_flight import SingleFlight
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.owner.cursor_admin import CursorAdmin

KEPT_S: Final = 5.0
"""Age of a topic's names: many subscriptions that are created together share an answer."""

MAX_KEPT: Final = 10_000
"""Bound of topics with names."""


class OwnerSubscriptionNames:
    """Knows the subscriptions of topics at their owners.

    Args:
        admin: asks owners.
    """

    def __init__(self, admin: CursorAdmin) -> None:
        self._admin = admin
        self._asking: SingleFlight[frozenset[str]] = SingleFlight()
        self._forgotten = 0
        self._kept: OrderedDict[TopicName, tuple[float, frozenset[str]]] = OrderedDict()

    async def check(self, topic: TopicName, subscription: str) -> None:
        """Check that the owner has no subscription of a name.

        Raises:
            OwnerRefusedError: it has one.
            OwnerUnavailableError: the admin API does not answer.
        """
        if encode_name(subscription) in await self._of(topic):
            raise OwnerRefusedError(
                ServerError.NotAllowedError,
                f"the owner of {topic} has a subscription {subscription} already, so this pool cannot keep one of the same name:"
                " choose another name, delete the owner's subscription, or import it while it has no consumers:"
                f" pulsar-readonly subscriptions import {topic} {subscription}",
            )

    def forget(self, topic: TopicName) -> None:
        """Forget the names of a topic whose subscriptions at the owner have changed."""
        self._forgotten += 1
        self._kept.pop(topic, None)

    async def _of(self, topic: TopicName) -> frozenset[str]:
        time = asyncio.get_running_loop().time
        kept = self._kept.get(topic)
        if kept is not None and time() - kept[0] < KEPT_S:
            return kept[1]
        forgotten = self._forgotten
        names = await self._asking.run(topic, lambda: self._admin.subscriptions(topic))
        if forgotten != self._forgotten:
            return names  # they may be older than the change
        self._kept[topic] = (time(), names)
        self._kept.move_to_end(topic)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return names
