"""The marker of a table: which checkpoint writes it, and which entries each of its last micro-batches holds. Pure.

    _pulsar-readonly/table.json     the marker, in the table's folder
    _pulsar-readonly/batches/N      Spark's offset log of micro-batch N, written before the micro-batch is
    _pulsar-readonly/value-type     the type of decoded values

A table's own log says which micro-batch was committed last (`_spark_metadata`, the transactions of Delta, a property of the
Iceberg table). The record of this one says where the next entry of each topic is.
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
NONE: Final = -1
"""As the number of a micro-batch: there is none."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Whose a table is.

    Attributes:
        checkpoint: the id of the checkpoint that goes on with it, which is that of Spark's query.
        place: where this checkpoint is; for messages.
        cluster: BookKeeper's id of the cluster.
        to: where the table is.
        export: what the export was asked for; see ExportSettings.identity.
        adopted: micro-batches up to this one were written with other checkpoints.
        former: the ids of these.
        version: of this layout.
    """

    checkpoint: str
    place: str
    cluster: str
    to: str
    export: Mapping[str, Any]
    adopted: int = NONE
    former: tuple[str, ...] = field(default_factory=tuple)
    version: int = VERSION

    def to_json(self) -> bytes:
        """As it is stored."""
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> Marker:
        """Read one.

        Args:
            text: the file.
            where: its name, for the error.

        Raises:
            ExportError: it is damaged, or of another version.
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
                f"{where} is damaged, so it is not known whose this table is; restore it from a copy, or export to an "
                "empty folder"
            )
        return made


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What the table holds once a micro-batch is committed.

    Attributes:
        log: Spark's offset log of the micro-batch, as it is.
        empty: whether it was finished without a commit, because there is no table yet and it had no messages.
    """

    log: str
    empty: bool = False

    def to_json(self) -> bytes:
        """As it is stored."""
        return (json.dumps(asdict(self)) + "\n").encode()

    @classmethod
    def from_json(cls, text: bytes, where: str) -> BatchRecord:
        """Read one.

        Raises:
            ExportError: it is damaged.
        """
        try:
            found = json.loads(text)
            made = cls(str(found["log"]), bool(found["empty"]))
        except (ValueError, LookupError, TypeError):
            raise ExportError(f"{where} is damaged, so it is not known what the table holds") from None
        if offsets(made.log) is None:
            raise ExportError(f"{where} is damaged, so it is not known what the table holds")
        return made


def offsets(log: str) -> dict[str, str] | None:
    """For each topic the next entry, by Spark's offset log of a micro-batch; None where it holds something else.

    Its lines: a version, Spark's own, and an offset for each source.
    """
    lines = log.splitlines()
    try:
        found = json.loads(lines[-1])
        return {"": str(found.get("c")), **{str(name): str(where) for name, where in found["t"].items()}}
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
