"""Expiry of snapshots: rows and the newest snapshot stay, and no file stays that nothing names. With a catalog in SQLite."""

import logging
import time
from pathlib import Path

import pytest
from pyiceberg.table import Table
from readonly_spark.export import iceberg_expiry
from readonly_spark.export.iceberg_expiry import expire, expired

from tests.unit.spark.export.test_iceberg import Tables

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

LEAST, MOST = 3, 5
FUTURE_MS = 1 << 60


@pytest.fixture
def tables(tmp_path, monkeypatch) -> Tables:
    """A table that merges manifests as soon as it has three, and keeps two files metadata.json beside the newest."""
    monkeypatch.setattr(iceberg_expiry, "LEAST", LEAST)
    monkeypatch.setattr(iceberg_expiry, "MOST", MOST)
    made = Tables(tmp_path)
    made.commit(0)
    with loaded(made).transaction() as transaction:
        transaction.set_properties(
            {"commit.manifest.min-count-to-merge": "3", "write.metadata.previous-versions-max": "2"}
        )
    return made


def loaded(tables: Tables) -> Table:
    table = tables.export()._table()
    assert table is not None
    return table


def expire_all(tables: Tables) -> int:
    return expire(loaded(tables), FUTURE_MS)


def unnamed(tables: Tables) -> set[str]:
    """The files of manifests, and of their lists, that no snapshot names. pyiceberg leaves a manifest that it merges at once."""
    table = loaded(tables)
    named = {one.manifest_list for one in table.snapshots()}
    named |= {each.manifest_path for one in table.snapshots() for each in one.manifests(table.io)}
    return {path.name for path in (tables.folder / "metadata").glob("*.avro")} - {Path(name).name for name in named}


@pytest.mark.parametrize(
    ("commits", "left"),
    [(LEAST, LEAST), (LEAST + 1, 1), (MOST + 1, 1), (MOST + 2, 2)],
    ids=["too few", "the least", "the most", "more"],
)
def test_old_snapshots_are_expired_with_their_files(tables, commits, left) -> None:
    for number in range(1, commits):
        tables.commit(number)
    before = unnamed(tables)
    assert expire_all(tables) == commits - left
    assert len(loaded(tables).snapshots()) == left
    assert unnamed(tables) == before
    assert len(list((tables.folder / "metadata").glob("*.metadata.json"))) == 3
    assert tables.rows() == list(range(commits))
    tables.commit(commits)
    assert tables.rows() == list(range(commits + 1))


def test_snapshots_stay_for_their_time(tables) -> None:
    for number in range(1, 5):
        tables.commit(number)
    times = [one.timestamp_ms for one in loaded(tables).snapshots()]
    for before_ms in (times[0], times[3]):
        chosen = [one.timestamp_ms for one in expired(loaded(tables).metadata, before_ms)]
        assert chosen == ([one for one in times if one < before_ms] if before_ms > times[2] else [])


def test_an_export_expires_after_its_commit(tables, monkeypatch) -> None:
    for number in range(1, 6):
        tables.commit(number)
    export = tables.export()
    export._expire()
    assert len(loaded(tables).snapshots()) == 6, "it has no such option"
    object.__setattr__(export._settings, "expire_snapshots_h", 1.0)
    export._expire()
    assert len(loaded(tables).snapshots()) == 6, "none is an hour old"
    now = time.time() + 3601
    monkeypatch.setattr(time, "time", lambda: now)
    export._expire()
    assert len(loaded(tables).snapshots()) == 1


@pytest.mark.parametrize("made", ["a compaction", "a tag"])
def test_what_others_have_made_stays(tables, made) -> None:
    """Snapshots before a compaction are the last to name its files, and a tag names its own."""
    for number in range(1, 3):
        tables.commit(number)
    if made == "a compaction":
        tables.maintain()
    else:
        table = loaded(tables)
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "kept").commit()
    for number in range(3, 7):
        tables.commit(number)
    table = loaded(tables)
    assert expire(table, FUTURE_MS) == 0
    rows = [table.scan(snapshot_id=one.snapshot_id).to_arrow().num_rows for one in loaded(tables).snapshots()]
    assert rows == ([1, 2, 3, 0] if made == "a compaction" else [1, 2]) + list(range(3, 8))
    assert tables.rows() == list(range(7))


@pytest.mark.parametrize("other", ["commits", "expires"])
def test_another_commit_has_precedence(tables, other) -> None:
    for number in range(1, 5):
        tables.commit(number)
    table = loaded(tables)
    if other == "commits":
        tables.commit(5)
    else:
        assert expire_all(tables) == 4
    before = unnamed(tables)
    assert expire(table, FUTURE_MS) == 0
    assert unnamed(tables) == before
    assert len(loaded(tables).snapshots()) == (6 if other == "commits" else 1)


def test_files_that_cannot_be_read_or_removed_are_no_error_of_the_export(tables, monkeypatch, caplog) -> None:
    for number in range(1, 5):
        tables.commit(number)
    table = loaded(tables)
    first = Path(table.snapshots()[0].manifest_list.removeprefix("file://"))
    content = first.read_bytes()
    first.unlink()
    with caplog.at_level(logging.WARNING):
        assert expire(table, FUTURE_MS) == 0
    assert "4 snapshots are expired later" in caplog.text
    assert len(loaded(tables).snapshots()) == 5
    first.write_bytes(content)
    table = loaded(tables)

    def refuse(location: str) -> None:
        raise PermissionError(location)

    monkeypatch.setattr(table.io, "delete", refuse)
    with caplog.at_level(logging.WARNING):
        assert expire(table, FUTURE_MS) == 4
    assert f"a file of an expired snapshot stays: {first.as_uri()}" in caplog.text
