"""Meaning of each condition's reasons and of each event's: docs/reference/conditions.md is made of it.

tests/unit/docs/test_conditions.py compares it with the reasons that the code gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Meaning:
    """One reason of a condition.

    Attributes:
        condition: type of the condition.
        status: True, False or Unknown.
        reason: one CamelCase word.
        text: the situation, and the remedy where somebody must act.
    """

    condition: str
    status: str
    reason: str
    text: str


CONDITIONS: Final = {
    "Ready": "The object works as its spec says.",
    "Progressing": "The operator waits for a change that needs no action.",
    "LookupConfigured": "Every broker of the pool has reported that it holds the bindings; of a binding, every ready broker.",
    "SourceReachable": "The URLs of `spec.source` answer as seen from the operator's pod, including TLS handshakes.",
    "SourceResolved": "The pool uses the source that its spec names. With `spec.source`, only while it is False.",
    "ExplicitLac": "Every active owner broker sends explicit LACs, often enough.",
    "ClusterRegistered": "The pool is a cluster in the source cluster's metadata. Only with `spec.lookup.clusterName`.",
    "LocalCursors": "The source cluster allows local cursors. Only with `cursors: Local`, and while cursors are removed.",
    "CertificateIssued": "cert-manager has issued the listeners' certificate. Only with `spec.listeners.tls.issuerRef`.",
    "UpdateHeld": "Brokers keep the former pod template. The condition is absent while they may be replaced.",
    "Asleep": "No broker runs, because no client needs one. Only with `spec.scaleToZero`.",
    "TopicConflict": "Bindings of two pools claim a topic. The condition is absent otherwise.",
    "Accepted": "The pool allows the binding. Only of bindings that it refuses, or has refused before.",
    "Paused": "An annotation keeps the operator from changing the object.",
    "Reconciling": "The same as `Progressing`, for kstatus, which then reports InProgress. The condition is absent otherwise.",
    "Stalled": "A user must act. The condition is absent otherwise, so kstatus reports Failed only then.",
}
"""Meaning of each condition when its status is True."""

OF_POOLS: Final = (
    Meaning(
        "Ready",
        "True",
        "BrokersReady",
        "`spec.replicas` brokers are ready. The message counts those that keep the former pod template.",
    ),
    Meaning("Ready", "True", "ScaledToZero", "`spec.replicas` is 0, and no broker runs."),
    Meaning("Ready", "True", "Asleep", "The pool sleeps. A client that looks a topic up wakes it."),
    Meaning("Ready", "False", "BrokersNotReady", "Too few brokers are ready. The message has the reason of each pod."),
    Meaning(
        "Ready",
        "False",
        "PoolNameTaken",
        "A pool of the same namespace and name in another Kubernetes cluster has live brokers on this metadata store. Delete "
        "one of the two pools and create it under another name.",
    ),
    Meaning("Ready", "False", "RollingOut", "Enough brokers are ready; some are being replaced or removed."),
    Meaning(
        "Ready",
        "False",
        "NameConflict",
        "An object with a name of this pool does not belong to it. Rename one of them.",
    ),
    Meaning("Ready", "False", "InvalidSpec", "The spec cannot be used. The message names the field."),
    Meaning("Ready", "False", "Refused", "The API server refuses an object of the pool. The message has its error."),
    Meaning(
        "Ready",
        "False",
        "SourceNotFound",
        "The ReadOnlySource in `spec.sourceRef` does not exist, and the pool has never used one. Create it.",
    ),
    Meaning("Ready", "False", "InvalidSource", "The ReadOnlySource cannot be used. The message names the field."),
    Meaning(
        "Ready",
        "False",
        "OtherCluster",
        "The source has another cluster than running brokers of an earlier operator. They keep their configuration.",
    ),
    Meaning("Ready", "Unknown", "Paused", "The pool was paused before its first status."),
    Meaning(
        "Progressing",
        "False",
        "Settled",
        "The operator waits for nothing. The message names missing parts that need an action.",
    ),
    Meaning(
        "UpdateHeld", "True", "Held", "`spec.updateStrategy.hold` is true. The message says whether a change waits."
    ),
    Meaning(
        "UpdateHeld",
        "True",
        "ImageFailed",
        "Brokers of the pools in the message do not get ready with the image that this pool would get. Set another image, or "
        "mend these pools.",
    ),
    Meaning(
        "UpdateHeld",
        "True",
        "WaitsForPools",
        "Other pools replace their brokers now. The message names them, and the operator's setting.",
    ),
    Meaning(
        "UpdateHeld",
        "True",
        "WaitsForCertificate",
        "A new pod template needs a certificate that is not issued yet. `CertificateIssued` has the reason.",
    ),
    Meaning("CertificateIssued", "True", "Issued", "The Certificate is ready. The message has its Secret."),
    Meaning("CertificateIssued", "False", "NotIssued", "The message has the reason that cert-manager gives."),
    Meaning(
        "CertificateIssued",
        "False",
        "CertManagerNotFound",
        "The Kubernetes cluster does not serve the kind Certificate. Install cert-manager, or use `certificate`.",
    ),
    Meaning("LookupConfigured", "True", "Held", "Every broker holds the newest revision of the bindings."),
    Meaning("LookupConfigured", "False", "BrokersBehind", "A broker still holds an older revision."),
    Meaning(
        "LookupConfigured", "False", "BrokerRefuses", "A broker cannot use the bindings. The message has its error."
    ),
    Meaning("LookupConfigured", "Unknown", "BrokersUnreachable", "A broker does not answer, or does not exist yet."),
    Meaning("LookupConfigured", "Unknown", "NoBrokers", "`spec.replicas` is 0."),
    Meaning("LookupConfigured", "Unknown", "Asleep", "The pool sleeps, and no broker holds the bindings."),
    Meaning("Asleep", "True", "Asleep", "No broker runs. A client that looks a topic up wakes the pool."),
    Meaning(
        "Asleep",
        "False",
        "Awake",
        "Brokers run. If one of them is not ready, or does not say whether clients need it, the message has the reason.",
    ),
    Meaning(
        "Asleep",
        "False",
        "FallingAsleep",
        "No client needs the pool. The brokers run until the waker is ready: `kubectl describe pod NAME-waker-0`.",
    ),
    Meaning(
        "Asleep",
        "False",
        "Waking",
        "A client needs the pool, or its waker is not ready. Brokers start, and clients wait until one of them is ready.",
    ),
    Meaning("SourceReachable", "True", "Answers", "Admin API, service URL and metadata store answer."),
    Meaning("SourceReachable", "False", "Unreachable", "The message has the reason for each URL of the spec."),
    Meaning("SourceReachable", "Unknown", "NotChecked", "The first check has not ended."),
    Meaning("SourceResolved", "True", "Resolved", "The pool uses the newest spec of the ReadOnlySource."),
    Meaning(
        "SourceResolved",
        "False",
        "SourceNotFound",
        "The ReadOnlySource does not exist. The pool keeps the connection that it used last. Create the source again.",
    ),
    Meaning(
        "SourceResolved",
        "False",
        "InvalidSource",
        "The ReadOnlySource cannot be used. The pool keeps the connection that it used last.",
    ),
    Meaning(
        "SourceResolved",
        "False",
        "OtherCluster",
        "The named source has another cluster. The pool keeps its connection. Name a source of the same cluster.",
    ),
    Meaning(
        "ExplicitLac", "True", "On", "All active owner brokers send explicit LACs, at the interval in the message."
    ),
    Meaning("ExplicitLac", "False", "Off", "The setting is 0 on some brokers. The message says where to set it."),
    Meaning("ExplicitLac", "False", "TooSlow", "An interval is longer than `spec.explicitLac.interval`."),
    Meaning(
        "ExplicitLac",
        "False",
        "NotSeen",
        "It is on in the brokers' configuration, but no explicit LAC arrived. Read their logs.",
    ),
    Meaning("ExplicitLac", "Unknown", "BrokersUnreachable", "The configuration of some brokers cannot be read."),
    Meaning(
        "ExplicitLac", "Unknown", "SourceUnreachable", "The admin API does not answer; nothing is changed meanwhile."
    ),
    Meaning("ExplicitLac", "Unknown", "NotChecked", "The first check has not ended."),
    Meaning("ExplicitLac", "False", "Forbidden", "The operator lacks a right. The message names the Role to grant."),
    Meaning("ExplicitLac", "False", "NotAllowed", "The StatefulSet lacks the annotation that allows this namespace."),
    Meaning("ExplicitLac", "False", "TargetNotFound", "The ConfigMap or StatefulSet of the target does not exist."),
    Meaning("ExplicitLac", "False", "NotRead", "The pods do not read the ConfigMap as environment. Use Verify."),
    Meaning("ExplicitLac", "False", "NotOneSetting", "The key does not hold one number of milliseconds. Use Verify."),
    Meaning("ExplicitLac", "False", "NotTheSource", "No pod of the StatefulSet is an active broker of `spec.source`."),
    Meaning("ExplicitLac", "False", "Rolling", "Owner brokers restart one by one."),
    Meaning("ExplicitLac", "False", "RollStopped", "A restarted broker does not come back. No other one is restarted."),
    Meaning("ExplicitLac", "False", "NotTaken", "A broker restarted, and still runs with another value."),
    Meaning(
        "ExplicitLac",
        "False",
        "Reverted",
        "Another writer changed the key back. Set it in the source of that writer.",
    ),
    Meaning("ExplicitLac", "False", "Conflict", "An older pool manages the same brokers in another way."),
    Meaning("ExplicitLac", "False", "Refused", "The API server refuses the change. The message has its error."),
    Meaning("ExplicitLac", "False", "Restoring", "The pool is being deleted; the setting from before is put back."),
    Meaning("ClusterRegistered", "True", "Registered", "The entry exists, with the pool's Service as its URL."),
    Meaning(
        "ClusterRegistered",
        "False",
        "NameTaken",
        "Another cluster or pool has this name. The message names it. Recreate the pool with another name.",
    ),
    Meaning("ClusterRegistered", "False", "NotRegistered", "The admin API refuses; it asks for a super-user."),
    Meaning("ClusterRegistered", "False", "Removing", "The pool is being deleted, and the entry with it."),
    Meaning("ClusterRegistered", "False", "Forbidden", "The operator may not set the finalizer. Grant it the right."),
    Meaning("ClusterRegistered", "Unknown", "NotChecked", "The source cluster has not been asked yet."),
)
OF_BINDINGS: Final = (
    Meaning("Ready", "True", "Held", "At least one ready broker serves the binding with these topics and options."),
    Meaning("Ready", "False", "PoolNotFound", "No pool has the namespace and name in `spec.poolRef`."),
    Meaning(
        "Ready",
        "False",
        "NotAllowedByPool",
        "`spec.allowedBindings` of the pool does not allow the binding's namespace, or a topic. The message names the field.",
    ),
    Meaning(
        "Ready",
        "False",
        "NamespaceNotServed",
        "The operator does not serve `spec.poolRef.namespace`. Add it to the operator's namespaces.",
    ),
    Meaning(
        "Ready",
        "False",
        "PoolFailed",
        "The pool needs an action, and no ready broker serves the binding as it is now. The message has the pool's reason.",
    ),
    Meaning("Ready", "False", "InvalidSpec", "The spec cannot be used. The message names the field."),
    Meaning(
        "Ready",
        "False",
        "TooLarge",
        "The bindings of the pool exceed 1,000,000 bytes with this one. Use expressions, namespaces or another pool.",
    ),
    Meaning("Ready", "False", "Conflict", "Another binding gave one of the topics to another pool first."),
    Meaning(
        "TopicConflict",
        "True",
        "Prevails",
        "This binding is in force. The message names bindings of other pools with its topics, which have no effect.",
    ),
    Meaning(
        "TopicConflict",
        "True",
        "Overruled",
        "A topic belongs to the binding in the message, because its claim was first or this pool does not exist.",
    ),
    Meaning("Accepted", "True", "Accepted", "The pool allows the binding now, and refused it before."),
    Meaning("Accepted", "False", "NotAllowedByPool", "The pool refuses the binding. It claims no topic."),
    Meaning("Ready", "True", "Asleep", "The pool sleeps. A client that looks a topic up wakes it."),
    Meaning("Progressing", "False", "Asleep", "The pool sleeps, and the operator waits for nothing."),
    Meaning("Progressing", "False", "Settled", "The operator waits for nothing."),
    Meaning(
        "Progressing",
        "False",
        "PoolFailed",
        "The pool needs an action. Its ready brokers serve the binding as it is now.",
    ),
    Meaning("LocalCursors", "True", "Allowed", "The policies of the binding's namespaces allow local cursors."),
    Meaning(
        "LocalCursors",
        "False",
        "EncryptionRequired",
        "A namespace or the brokers accept encrypted messages only. Local cursors are not encrypted. Use `cursors: Owner`.",
    ),
    Meaning(
        "LocalCursors",
        "False",
        "PartitionLimit",
        "`spec.cursorPartitions` of the pool is above `maxNumPartitionsPerPartitionedTopic` of the owner brokers. Lower it.",
    ),
    Meaning(
        "LocalCursors",
        "False",
        "TopicLimit",
        "The topic with cursors exceeds the topics that a namespace may have. The message has the command.",
    ),
    Meaning(
        "LocalCursors",
        "False",
        "SubscriptionLimit",
        "The guards may exceed the subscriptions that a topic may have. The message has the command.",
    ),
    Meaning(
        "LocalCursors",
        "False",
        "InactiveTopicsDeleted",
        "Inactive topics with subscriptions are deleted, and so the cursors of a pool without brokers. The message has the "
        "command.",
    ),
    Meaning(
        "LocalCursors",
        "False",
        "SubscriptionsExpire",
        "Subscriptions without a consumer are deleted. Local ones are not, but their messages are if no broker of the pool runs "
        "for so long. The message has the command.",
    ),
    Meaning("LocalCursors", "False", "CompactionReplaced", "The owner brokers have another compaction than Pulsar's."),
    Meaning(
        "LocalCursors", "Unknown", "SourceUnreachable", "The admin API does not answer. The message has its error."
    ),
    Meaning("LocalCursors", "Unknown", "NotChecked", "The first check has not ended."),
)
OF_BOTH: Final = (
    Meaning("Paused", "True", "Paused", "The annotation `pulsar-readonly.io/paused` is set."),
    Meaning("Paused", "False", "NotPaused", "The operator works on the object."),
    Meaning("LocalCursors", "False", "Releasing", "The object is being deleted, and its local cursors with it."),
    Meaning("LocalCursors", "False", "Forbidden", "The operator may not set the finalizer. Grant it the right."),
)
OF_SOURCES: Final = (
    Meaning("Ready", "True", "Valid", "Pools can use the ReadOnlySource."),
    Meaning("Ready", "False", "InvalidSource", "Pools cannot use it. The message names the field."),
)
EVENTS: Final = {
    "Created": "Objects of the pool were created.",
    "Updated": "Objects of the pool were changed to what the spec says.",
    "Removed": "Objects of the pool were deleted.",
    "Scaled": "The number of brokers changed.",
    "Released": "Local cursors of a deleted object were removed. The message has their numbers.",
    "NotReleased": "Local cursors of a deleted object stay at the source cluster. Remove them by hand.",
    "Resumed": "The object is no longer paused.",
    "PodsNotAnnotated": "The operator may not annotate pods, so brokers get changed bindings late.",
}
"""Reasons of events that are no reasons of conditions."""
