"""State and policies of topics and namespaces at the owner brokers, by the admin API. Nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.broker.cursors.guard_policies import guard_policies
from readonly_engine.broker.passthrough.pool_metadata import direct_consumers
from readonly_engine.doctor.checks.topics import NamespaceAnswers, Policies, TopicAnswers
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.metadata.topic_name import TopicName
from readonly_engine.owner.errors import RelayError
from readonly_engine.owner.namespace_policies import entry_filters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from readonly_engine.doctor.deadline import Deadline
    from readonly_engine.doctor.observe.subjects import NamedNamespace, NamedTopic
    from readonly_engine.owner.admin import AdminClient

MAX_PARTITIONS: Final = 8
"""Partitions of a topic whose statistics are requested: the consumers of one are mostly those of all."""

_MULTIPLE: Final = frozenset({"Shared", "Key_Shared"})


async def ask_about_topic(topic: NamedTopic, admin: AdminClient, pool: str, deadline: Deadline) -> TopicAnswers:
    """Return the facts about a topic, with its state and policies at the owner.

    Args:
        topic: the topic, as the metadata store has it.
        admin: client of the admin API.
        pool: identity of the pool, whose consumers are no direct ones.
        deadline: deadline of each request.
    """
    answers = topic.answers
    if not answers.exists or not answers.persistent or answers.store_failure is not None:
        return answers
    direct: dict[str, int] = {}
    for one in sorted(topic.ledgers, key=str)[:MAX_PARTITIONS]:
        try:
            async with deadline.request():
                await admin.internal_stats(one)
                stats = await admin.stats(one)
        except (RelayError, TimeoutError) as error:
            answers = replace(answers, state_failure=failure_of(error))
            break
        for name, count in _direct_consumers(stats or {}, pool):
            direct[name] = max(count, direct.get(name, 0))
    return replace(answers, direct=direct, policies=await _topic_policies(topic.name.base, admin, deadline))


def _direct_consumers(stats: Mapping[str, Any], pool: str) -> Iterator[tuple[str, int]]:
    """Yield the Shared and Key_Shared subscriptions with consumers that are not of the pool, and their number.

    Values of other types than those of Pulsar are skipped: the address may be that of another server.
    """
    subscriptions = stats.get("subscriptions")
    for name, found in subscriptions.items() if isinstance(subscriptions, dict) else ():
        listed = found.get("consumers") if isinstance(found, dict) and str(found.get("type")) in _MULTIPLE else None
        consumers = [
            {"metadata": one["metadata"] if isinstance(one.get("metadata"), dict) else {}}
            for one in (listed if isinstance(listed, list) else ())
            if isinstance(one, dict)
        ]
        count = len(direct_consumers({"subscriptions": {name: {"consumers": consumers}}}, name, pool))
        if count:
            yield name, count


def _names(found: object) -> list[str]:
    """Return the texts of a list; none for another value."""
    return [str(one) for one in found] if isinstance(found, list) else []


async def _topic_policies(topic: TopicName, admin: AdminClient, deadline: Deadline) -> Policies:
    """Return the applied policies of a topic."""
    filters: str | None = None
    clusters: list[str] | None = None
    problem = ""
    try:
        async with deadline.request():
            found = await admin.policy(topic, "entryFilters")
            filters = str(found.get("entryFilterNames") or "") if isinstance(found, dict) else ""
            found = await admin.policy(topic, "replication")
            clusters = _names(found)
    except (RelayError, TimeoutError) as error:
        problem = failure_of(error).text
    return Policies(filters, clusters, problem)


async def ask_about_namespace(
    namespace: NamedNamespace, admin: AdminClient, configuration: Mapping[str, Any] | None, deadline: Deadline
) -> NamespaceAnswers:
    """Return the facts about a namespace, with its policies.

    Args:
        namespace: the namespace, as the metadata store has it.
        admin: client of the admin API.
        configuration: configuration of a broker; None if unknown.
        deadline: deadline of each request.
    """
    answers = namespace.answers
    if not answers.exists or answers.store_failure is not None:
        return answers
    tenant, _, local = namespace.name.partition("/")
    try:
        async with deadline.request():
            found = await admin.namespace_policies(TopicName("persistent", tenant, local, ""))
    except (RelayError, TimeoutError) as error:
        return replace(answers, policies=Policies(problem=failure_of(error).text))
    clusters = _names(found.get("replication_clusters"))
    configuration = configuration or {}
    expiration_s = guard_policies({}, found, configuration).expiration_s
    return replace(answers, policies=Policies(entry_filters(found, configuration), clusters, expiration_s=expiration_s))
