"""The marker of a table: the checkpoint that writes it, and the entries of its last micro-batches. Pure.

    _pulsar-readonly/table.json     the marker, in the table's folder
    _pulsar-readonly/batches/N      Spark's offset log of micro-batch N, written before the micro-batch
    _pulsar-readonly/value-type     the type of decoded values

The table's own log names the last committed micro-batch (`_spark_metadata`, Delta's transactions, a property of the Iceberg
table). The record of this micro-batch has the next entry of each topic.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from readonly_spark.export.errors import ExportError

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = "_pulsar-readonly"
MARKER: Final = f"{FOLDER}/table.json"
BATCHES: Final = f"{FOLDER}/batches"
STAGING: Final = f"{FOLDER}/staging"
VALUE_TYPE: Final = f"{FOLDER}/value-type"
VERSION: Final = 1
NO_BATCH: Final = -1
"""The number of the last micro-batch if there is none."""


@dataclass(frozen=True, slots=True)
class TableMarker:
    """The owner of a table. The attributes are the keys of the stored JSON.

    Attributes:
        checkpoint: the id of the checkpoint that writes the table, which is the id of Spark's query.
        place: the path of this checkpoint, for messages.
        cluster: the id of the BookKeeper cluster.
        to: the path of the table.
        export: the settings of the export; see ExportSettings.identity.
        adopted: the last micro-batch that other checkpoints wrote.
        former: the ids of these checkpoints.
        version: the version of this layout.
    """

    checkpoint: str
    place: str
    cluster: str
    to: str
    export: Mapping[str, Any]
    adopted: int = NO_BATCH
    former: tuple[str, ...] = field(default_factory=tuple)
    version: int = VERSION

    def to_json(self) -> bytes:
        """Return the stored form."""
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> TableMarker:
        """Parse a marker.

        Args:
            text: the content of the file.
            where: the name of the file, for the error.

        Raises:
            ExportError: the marker is damaged, or of a later version.
        """
        try:
            found = json.loads(text)
            made = cls(**{**found, "former": tuple(found.get("former", ()))})
            texts = (made.checkpoint, made.place, made.cluster, made.to, *made.former)
            sound = all(isinstance(one, str) for one in texts) and isinstance(made.export, dict)
            sound = sound and isinstance(made.adopted, int) and bool(made.checkpoint)
        except (ValueError, TypeError, AttributeError):
            sound = False
            found = None
        if isinstance(found, dict) and isinstance(found.get("version"), int) and found["version"] > VERSION:
            raise ExportError(f"{where} was written by a later version of pulsar-readonly; use that version")
        if not sound:
            raise ExportError(
                f"{where} is damaged, so the owner of the table is unknown; restore it from a copy, or export to an "
                "empty folder"
            )
        return made


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """The content of the table after a micro-batch. The attributes are the keys of the stored JSON.

    Attributes:
        log: Spark's offset log of the micro-batch, unchanged.
        empty: True if it finished without a commit, because it had no messages and there was no table yet.
    """

    log: str
    empty: bool = False

    def to_json(self) -> bytes:
        """Return the stored form."""
        return (json.dumps(asdict(self)) + "\n").encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> BatchRecord:
        """Parse a record.

        Raises:
            ExportError: the record is damaged.
        """
        try:
            found = json.loads(text)
            made = cls(str(found["log"]), bool(found["empty"]))
        except (ValueError, LookupError, TypeError):
            raise ExportError(f"{where} is damaged, so the content of the table is unknown") from None
        if offsets_in(made.log) is None:
            raise ExportError(f"{where} is damaged, so the content of the table is unknown")
        return made


def offsets_in(log: str) -> dict[str, str] | None:
    """Return the next entry of each topic from Spark's offset log of a micro-batch; None for another content.

    The lines of the log are a version, Spark's metadata, and an offset for each source.
    """
    lines = log.splitlines()
    try:
        found = json.loads(lines[-1])
        return {"": str(found.get("c")), **{str(name): str(where) for name, where in found["t"].items()}}
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
