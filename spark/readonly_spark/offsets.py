"""Offsets of a streaming query as canonical JSON: the next entry to read of each topic.

    {"c": CLUSTER, "n": {...}, "t": {"persistent://TENANT/NAMESPACE/TOPIC": "LEDGER:ENTRY", ...}, "v": 1}

Spark compares offsets as text, so equal offsets must be equal text. Keys are sorted, and a position moves only if there is an
entry to read before it. CLUSTER is the id of the BookKeeper cluster: a checkpoint of another cluster is refused.

"n" has the following ledger of each topic that was read to the end of a closed ledger; without such topics it is left out. When
the closed ledger is trimmed later, the following one shows that nothing was lost.

A query that starts within a batch has the batch index in the position, "LEDGER:ENTRY:-1:INDEX", until it has read this entry.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from readonly_spark.message_ids import PositionError, parse_batch_index, parse_message_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.topic.position import Position

VERSION: Final = 1


class OffsetError(ValueError):
    """An offset that the query cannot resume from."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """The position of a query.

    Attributes:
        cluster: the id of the BookKeeper cluster.
        topics: the next entry of each topic or partition, by full name.
        following: the ledger after a closed one that was read to its end, by topic.
        in_batch: the batch index of the next message, of topics whose next entry is read in part.
    """

    cluster: str
    topics: Mapping[str, Position]
    following: Mapping[str, int] = field(default_factory=dict)
    in_batch: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the offset as Spark's interface expects it, with sorted keys."""
        batches = {name: f":-1:{index}" for name, index in self.in_batch.items()}
        topics = {name: f"{self.topics[name]}{batches.get(name, '')}" for name in sorted(self.topics)}
        following = {name: self.following[name] for name in sorted(self.following)}
        return {"c": self.cluster, **({"n": following} if following else {}), "t": topics, "v": VERSION}

    def to_json(self) -> str:
        """Return the text that a checkpoint stores."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, found: object, cluster: str) -> Offsets:
        """Parse an offset.

        Args:
            found: the offset that Spark passes back.
            cluster: the id of the connected cluster.

        Raises:
            OffsetError: the offset is not of this source and this cluster.
        """
        if not isinstance(found, dict) or not isinstance(found.get("t"), dict):
            raise OffsetError(f"the checkpoint holds {str(found)[:80]!r}, which is not an offset of pulsar-readonly")
        if found.get("v") != VERSION:
            raise OffsetError(
                f"the checkpoint has offsets of version {found.get('v')!r}; supported is version {VERSION}"
            )
        if found.get("c") != cluster:
            raise OffsetError(
                f"the checkpoint is of cluster {found.get('c')!r}, but metadataStoreUrl leads to cluster {cluster!r}"
            )
        topics, in_batch = {}, {}
        for name, where in found["t"].items():
            try:
                topics[str(name)] = parse_message_id(where)
                in_batch[str(name)] = parse_batch_index(where)
            except PositionError as error:
                raise OffsetError(f"the checkpoint is damaged: {name}: {error}") from None
        following = found.get("n", {})
        if not isinstance(following, dict) or not all(type(ledger) is int for ledger in following.values()):
            raise OffsetError(f"the checkpoint is damaged: {str(following)[:80]} must be ledger ids by topic")
        return cls(cluster, topics, following, {name: index for name, index in in_batch.items() if index})
