"""ReadOnlyBrokerPool: labels and annotations that users add to the pool's objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_operator.api.kubernetes import ANY_TEXT, LABEL_VALUE
from readonly_operator.api.schema import MapOf, Nested, Rule, declare

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_KEYS = 32
"""Labels or annotations of one place."""
FOREIGN_KEYS = (
    Rule(
        "!self.exists(key, key.startsWith('pulsar-readonly.io/') || key.startsWith('app.kubernetes.io/'))",
        "must not have keys of pulsar-readonly.io/ and app.kubernetes.io/, which the operator sets",
    ),
)
LABELS = MapOf(LABEL_VALUE, MAX_KEYS, FOREIGN_KEYS)
ANNOTATIONS = MapOf(ANY_TEXT, MAX_KEYS, FOREIGN_KEYS)


@dataclass(frozen=True, slots=True)
class AddedMetadata:
    """Metadata besides the operator's.

    Attributes:
        labels: by key.
        annotations: by key.
    """

    labels: Mapping[str, str] = field(default_factory=dict, metadata=declare(LABELS, "Labels besides the operator's."))
    annotations: Mapping[str, str] = field(
        default_factory=dict, metadata=declare(ANNOTATIONS, "Annotations besides the operator's.")
    )


@dataclass(frozen=True, slots=True)
class ServiceAccountTemplate:
    """Additions to the brokers' ServiceAccount.

    Attributes:
        metadata: labels and annotations.
    """

    metadata: AddedMetadata = field(
        default_factory=AddedMetadata,
        metadata=declare(
            Nested(AddedMetadata),
            "Labels and annotations of the ServiceAccount, for example eks.amazonaws.com/role-arn or "
            "iam.gke.io/gcp-service-account.",
        ),
    )
