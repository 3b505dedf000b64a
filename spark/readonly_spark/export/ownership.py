"""Decide whether an export may write a table, from the table's marker, its content and the checkpoint. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from readonly_spark.export.errors import ExportError
from readonly_spark.export.marker import NO_BATCH, offsets_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_spark.export.marker import BatchRecord, TableMarker


class Ownership(Enum):
    """How an export gets its table."""

    CREATE = "the table is empty: write a marker"
    RESUME = "the marker names this checkpoint"
    ADOPT = "the marker names another checkpoint, which this one replaces"
    VERIFY = "there is no marker: the table's own log must show that this checkpoint wrote it"


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The state of a checkpoint.

    Attributes:
        id: the id of Spark's query; None before its first start.
        planned: the last planned micro-batch.
        finished: the last finished micro-batch.
        adopting: the id in the table's marker while an adoption is incomplete; else None.
    """

    id: str | None = None
    planned: int = NO_BATCH
    finished: int = NO_BATCH
    adopting: str | None = None

    @property
    def fresh(self) -> bool:
        """Whether nothing was exported with this checkpoint."""
        return self.planned == NO_BATCH and self.finished == NO_BATCH


@dataclass(frozen=True, slots=True)
class ExportIdentity:
    """The identity of an export.

    Attributes:
        to: the table in the form of the marker.
        shown: the table in the user's form, for messages.
        checkpoint: the checkpoint in the user's form, for messages.
        cluster: the id of the BookKeeper cluster.
        export: ExportSettings.identity without the table's path.
    """

    to: str
    shown: str
    checkpoint: str
    cluster: str
    export: Mapping[str, Any]


def decide_ownership(
    marker: TableMarker | None, first: str | None, state: CheckpointState, identity: ExportIdentity, *, adopt: bool
) -> Ownership:
    """Decide how an export gets its table.

    Args:
        marker: the table's marker; None for none.
        first: a data file in the table's folder; None if there is none.
        state: the state of the checkpoint.
        identity: the export.
        adopt: whether the export may adopt a table of another checkpoint.

    Raises:
        ExportError: the export may not write this table.
    """
    table = f"--to {identity.shown}"
    if state.id is None and not state.fresh:
        raise ExportError(f"--checkpoint {identity.checkpoint} is damaged: it has no file `metadata`")
    if marker is None:
        if first is None and adopt:
            raise ExportError(f"--adopt: {identity.shown} holds no table of an export; omit --adopt to create one")
        if first is None:
            _not_removed(state, identity)
            return Ownership.CREATE
        if state.fresh and adopt:
            raise ExportError(
                f"--adopt: {identity.shown} has no record of the entries that it holds ({first} is in it), so an export cannot "
                "resume there; export to an empty folder with a new checkpoint"
            )
        if state.fresh:
            raise ExportError(
                f"{table} holds data that this export did not write ({first}); use another folder, "
                "or the checkpoint that it was written with"
            )
        return Ownership.VERIFY
    if marker.checkpoint == state.id:
        _same(marker, identity, f"{table}:")
        return Ownership.RESUME
    if first is None:
        _not_removed(state, identity)
        return Ownership.CREATE
    if not adopt:
        raise ExportError(
            f"{table} was written with another checkpoint ({marker.place}); use that one, or --adopt and a new "
            "checkpoint to resume from the table"
        )
    if not state.fresh and state.adopting != marker.checkpoint:
        raise ExportError(
            f"--adopt: --checkpoint {identity.checkpoint} holds the state of another export; use a new one, or remove it"
        )
    _same(marker, identity, f"--adopt: {identity.shown}:")
    return Ownership.ADOPT


def _not_removed(state: CheckpointState, identity: ExportIdentity) -> None:
    if state.finished > NO_BATCH:
        raise ExportError(
            f"--checkpoint {identity.checkpoint} has exported {state.finished + 1} micro-batches to {identity.shown}, which is "
            "empty: was it moved or removed? Put it back, or export all again with a new checkpoint"
        )


def _same(marker: TableMarker, identity: ExportIdentity, subject: str) -> None:
    if marker.cluster != identity.cluster:
        raise ExportError(
            f"{subject} the table holds topics of cluster {marker.cluster!r}, and --metadata-store-url leads to "
            f"{identity.cluster!r}"
        )
    if marker.to != identity.to:
        raise ExportError(
            f"{subject} the table was moved or copied from {marker.to}; its log names files there. Move it back, or export to an "
            "empty folder with a new checkpoint"
        )
    for name in sorted({*marker.export, *identity.export}):
        if marker.export.get(name) != identity.export.get(name):
            raise ExportError(
                f"{subject} the table belongs to an export with another {name}: {marker.export.get(name)!r}, not "
                f"{identity.export.get(name)!r}; use a new table and a new checkpoint for a changed export"
            )


def check_consistency(
    held: int,
    record: BatchRecord | None,
    adopted: int,
    state: CheckpointState,
    log: str | None,
    identity: ExportIdentity,
) -> None:
    """Check that a checkpoint and its table agree about the exported entries.

    Args:
        held: the last micro-batch in the table.
        record: the table's record of this micro-batch.
        adopted: see TableMarker.
        state: the state of the checkpoint.
        log: the checkpoint's offset log of micro-batch `held`.
        identity: the export.

    Raises:
        ExportError: the checkpoint is older or newer than the table, or has other entries.
    """
    remedy = "use --adopt and a new checkpoint to resume from the table"
    if held > state.finished + 1 or held > state.planned:
        raise ExportError(
            f"--checkpoint {identity.checkpoint} ends with micro-batch {state.finished}, and {identity.shown} holds {held}: is "
            f"it an older copy? {remedy}"
        )
    if held < state.finished:
        raise ExportError(
            f"--checkpoint {identity.checkpoint} has exported micro-batch {state.finished}, and {identity.shown} holds no more "
            f"than {held}: was the table restored from a copy? {remedy}"
        )
    if held <= NO_BATCH:
        return
    if record is None:
        raise ExportError(
            f"{identity.shown} does not record which entries its micro-batch {held} holds; export to an empty folder with a "
            "new checkpoint"
        )
    if log is None or offsets_in(log) != offsets_in(record.log):
        raise ExportError(
            f"--checkpoint {identity.checkpoint} and {identity.shown} have other entries in micro-batch {held} "
            f"(adopted: {adopted}); {remedy}"
        )


def written_in_order(
    numbers: list[int], times: Mapping[int, tuple[int | None, int | None, int | None]], held: int
) -> bool:
    """Return whether file times show that a checkpoint wrote the micro-batches of a table.

    A sink skips a micro-batch whose number another checkpoint has written, and leaves the file in the log unchanged.

    Args:
        numbers: the micro-batches in the table's log.
        times: for each number the times in ms at which the checkpoint planned it, the log recorded it and the checkpoint
            finished it; None for an unknown time.
        held: the last micro-batch in the log.
    """
    planned, logged, _ = times.get(held, (None, None, None))
    if planned is None or logged is None:
        return False
    for number in numbers:
        planned, logged, finished = times.get(number, (None, None, None))
        if planned is not None and logged is not None and planned > logged:
            return False
        if finished is not None and logged is not None and logged > finished:
            return False
    return True
