"""The topics and namespaces of --topic and --namespace, as the metadata store has them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.topics import NamespaceAnswers, TopicAnswers
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.doctor.checks.failure import Failure
    from readonly_engine.doctor.deadline import Deadline
    from readonly_engine.metadata.cluster import ClusterMetadata
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

MAX_TOPICS: Final = 100
"""Topics and partitions of one namespace, and partitions of one topic, whose ledgers are examined."""

MAX_CONCURRENT: Final = 16


@dataclass(frozen=True, slots=True)
class NamedTopic:
    """A topic of --topic.

    Attributes:
        name: the topic.
        answers: facts from the metadata store.
        ledgers: its list of ledgers, or that of each partition that has one.
    """

    name: TopicName
    answers: TopicAnswers
    ledgers: dict[TopicName, ManagedLedgerInfo]


@dataclass(frozen=True, slots=True)
class NamedNamespace:
    """A namespace of --namespace.

    Attributes:
        name: TENANT/NAMESPACE.
        answers: facts from the metadata store.
        ledgers: the lists of ledgers of its first MAX_TOPICS topics and partitions.
    """

    name: str
    answers: NamespaceAnswers
    ledgers: dict[TopicName, ManagedLedgerInfo]


async def find_topics(names: Sequence[TopicName], cluster: ClusterMetadata, deadline: Deadline) -> list[NamedTopic]:
    """Read the topics of --topic."""
    return list(await asyncio.gather(*(_find_topic(name, cluster, deadline) for name in names)))


async def _find_topic(name: TopicName, cluster: ClusterMetadata, deadline: Deadline) -> NamedTopic:
    if name.domain != "persistent":
        return NamedTopic(name, TopicAnswers(str(name), persistent=False), {})
    try:
        async with deadline.request():
            count = await cluster.partitions(name)
    except (MetadataError, TimeoutError) as error:
        return NamedTopic(name, TopicAnswers(str(name), store_failure=failure_of(error)), {})
    wanted = [name.at(index) for index in range(min(count, MAX_TOPICS))] if count else [name]
    ledgers, failure = await _ledgers(wanted, cluster, deadline)
    answers = TopicAnswers(
        str(name), exists=bool(count or ledgers), partitions=count, store_failure=None if ledgers or count else failure
    )
    return NamedTopic(name, answers, ledgers)


async def find_namespaces(names: Sequence[str], cluster: ClusterMetadata, deadline: Deadline) -> list[NamedNamespace]:
    """Read the namespaces of --namespace."""
    return list(await asyncio.gather(*(_find_namespace(name, cluster, deadline) for name in names)))


async def _find_namespace(name: str, cluster: ClusterMetadata, deadline: Deadline) -> NamedNamespace:
    tenant, _, local = name.partition("/")
    try:
        async with deadline.request():
            topics = await cluster.topics(tenant, local)
            exists = bool(topics) or name in await cluster.namespaces()
    except (MetadataError, TimeoutError) as error:
        return NamedNamespace(name, NamespaceAnswers(name, store_failure=failure_of(error)), {})
    ledgers, _ = await _ledgers(topics[:MAX_TOPICS], cluster, deadline)
    return NamedNamespace(name, NamespaceAnswers(name, exists, len(topics)), ledgers)


async def _ledgers(
    topics: Sequence[TopicName], cluster: ClusterMetadata, deadline: Deadline
) -> tuple[dict[TopicName, ManagedLedgerInfo], Failure | None]:
    """Return the lists of ledgers of topics that have one, and one reason why others are unknown."""
    slots = asyncio.Semaphore(MAX_CONCURRENT)
    failures: list[Failure] = []

    async def read(topic: TopicName) -> ManagedLedgerInfo | None:
        try:
            async with slots, deadline.request():
                return await cluster.topic(topic)
        except (MetadataError, WireError, TimeoutError) as error:
            failures.append(failure_of(error))
            return None

    found = await asyncio.gather(*map(read, topics))
    ledgers = {topic: info for topic, info in zip(topics, found, strict=True) if info is not None}
    return ledgers, failures[0] if failures else None
