"""A migration of the cluster's metadata from ZooKeeper to Oxia (PIP-454), as MigrationState of Pulsar 4.2 records it."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final, NamedTuple

from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.url import MetadataUrl, StoreKind

FLAG_PATH: Final = "/pulsar/migration-coordinator/migration"
"""Node of the store that the metadata leave (MigrationState.MIGRATION_FLAG_PATH)."""


class Phase(StrEnum):
    """Phase of a migration."""

    NOT_STARTED = "NOT_STARTED"
    PREPARATION = "PREPARATION"
    """Brokers and bookies create their ephemeral nodes in the target, too; they write nothing else."""
    COPYING = "COPYING"
    """All persistent nodes are copied."""
    COMPLETED = "COMPLETED"
    """Brokers and bookies use the target."""
    FAILED = "FAILED"
    """They use the source as before."""


class Migration(NamedTuple):
    """A migration.

    Attributes:
        phase: its phase.
        target: store that the metadata move to; None if there is none.
    """

    phase: Phase
    target: MetadataUrl | None

    @property
    def running(self) -> bool:
        """Return whether the target is prepared or copied to now."""
        return self.phase in {Phase.PREPARATION, Phase.COPYING}


NO_MIGRATION: Final = Migration(Phase.NOT_STARTED, None)


def decode_migration(value: bytes | None) -> Migration:
    """Decode the node of FLAG_PATH; None for a missing node.

        {"phase": "COPYING", "targetUrl": "oxia://HOST:PORT/NAMESPACE"}

    Raises:
        MetadataError: the node is damaged, or its phase or its target is unknown.
    """
    if not value:
        return NO_MIGRATION
    try:
        fields = json.loads(value)
        phase, target = Phase(fields["phase"]), fields.get("targetUrl")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MetadataError(f"{FLAG_PATH} is damaged: {error}") from error
    if phase in {Phase.NOT_STARTED, Phase.FAILED}:
        return Migration(phase, None)
    url = MetadataUrl.parse(str(target))
    if url.kind is not StoreKind.OXIA:
        raise MetadataError(f"{FLAG_PATH}: the target {target!r} is no Oxia")
    return Migration(phase, url)
