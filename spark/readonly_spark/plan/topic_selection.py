"""The topics of a query: those that the options name, or that match their pattern, with all partitions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import re2
from readonly_engine.metadata.topic_name import TopicName, parse_topic_name

from readonly_spark.errors import SourceError
from readonly_spark.plan.gather import gather_bounded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.metadata.cluster import ClusterMetadata

    from readonly_spark.options import Options

_LITERAL_NAMESPACE: Final = re.compile(r"persistent://([-\w]+)/([-\w]+)/")
_SYSTEM_PREFIX: Final = "__"


class TopicSelection:
    """Finds the topics of the options in the metadata store.

    Args:
        options: the options of the source.
        cluster: metadata of the cluster.
    """

    def __init__(self, options: Options, cluster: ClusterMetadata) -> None:
        self._options = options
        self._cluster = cluster
        self._pattern = re2.compile(options.topics_pattern) if options.topics_pattern else None

    async def topics(self, known: Iterable[str] | None = ()) -> list[str]:
        """Return the topics of the options, with all partitions of partitioned topics, also those without messages.

        Args:
            known: topics that the query has read before; None for any. A named one of them that does not exist was deleted, and
                is left out.

        Raises:
            SourceError: a named topic does not exist.
            MetadataError: the metadata store does not answer.
        """
        if self._pattern is not None:
            return sorted(await self._matching())
        before = self._options.topics if known is None else {*known, *bases_of(known)}

        async def partitions(name: str) -> list[TopicName]:
            return await self._partitions(parse_topic_name(name), deleted=name in before)

        found = await gather_bounded(partitions, self._options.topics)
        return sorted(str(part) for parts in found for part in parts)

    async def remaining(self) -> list[str]:
        """Return the topics of the options; with `failOnDataLoss=false` without named ones that do not exist: deleted ones.

        Raises:
            SourceError, MetadataError: see `topics`.
        """
        return await self.topics(() if self._options.fail_on_data_loss else None)

    def selects(self, name: str) -> bool:
        """Return whether the options name a topic or partition, or their pattern matches it."""
        topic = parse_topic_name(name)
        if self._pattern is not None:
            return self._matches(topic.base)
        return not {name, str(topic.base)}.isdisjoint(self._options.topics)

    async def _partitions(self, topic: TopicName, *, deleted: bool) -> list[TopicName]:
        partitions = await self._cluster.partitions(topic)
        if partitions:
            return [topic.at(number) for number in range(partitions)]
        if await self._cluster.topic(topic) is None:
            in_range = topic.partition >= 0 and topic.partition < await self._cluster.partitions(topic.base)
            if not in_range:
                if deleted:
                    return []
                raise SourceError(f"topic {topic} does not exist")
        return [topic]

    async def _matching(self) -> set[str]:
        assert self._pattern is not None
        literal = _LITERAL_NAMESPACE.match(self._options.topics_pattern)
        names = [f"{literal[1]}/{literal[2]}"] if literal else await self._cluster.namespaces()
        return set[str]().union(*await gather_bounded(self._matching_in, names))

    async def _matching_in(self, name: str) -> set[str]:
        tenant, _, namespace = name.partition("/")
        partitioned = await self._cluster.partitioned_topics(tenant, namespace)
        found = {
            str(topic.at(number))
            for topic, count in partitioned.items()
            if self._matches(topic)
            for number in range(count)
        }
        for topic in await self._cluster.topics(tenant, namespace):
            if topic.base not in partitioned and self._matches(topic):
                found.add(str(topic))
        return found

    def _matches(self, topic: TopicName) -> bool:
        assert self._pattern is not None
        return not topic.local_name.startswith(_SYSTEM_PREFIX) and self._pattern.fullmatch(str(topic)) is not None


def bases_of(names: Iterable[str]) -> list[str]:
    """Return the topics without suffixes of partitions, sorted."""
    return sorted({str(parse_topic_name(name).base) for name in names})
