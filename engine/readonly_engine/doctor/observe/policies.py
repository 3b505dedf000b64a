"""State and policies of topics and namespaces at the owner brokers, by the admin API. Nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.broker.passthrough.policy import direct_consumers
from readonly_engine.doctor.checks.topics import NamespaceAnswers, Policies, TopicAnswers
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.metadata.topic_name import TopicName
from readonly_engine.owner.errors import RelayError
from readonly_engine.owner.namespace_policies import entry_filters

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        for name, subscription in ((stats or {}).get("subscriptions") or {}).items():
            if subscription.get("type") in _MULTIPLE and (count := len(direct_consumers(stats or {}, name, pool))):
                direct[name] = max(count, direct.get(name, 0))
    return replace(answers, direct=direct, policies=await _topic_policies(topic.name.base, admin, deadline))


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
            clusters = [str(one) for one in found] if isinstance(found, list) else []
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
    clusters = found.get("replication_clusters")
    return replace(
        answers,
        policies=Policies(
            entry_filters(found, configuration or {}), [str(one) for one in clusters] if clusters else []
        ),
    )
