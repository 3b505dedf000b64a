"""ReadOnlyBrokerPool: spec.explicitLac, what the user wants of the writable brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Choice, Nested, Rule, Text, declare
from readonly_operator.api.values import DATA_KEY, OBJECT_NAME, Duration

LAC_SETTING = "bookkeeperExplicitLacIntervalInMills"
"""The writable brokers' setting: milliseconds between explicit LACs, 0 for none (ServiceConfiguration)."""

VERIFY = "Verify"
MANAGE = "Manage"
MANAGEMENTS = (VERIFY, MANAGE)

KEEP = "Keep"
RESTORE = "Restore"
ON_DELETION = (KEEP, RESTORE)

SUGGESTED_MS = 200
"""Where the user says nothing: the newest message of an idle topic is then readable within about 0.4 s, for one small
request per idle ledger (a ledger that gets entries sends none)."""

_NAMED = "[A-Za-z0-9_=:%.-]*[A-Za-z0-9_=:%-][A-Za-z0-9_=:%.-]*"
"""A tenant or namespace, not of dots alone: it stands in URLs."""


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    """Where the setting stands.

    Attributes:
        name: of the ConfigMap.
        key: of the value in it.
    """

    name: str = field(
        metadata=declare(
            OBJECT_NAME,
            "The ConfigMap that the writable brokers read as environment (envFrom). Apache Pulsar's Helm chart names it "
            "RELEASE-broker.",
            required="must name the ConfigMap of the writable brokers, for example pulsar-broker",
        )
    )
    key: str = field(
        default=LAC_SETTING,
        metadata=declare(
            DATA_KEY,
            "The key whose value is the interval, in milliseconds: one setting to a key. Where the brokers' image is "
            "Apache Pulsar's, the setting's name works, and so does the name after PULSAR_PREFIX_. A whole broker.conf "
            "under one key cannot be managed.",
            stored=True,
        ),
    )


@dataclass(frozen=True, slots=True)
class Workload:
    """What runs the writable brokers.

    Attributes:
        name: of the StatefulSet.
    """

    name: str = field(
        metadata=declare(
            OBJECT_NAME,
            "The StatefulSet of the writable brokers. It is never changed: its pods are evicted one by one. Where it is in "
            "another namespace than the pool, its annotation pulsar-readonly.io/explicit-lac-from must name the pool's.",
            required="must name the StatefulSet of the writable brokers, for example pulsar-broker",
        )
    )


@dataclass(frozen=True, slots=True)
class Target:
    """The objects that Manage changes.

    Attributes:
        config_map: where the setting stands.
        stateful_set: what runs the brokers.
        namespace: of both; empty for the pool's.
    """

    config_map: ConfigMapKey = field(
        metadata=declare(
            Nested(ConfigMapKey),
            "Where the setting stands.",
            required="must say in which ConfigMap the setting stands: {name: pulsar-broker}",
        )
    )
    stateful_set: Workload = field(
        metadata=declare(
            Nested(Workload),
            "What runs the writable brokers.",
            required="must say what runs the brokers: {name: pulsar-broker}",
        )
    )
    namespace: str = field(
        default="",
        metadata=declare(
            Text(63, "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "must be the name of a namespace"),
            "The namespace of both. Without it, the pool's.",
        ),
    )


@dataclass(frozen=True, slots=True)
class ExplicitLac:
    """What is wanted.

    Attributes:
        management: Verify or Manage.
        interval_ms: longest interval in milliseconds that is accepted; None for any.
        target: what Manage changes; None for nothing.
        probe_topic: full name of the topic on which explicit LAC is tried; empty for the topics of brokers' health checks.
        on_deletion: Keep or Restore.
    """

    RULES = (
        Rule(
            "self.management != 'Manage' || has(self.target)",
            "must say what to change when management is Manage: "
            "{configMap: {name: pulsar-broker}, statefulSet: {name: pulsar-broker}}",
            ".target",
            "FieldValueRequired",
        ),
        Rule(
            "self.management == 'Manage' || !has(self.onDeletion) || self.onDeletion != 'Restore'",
            "can be Restore only when management is Manage: Verify changes nothing",
            ".onDeletion",
        ),
    )

    management: str = field(
        default=VERIFY,
        metadata=declare(
            Choice(MANAGEMENTS),
            "Verify reads the runtime configuration of each active writable broker and says in the condition ExplicitLac "
            "what to set where; it changes nothing. Manage sets it in the target's ConfigMap and restarts the target's "
            "brokers one by one, those that run with another value, once. It needs rights that are granted separately, in "
            "the target's namespace; the condition says which are missing.",
            stored=True,
        ),
    )
    interval_ms: int | None = field(
        default=None,
        metadata=declare(
            Duration("200ms"),
            "The longest interval between explicit LACs that you accept, for example 200ms or 1s: the newest message is "
            "readable after at most twice this. Without it, any interval is fine as long as explicit LAC is on; Manage then "
            f"sets {SUGGESTED_MS}ms. Pools that manage the same writable brokers agree on the shortest.",
            name="interval",
        ),
    )
    target: Target | None = field(default=None, metadata=declare(Nested(Target), "What Manage changes."))
    probe_topic: str = field(
        default="",
        metadata=declare(
            Text(
                512,
                f"persistent://{_NAMED}/{_NAMED}/[^/ ]*[^/ .][^/ ]*",
                "must be persistent://TENANT/NAMESPACE/TOPIC, a topic that a binding of this pool names",
            ),
            "A topic on which explicit LAC is tried for real: the operator publishes a small message to it (after each change "
            "of the writable brokers, and every hour), and a broker of the pool asks the bookies for the explicit LAC that "
            "must follow. A binding of this pool must name it; it is made where it is not there, and must have no partitions. "
            "Best is a topic of its own. Without it, the writable brokers are asked for their health check instead, which writes "
            "a small message to a topic of the broker's own; where authorization is on, that takes a super-user.",
        ),
    )
    on_deletion: str = field(
        default=KEEP,
        metadata=declare(
            Choice(ON_DELETION),
            "When the last pool that manages these brokers is deleted: Keep leaves the setting. Restore puts back what was "
            "there before and restarts the brokers one by one; the pool's deletion waits for that, for a limited time.",
            stored=True,
        ),
    )

    @property
    def manages(self) -> bool:
        """Whether the operator is to change the writable brokers' setting."""
        return self.management == MANAGE and self.target is not None
