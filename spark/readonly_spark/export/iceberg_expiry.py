"""Expiry of the snapshots that an export made of its Iceberg table, with the files that only they name.

pyiceberg removes snapshots from the metadata, but no files. Appended data files stay in the table. So an expired append leaves a
list of manifests, and manifests that a later append has merged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

log = logging.getLogger(__name__)

LEAST: Final = 50
"""Expired snapshots that are worth a commit."""

MOST: Final = 200
"""Snapshots that one micro-batch expires: it reads the list of manifests of each."""


def expired(metadata: TableMetadata, before_ms: int) -> list[Snapshot]:
    """Return the snapshots to expire, oldest first: at most MOST, and none if there are fewer than LEAST.

    There are none in a table with another branch, a tag, or a snapshot that is no append, such as that of a compaction. It may be
    the last to name data files, so it is left to the engine that made it.

    Args:
        metadata: the table.
        before_ms: ms since the epoch; snapshots from this time on stay, as does the newest one.
    """
    line = _line(metadata)
    if not line or metadata.refs.keys() - {MAIN_BRANCH} or len(line) < len(metadata.snapshots):
        return []
    until_ms = min(before_ms, line[min(MOST, len(line) - 1)].timestamp_ms)
    old = [one for one in line if one.timestamp_ms < until_ms]
    return old if len(old) >= LEAST and old == line[: len(old)] else []


def _line(metadata: TableMetadata) -> list[Snapshot]:
    """Return the newest snapshot, and its ancestors before it as far as all are appends."""
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    line: list[Snapshot] = []
    current = by_id.get(metadata.current_snapshot_id or -1)
    while current is not None and current.summary is not None and current.summary.operation is Operation.APPEND:
        line.append(current)
        current = by_id.get(current.parent_snapshot_id or -1)
    return line[::-1]


def expire(table: Table, before_ms: int) -> int:
    """Expire old snapshots of a table in one commit, then remove their files; return the number of snapshots.

    A process that is killed in between leaves the files. An error is logged, and the next micro-batch tries again.

    Args:
        table: the table, just loaded.
        before_ms: see `expired`.
    """
    old = expired(table.metadata, before_ms)
    if not old:
        return 0
    # pyiceberg's own expiry requires nothing: a table that was rolled back meanwhile would lose its newest snapshot.
    newest = {"ref": MAIN_BRANCH, "snapshot-id": table.metadata.current_snapshot_id}
    required = (AssertTableUUID(uuid=table.metadata.table_uuid), AssertRefSnapshotId.model_validate(newest))
    removed = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [one.snapshot_id for one in old]})
    try:
        files = _only_of(table, old)
        table._do_commit((removed,), required)  # noqa: SLF001  deletes old metadata too
    except (CommitFailedException, ValueError) as error:  # ValueError: another process has expired one of them
        log.info("%d snapshots are expired later: %s", len(old), error)
        return 0
    except OSError as error:
        log.warning("%d snapshots are expired later: %s", len(old), error)
        return 0
    for file in files:
        try:
            table.io.delete(file)
        except OSError as error:
            log.warning("a file of an expired snapshot stays: %s: %s", file, error)
    return len(old)


def _only_of(table: Table, old: list[Snapshot]) -> list[str]:
    """Return the lists of manifests of expired snapshots, and the manifests that no other snapshot has.

    A manifest that an append has merged is in no later append. So those of the oldest snapshot that stays are enough to know.
    """
    following = _line(table.metadata)[len(old)]
    used = {one.manifest_path for one in following.manifests(table.io)}
    found = {one.manifest_path for each in old for one in each.manifests(table.io)}
    return [*(one.manifest_list for one in old), *sorted(found - used)]
