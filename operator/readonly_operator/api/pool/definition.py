"""ReadOnlyBrokerPool: its custom resource definition beyond the spec."""

from __future__ import annotations

from readonly_operator.api.pool.source_ref import USED_SOURCE
from readonly_operator.api.schema import Declared, Number, Record, Rule
from readonly_operator.api.status import AGE, Column, Reported, condition_column, status_schema

DESCRIPTION = (
    "A pool of read-only brokers. They serve topics of a source Pulsar cluster and read them from its bookies. A "
    "ReadOnlyTopicBinding selects the topics."
)

RULES = (
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 50",
        "metadata.name must be a DNS label of at most 50 characters (lower-case letters, digits and '-', a letter first), "
        "because Services and pods are named after the pool",
    ),
    Rule(
        "!self.metadata.name.endsWith('-headless')",
        'metadata.name must not end in "-headless", which names the pools\' headless Services',
    ),
    Rule(
        "!has(self.spec.scaleToZero) || self.metadata.name.size() <= 46",
        "metadata.name must have at most 46 characters with spec.scaleToZero: Kubernetes makes a label of NAME-waker and a hash",
    ),
)

COLUMNS = (
    Column("Replicas", ".spec.replicas", "Desired brokers.", "integer"),
    Column("Available", ".status.readyReplicas", "Ready brokers.", "integer"),
    Column("Bindings", ".status.bindings", "Topic bindings that name this pool and that it allows.", "integer"),
    condition_column("Ready", "Ready", "Whether all brokers serve."),
    condition_column("Reason", "Ready", "Reason of Ready.", "reason"),
    Column("Source", ".spec.source.serviceUrl", "The owner brokers, with spec.source.", wide=True),
    Column("SourceRef", ".spec.sourceRef.name", "The ReadOnlySource, with spec.sourceRef.", wide=True),
    condition_column("Reachable", "SourceReachable", "Whether the source cluster answers.", wide=True),
    condition_column("ExplicitLac", "ExplicitLac", "Whether the owner brokers send explicit LACs.", wide=True),
    Column(
        "Revision", ".status.lookupRevision", "Revision of the lookup redirection config for the brokers.", wide=True
    ),
    AGE,
)

SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}

STATUS = status_schema(
    {
        "replicas": Declared(Number(), "Brokers that exist."),
        "readyReplicas": Declared(Number(), "Ready brokers."),
        "selector": Declared(Reported(), "Label selector of the brokers, for autoscalers and `kubectl get pods -l`."),
        "bindings": Declared(Number(), "Number of ReadOnlyTopicBindings that name this pool and that it allows."),
        "lookupRevision": Declared(
            Reported(),
            "Revision of the lookup redirection config for each broker; it changes with every binding.",
        ),
        "bookkeeperInstance": Declared(
            Reported(),
            "Id of the source cluster's BookKeeper (INSTANCEID), as brokers report it. Pools with the same id have one source "
            "cluster, and their bindings must not claim the same topics.",
        ),
        "source": USED_SOURCE,
        "membershipUid": Declared(
            Reported(),
            "Uid by which brokers and local cursors know the pool: its own, or that of a deleted pool whose brokers it adopted.",
        ),
        "brokerConfig": Declared(
            Reported(),
            "Settings in the ConfigMap NAME-config. While brokers keep their former pod template (UpdateHeld), these are the "
            "former settings.",
        ),
        "explicitLac": Declared(
            Record(
                {
                    "target": Declared(Reported(), "Location of the setting: NAMESPACE/CONFIGMAP/KEY."),
                    "intervalMs": Declared(Number(), "The interval, in milliseconds."),
                }
            ),
            "Setting that the operator last applied to the owner brokers for this pool, when it manages explicit LAC.",
        ),
    },
    "Ready (all brokers serve), Progressing (the operator is still working on it), LookupConfigured (brokers hold the newest "
    "bindings), SourceReachable (the source cluster answers), ExplicitLac (its brokers send explicit LACs), "
    "ClusterRegistered (the pool is a cluster in its metadata; only with spec.lookup.clusterName), LocalCursors (only while "
    "they are released, or cannot be), SourceResolved (the pool uses the ReadOnlySource that it names), CertificateIssued "
    "(cert-manager has issued the certificate of the listeners), UpdateHeld (only while brokers keep their former pod "
    "template), Asleep (no broker runs until a client needs one; only with spec.scaleToZero).",
)
