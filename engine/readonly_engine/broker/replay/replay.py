"""A replay as the sessions of clients see it: what it answers itself, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.replay.shared import SharedClock


class Replay:
    """The replay of a broker.

    Args:
        shared: the clock.
        cluster: the metadata.

    Attributes:
        shared: as above.
    """

    def __init__(self, shared: SharedClock, cluster: ClusterMetadata) -> None:
        self.shared = shared
        self._cluster = cluster

    async def partitions(self, topic: TopicName) -> int:
        """Return the number of a topic's partitions. A broker of the source cluster might create the topic.

        Raises:
            MetadataError: the metadata store does not answer, or its node is damaged.
        """
        return await self._cluster.partitions(topic)


def refuse_write(what: str) -> OwnerRefusedError:
    """Return the error for something that would change the source cluster."""
    return OwnerRefusedError(
        ServerError.NotAllowedError,
        f"{what} is not possible here: this pool replays past messages, and nothing reaches the source cluster from it; "
        "connect to the source cluster itself",
    )
