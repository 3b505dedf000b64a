"""ReadOnlyBrokerPool: spec.explicitLac, the explicit LAC of the owner brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Choice, Nested, Rule, Text, declare
from readonly_operator.api.values import OBJECT_NAME, Duration

LAC_SETTING = "bookkeeperExplicitLacIntervalInMills"
"""Setting of the owner brokers: milliseconds between explicit LACs, 0 for none (ServiceConfiguration)."""

VERIFY = "Verify"
MANAGE = "Manage"
MANAGEMENTS = (VERIFY, MANAGE)

KEEP = "Keep"
RESTORE = "Restore"
ON_DELETION = (KEEP, RESTORE)

SUGGESTED_MS = 200
"""Default interval. The newest message of an idle topic is then readable within about 0.4 s, for one small request per idle
ledger. A ledger with new entries sends none."""

SETTING_KEY = Text(
    253,
    f"[A-Za-z0-9._-]*{LAC_SETTING}",
    f"must be the key of this setting alone: {LAC_SETTING}, also after a prefix such as PULSAR_PREFIX_",
)
"""Key in a ConfigMap. Another key holds another setting of the owner brokers, which Manage must not overwrite."""

_NAMED = "[A-Za-z0-9_=:%.-]*[A-Za-z0-9_=:%-][A-Za-z0-9_=:%.-]*"
"""A tenant or namespace, not of dots alone: it is part of URLs."""


@dataclass(frozen=True, slots=True)
class ConfigMapKey:
    """Location of the setting.

    Attributes:
        name: of the ConfigMap.
        key: of the value in it.
    """

    name: str = field(
        metadata=declare(
            OBJECT_NAME,
            "The ConfigMap that the owner brokers read as environment (envFrom). Apache Pulsar's Helm chart names it "
            "RELEASE-broker.",
            required="must name the ConfigMap of the owner brokers, for example pulsar-broker",
        )
    )
    key: str = field(
        default=LAC_SETTING,
        metadata=declare(
            SETTING_KEY,
            "Key whose value is the interval in milliseconds: the setting's name, for Apache Pulsar's image also after "
            "PULSAR_PREFIX_. It must hold this one setting: a whole broker.conf under one key cannot be managed.",
            stored=True,
        ),
    )


@dataclass(frozen=True, slots=True)
class Workload:
    """Workload that runs the owner brokers.

    Attributes:
        name: of the StatefulSet.
    """

    name: str = field(
        metadata=declare(
            OBJECT_NAME,
            "The StatefulSet of the owner brokers. The operator does not change it, but evicts its pods one by one. "
            "In another "
            "namespace than the pool's, its annotation pulsar-readonly.io/explicit-lac-from must name the pool's namespace.",
            required="must name the StatefulSet of the owner brokers, for example pulsar-broker",
        )
    )


@dataclass(frozen=True, slots=True)
class Target:
    """Objects that Manage changes.

    Attributes:
        config_map: location of the setting.
        stateful_set: runs the brokers.
        namespace: of both; empty for the pool's.
    """

    config_map: ConfigMapKey = field(
        metadata=declare(
            Nested(ConfigMapKey),
            "ConfigMap with the setting.",
            required="must name the ConfigMap with the setting: {name: pulsar-broker}",
        )
    )
    stateful_set: Workload = field(
        metadata=declare(
            Nested(Workload),
            "StatefulSet of the owner brokers.",
            required="must name the StatefulSet of the brokers: {name: pulsar-broker}",
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
    """Desired explicit LAC.

    Attributes:
        management: Verify or Manage.
        interval_ms: longest accepted interval in milliseconds; None for any.
        target: objects that Manage changes; None for none.
        probe_topic: full name of the topic for probes; empty for the topics of brokers' health checks.
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
            "Verify reads the runtime configuration of each active owner broker. The condition ExplicitLac then names "
            "the setting "
            "to change; the operator changes nothing. Manage sets it in the target's ConfigMap and restarts brokers with "
            "another "
            "value once, one by one. It needs rights in the target's namespace; the condition names missing ones.",
            stored=True,
        ),
    )
    interval_ms: int | None = field(
        default=None,
        metadata=declare(
            Duration("200ms"),
            "Longest accepted interval between explicit LACs, for example 200ms or 1s: the newest message is readable after at "
            "most twice this. Without it, any interval is accepted as long as explicit LAC is on; Manage then "
            f"sets {SUGGESTED_MS}ms. Pools that manage the same owner brokers agree on the shortest.",
            name="interval",
        ),
    )
    target: Target | None = field(default=None, metadata=declare(Nested(Target), "Objects that Manage changes."))
    probe_topic: str = field(
        default="",
        metadata=declare(
            Text(
                512,
                f"persistent://{_NAMED}/{_NAMED}/[^/ ]*[^/ .][^/ ]*",
                "must be persistent://TENANT/NAMESPACE/TOPIC, a topic that a binding of this pool names",
            ),
            "Topic for probes of explicit LAC. The operator publishes a small message to it, after each change of the owner "
            "brokers and every hour. A broker of the pool then queries the bookies for the explicit LAC. A binding of "
            "this pool must "
            "name the topic. It is created if absent, and must have no partitions; use a dedicated topic. Without it, "
            "the operator "
            "calls the owner brokers' health check, which writes a message to a topic of the broker and takes a super-user "
            "when authorization is on.",
        ),
    )
    on_deletion: str = field(
        default=KEEP,
        metadata=declare(
            Choice(ON_DELETION),
            "Action when the last pool that manages these brokers is deleted. Keep leaves the setting. Restore restores the "
            "value from before and restarts the brokers one by one; the deletion waits for that for a limited time.",
            stored=True,
        ),
    )

    @property
    def manages(self) -> bool:
        """Return whether the operator changes the owner brokers' setting."""
        return self.management == MANAGE and self.target is not None
