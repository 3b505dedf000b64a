"""Whether an export may write a table: decided by the table's marker, its content and the checkpoint. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from readonly_spark.export.errors import ExportError
from readonly_spark.export.marker import NONE, offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_spark.export.marker import BatchRecord, Marker


class Claim(Enum):
    """How an export comes to its table."""

    BEGIN = "the table is empty: mark it"
    GO_ON = "the marker names this checkpoint"
    ADOPT = "the marker names another checkpoint, and this one is to take over"
    PROVE = "there is no marker: an earlier version wrote the table, if the table's own log says so"


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """What a checkpoint says.

    Attributes:
        id: of Spark's query; None where there is none yet.
        planned: the last micro-batch that was planned.
        finished: the last one that was finished.
        adopting: the id that the table's marker had when this checkpoint began to take over and did not end; else None.
    """

    id: str | None = None
    planned: int = NONE
    finished: int = NONE
    adopting: str | None = None

    @property
    def fresh(self) -> bool:
        """Whether nothing was exported with it."""
        return self.planned == NONE and self.finished == NONE


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an export is.

    Attributes:
        to: the table, as in the marker.
        shown: the same for messages.
        checkpoint: its checkpoint, for messages.
        cluster: BookKeeper's id of its cluster.
        export: see ExportSettings.identity, without its place.
    """

    to: str
    shown: str
    checkpoint: str
    cluster: str
    export: Mapping[str, Any]


def decide(marker: Marker | None, first: str | None, state: CheckpointState, wanted: Wanted, *, adopt: bool) -> Claim:
    """How an export comes to its table.

    Args:
        marker: of the table; None for none.
        first: a file in the table's folder that no export's machinery has there; None where it is empty.
        state: of the checkpoint.
        wanted: the export.
        adopt: whether a table of another checkpoint may be taken over.

    Raises:
        ExportError: it may not write this table.
    """
    table = f"--to {wanted.shown}"
    if state.id is None and not state.fresh:
        raise ExportError(f"--checkpoint {wanted.checkpoint} is damaged: it has no file `metadata`")
    if marker is None:
        if first is None and adopt:
            raise ExportError(f"--adopt: {wanted.shown} holds no table of an export; leave --adopt away to begin one")
        if first is None:
            _not_removed(state, wanted)
            return Claim.BEGIN
        if state.fresh and adopt:
            raise ExportError(
                f"--adopt: {wanted.shown} has no record of the entries that it holds ({first} is in it), so an export cannot go "
                "on from there; export to an empty folder with a new checkpoint"
            )
        if state.fresh:
            raise ExportError(
                f"{table} holds data that this export did not write ({first}); give a folder of its own, "
                "or the checkpoint that it was written with"
            )
        return Claim.PROVE
    if marker.checkpoint == state.id:
        _same(marker, wanted, f"{table}:")
        return Claim.GO_ON
    if first is None:
        _not_removed(state, wanted)
        return Claim.BEGIN
    if not adopt:
        raise ExportError(
            f"{table} was written with another checkpoint ({marker.place}); use that one, or give --adopt and a new "
            "checkpoint to go on from what the table holds"
        )
    if not state.fresh and state.adopting != marker.checkpoint:
        raise ExportError(
            f"--adopt: --checkpoint {wanted.checkpoint} holds the state of another export; give a new one, or remove it"
        )
    _same(marker, wanted, f"--adopt: {wanted.shown}:")
    return Claim.ADOPT


def _not_removed(state: CheckpointState, wanted: Wanted) -> None:
    if state.finished > NONE:
        raise ExportError(
            f"--checkpoint {wanted.checkpoint} has exported {state.finished + 1} micro-batches to {wanted.shown}, which is "
            "empty: was it moved or removed? Put it back, or export all again with a new checkpoint"
        )


def _same(marker: Marker, wanted: Wanted, told: str) -> None:
    if marker.cluster != wanted.cluster:
        raise ExportError(
            f"{told} the table holds topics of cluster {marker.cluster!r}, and --metadata-store leads to {wanted.cluster!r}"
        )
    if marker.to != wanted.to:
        raise ExportError(
            f"{told} the table was moved or copied from {marker.to}; its log names files there. Move it back, or export to an "
            "empty folder with a new checkpoint"
        )
    for name in sorted({*marker.export, *wanted.export}):
        if marker.export.get(name) != wanted.export.get(name):
            raise ExportError(
                f"{told} the table belongs to an export with another {name}: {marker.export.get(name)!r}, not "
                f"{wanted.export.get(name)!r}; a changed export wants a new table and a new checkpoint"
            )


def check_held(
    held: int, record: BatchRecord | None, adopted: int, state: CheckpointState, log: str | None, wanted: Wanted
) -> None:
    """See that a checkpoint and its table agree about what was exported.

    Args:
        held: the last micro-batch that the table holds.
        record: of this one.
        adopted: see Marker.
        state: of the checkpoint.
        log: the checkpoint's offset log of micro-batch `held`.
        wanted: the export.

    Raises:
        ExportError: the checkpoint is older or newer than the table, or of other entries.
    """
    remedy = "give --adopt and a new checkpoint to go on from what the table holds"
    if held > state.finished + 1 or held > state.planned:
        raise ExportError(
            f"--checkpoint {wanted.checkpoint} ends with micro-batch {state.finished}, and {wanted.shown} holds {held}: is it an "
            f"older copy? {remedy}"
        )
    if held < state.finished:
        raise ExportError(
            f"--checkpoint {wanted.checkpoint} has exported micro-batch {state.finished}, and {wanted.shown} holds no more than "
            f"{held}: was the table restored from a copy? {remedy}"
        )
    if held <= NONE:
        return
    if record is None:
        raise ExportError(
            f"{wanted.shown} does not record which entries its micro-batch {held} holds; export to an empty folder with a "
            "new checkpoint"
        )
    if log is None or offsets(log) != offsets(record.log):
        raise ExportError(
            f"--checkpoint {wanted.checkpoint} and {wanted.shown} have other entries in micro-batch {held} "
            f"(adopted: {adopted}); {remedy}"
        )


def written_in_turn(
    numbers: list[int], times: Mapping[int, tuple[int | None, int | None, int | None]], held: int
) -> bool:
    """Whether micro-batches of a table were written while a checkpoint ran them, as far as the times of files say.

    A sink that skips a micro-batch, because another checkpoint has written one of this number, leaves the log's file as it was.

    Args:
        numbers: micro-batches in the table's log.
        times: of each number when the checkpoint planned it, when the log got it and when the checkpoint finished it, in ms; None
            for what is not known any more.
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
