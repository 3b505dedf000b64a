"""Offsets of a streaming query: for each topic the next entry to read, as canonical JSON.

    {"c": CLUSTER, "t": {"persistent://TENANT/NAMESPACE/TOPIC": "LEDGER:ENTRY", ...}, "v": 1}

Spark compares offsets as texts, so equal offsets must be equal texts: keys ascend, and an offset moves only when there is an
entry to read before it. CLUSTER is BookKeeper's id of the cluster: a checkpoint of another one is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from readonly_spark.message_ids import PositionError, parse_message_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.topic.position import Position

VERSION: Final = 1


class OffsetError(ValueError):
    """An offset that this source cannot go on from."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where a query stands.

    Attributes:
        cluster: the cluster's id.
        topics: for each topic or partition, by its full name, the next entry.
    """

    cluster: str
    topics: Mapping[str, Position]

    def to_dict(self) -> dict[str, Any]:
        """As Spark's interface wants it, with keys in their order."""
        topics = {name: str(self.topics[name]) for name in sorted(self.topics)}
        return {"c": self.cluster, "t": topics, "v": VERSION}

    def to_json(self) -> str:
        """The text that a checkpoint has."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, found: object, cluster: str) -> Offsets:
        """Read an offset.

        Args:
            found: what Spark hands back.
            cluster: the cluster that is connected to.

        Raises:
            OffsetError: it is not an offset of this source and this cluster.
        """
        if not isinstance(found, dict) or not isinstance(found.get("t"), dict):
            raise OffsetError(f"the checkpoint holds {str(found)[:80]!r}, which is no offset of pulsar-readonly")
        if found.get("v") != VERSION:
            raise OffsetError(
                f"the checkpoint was written by version {found.get('v')!r} of offsets; {VERSION} is known"
            )
        if found.get("c") != cluster:
            raise OffsetError(f"the checkpoint is of cluster {found.get('c')!r}, and metadataUrl leads to {cluster!r}")
        topics = {}
        for name, where in found["t"].items():
            try:
                topics[str(name)] = parse_message_id(where)
            except PositionError as error:
                raise OffsetError(f"the checkpoint is damaged: {name}: {error}") from None
        return cls(cluster, topics)
