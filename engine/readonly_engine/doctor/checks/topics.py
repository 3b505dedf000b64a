"""Check of topics and namespaces: they exist, the pool may read their state, and no policy makes subscriptions pass through."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.failure import (
    ADMIN_API,
    METADATA_STORE,
    TOKEN_FILE,
    Failure,
    FailureKind,
    allowed_by,
    remedy_of,
)
from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHECK: Final = "topic"
CHECK_NAMESPACE: Final = "namespace"
CHECK_PASSTHROUGH: Final = "passthrough"
CHECK_STATE: Final = "topic state"
CHECK_EXPIRATION: Final = "expiration"

_REFUSED: Final = frozenset({FailureKind.CREDENTIALS, FailureKind.RIGHTS})
MAX_LISTED: Final = 4


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies of a topic or namespace that concern passthrough or local cursors.

    Attributes:
        entry_filters: names of the entry filters; empty for none, None if unknown.
        clusters: clusters that it is replicated to, with its own; None if unknown.
        problem: the reason why something is unknown; empty for none.
        expiration_s: time after which the owner deletes a subscription without consumers, in seconds; 0 for none.
    """

    entry_filters: str | None = None
    clusters: Sequence[str] | None = None
    problem: str = ""
    expiration_s: int = 0


@dataclass(frozen=True, slots=True)
class TopicAnswers:
    """Facts about a topic that was named.

    Attributes:
        topic: the topic.
        persistent: whether it is persistent.
        exists: whether the metadata store has it.
        partitions: number of partitions; 0 without.
        store_failure: the reason why that is unknown; None for none.
        state_failure: the reason why the admin API does not return its statistics; None for none, also if it was not asked.
        policies: its applied policies; None if they were not requested.
        direct: number of consumers that are not of the pool, by Shared or Key_Shared subscription.
    """

    topic: str
    persistent: bool = True
    exists: bool = True
    partitions: int = 0
    store_failure: Failure | None = None
    state_failure: Failure | None = None
    policies: Policies | None = None
    direct: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NamespaceAnswers:
    """Facts about a namespace that was named.

    Attributes:
        namespace: TENANT/NAMESPACE.
        exists: whether the metadata store has it.
        topics: number of its topics; partitions count one by one.
        store_failure: the reason why that is unknown; None for none.
        policies: its policies; None if they were not requested.
    """

    namespace: str
    exists: bool = True
    topics: int = 0
    store_failure: Failure | None = None
    policies: Policies | None = None


def topic_findings(answers: TopicAnswers, option: str = TOKEN_FILE, *, local_cursors: bool) -> list[Finding]:
    """Return the findings about a topic.

    Args:
        answers: the facts.
        option: option of the pool's credentials.
        local_cursors: whether the pool keeps the cursors, so that it refuses the subscriptions that would pass through.
    """
    topic = answers.topic
    if not answers.persistent:
        return [warn(CHECK, "is not persistent: it has no storage to serve it from", "name a persistent topic", topic)]
    if answers.store_failure is not None:
        remedy = remedy_of(answers.store_failure, METADATA_STORE)
        return [fail(CHECK, f"not checked: {answers.store_failure.text}", remedy, topic)]
    if not answers.exists:
        return [warn(CHECK, "does not exist", "correct the name; brokers may create it at its first producer", topic)]
    found = [ok(CHECK, f"exists, {answers.partitions} partitions" if answers.partitions else "exists", topic)]
    if answers.state_failure is not None:
        remedy = remedy_of(answers.state_failure, replace(ADMIN_API, credentials=option))
        found.append(fail(CHECK_STATE, answers.state_failure.text, remedy, topic))
    if answers.policies is not None:
        found += policy_findings(answers.policies, topic, option, local_cursors=local_cursors)
    if answers.direct and not local_cursors:
        names = sorted(answers.direct)
        listed = ", ".join(f"{name} ({answers.direct[name]})" for name in names[:MAX_LISTED])
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        found.append(
            warn(
                CHECK_PASSTHROUGH,
                f"Shared or Key_Shared subscriptions have consumers at the owner or at another pool: {listed}{more}",
                "name their pool with --pool, or move all consumers of a subscription here; until then the owner serves it",
                topic,
            )
        )
    return found


def namespace_findings(answers: NamespaceAnswers, option: str = TOKEN_FILE, *, local_cursors: bool) -> list[Finding]:
    """Return the findings about a namespace; the arguments are as for `topic_findings`."""
    name = answers.namespace
    if answers.store_failure is not None:
        remedy = remedy_of(answers.store_failure, METADATA_STORE)
        return [fail(CHECK_NAMESPACE, f"not checked: {answers.store_failure.text}", remedy, name)]
    if not answers.exists:
        return [fail(CHECK_NAMESPACE, "does not exist", "correct the name, TENANT/NAMESPACE", name)]
    found = [ok(CHECK_NAMESPACE, f"exists, {answers.topics} topics or partitions", name)]
    if answers.policies is not None:
        found += policy_findings(answers.policies, name, option, local_cursors=local_cursors)
        if local_cursors and answers.policies.expiration_s:
            observed = (
                f"the owner deletes subscriptions that are not used for {answers.policies.expiration_s // 60} min"
            )
            remedy = (
                f"run pulsar-admin namespaces set-subscription-expiration-time --time 0 {name}, or use cursors: owner"
            )
            found.append(warn(CHECK_EXPIRATION, f"{observed}; local cursors do not expire", remedy, name))
    return found


def policy_findings(
    policies: Policies, subject: str, option: str = TOKEN_FILE, *, local_cursors: bool
) -> list[Finding]:
    """Return the findings about policies that make subscriptions pass through (broker/passthrough/policy.py)."""
    found = []
    if policies.problem:
        found.append(
            warn(
                CHECK_PASSTHROUGH,
                f"policies unknown: {policies.problem}",
                allowed_by(option, "read the policies of the namespace"),
                subject,
            )
        )
    if policies.entry_filters:
        observed = f"entry filters at the owner: {policies.entry_filters}"
        if local_cursors:
            remedy = "use cursors: owner, or remove the entry filters"
            found.append(
                fail(CHECK_PASSTHROUGH, f"{observed}; a pool with local cursors refuses them", remedy, subject)
            )
        else:
            remedy = "remove the entry filters, or let clients use the owners: the pool does not take their load"
            found.append(
                warn(CHECK_PASSTHROUGH, f"{observed}; every subscription passes through to the owner", remedy, subject)
            )
    if policies.clusters is not None and len(policies.clusters) > 1:
        clusters = ", ".join(sorted(policies.clusters))
        what = "are refused with local cursors" if local_cursors else "pass through to the owner"
        found.append(
            warn(
                CHECK_PASSTHROUGH,
                f"replicated to {clusters}; replicated subscriptions {what}",
                "set replicateSubscriptionState only where it is needed",
                subject,
            )
        )
    if not found:
        found.append(ok(CHECK_PASSTHROUGH, "no policy makes subscriptions pass through", subject))
    return found
