"""Whose a table is: the marker, the claim, the locks. Without Spark, on a real file system."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from readonly_spark.export.checkpoint import ADOPTING, Checkpoint, read_state
from readonly_spark.export.errors import ExportError
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.lease import LEASE_S, Lease
from readonly_spark.export.marker import MARKER, BatchRecord, TableMarker
from readonly_spark.export.ownership import (
    CheckpointState,
    ExportIdentity,
    Ownership,
    check_consistency,
    decide_ownership,
    written_in_order,
)
from readonly_spark.export.settings import ExportSettings, below, canonical
from readonly_spark.export.table import ExportTable

OURS = "0f2f0a3e-2b7b-4f5f-9c0e-5b6f1f0d7a11"
THEIRS = "9d1c4b1a-8a0e-4c9e-8f0b-1d2e3f4a5b6c"
WANTED = ExportIdentity("/t", "/t", "/c", "cluster-1", {"topics": "a", "format": "parquet"})
MARKED = TableMarker(OURS, "/c", "cluster-1", "/t", {"topics": "a", "format": "parquet"})
USED = CheckpointState(OURS, 3, 3)
NEW = CheckpointState()
FILE = "part-0.parquet"


def settings(folder: Path, **changed: object) -> ExportSettings:
    source = {"metadataStoreUrl": "zk:h:2181", "topics": "a,b"}
    return ExportSettings(**{"source": source, "to": f"{folder}/t", "checkpoint": f"{folder}/c", **changed})  # type: ignore[arg-type]


# The claim


@pytest.mark.parametrize(
    ("marker", "first", "state", "adopt", "expected"),
    [
        (None, None, NEW, False, Ownership.CREATE),
        (None, None, CheckpointState(OURS, 0, -1), False, Ownership.CREATE),  # planned, and killed before it wrote
        (None, FILE, NEW, False, "holds data that this export did not write (part-0.parquet)"),
        (None, FILE, NEW, True, "has no record of the entries that it holds"),
        (None, None, NEW, True, "holds no table of an export; omit --adopt"),
        (None, None, USED, False, "has exported 4 micro-batches to /t, which is empty: was it moved or removed?"),
        (None, FILE, USED, False, Ownership.VERIFY),
        (None, FILE, CheckpointState(None, 3, 3), False, "is damaged: it has no file `metadata`"),
        (MARKED, FILE, USED, False, Ownership.RESUME),
        (MARKED, FILE, USED, True, Ownership.RESUME),
        (MARKED, None, CheckpointState(OURS), False, Ownership.RESUME),  # killed between marker and first batch
        (MARKED, None, NEW, False, Ownership.CREATE),  # the same, and the checkpoint is gone: there is nothing to lose
        (MARKED, FILE, NEW, False, "was written with another checkpoint (/c)"),
        (MARKED, FILE, CheckpointState(THEIRS, 3, 3), False, "was written with another checkpoint (/c)"),
        (MARKED, FILE, NEW, True, Ownership.ADOPT),
        (MARKED, FILE, CheckpointState(THEIRS, 3, 3), True, "holds the state of another export"),
        (MARKED, FILE, CheckpointState(THEIRS, 3, 3, OURS), True, Ownership.ADOPT),  # killed while it took over
        (MARKED, FILE, CheckpointState(THEIRS, 3, 3, THEIRS), True, "holds the state of another export"),
        (replace(MARKED, cluster="cluster-2"), FILE, USED, False, "holds topics of cluster 'cluster-2'"),
        (replace(MARKED, cluster="cluster-2"), FILE, NEW, True, "holds topics of cluster 'cluster-2'"),
        (replace(MARKED, to="/elsewhere"), FILE, USED, False, "moved or copied from /elsewhere"),
        (replace(MARKED, export={"topics": "b"}), FILE, NEW, True, "an export with another format"),
    ],
)
def test_an_export_comes_to_its_table_in_one_way_or_not_at_all(marker, first, state, adopt, expected) -> None:
    if isinstance(expected, Ownership):
        assert decide_ownership(marker, first, state, WANTED, adopt=adopt) is expected
        return
    with pytest.raises(ExportError) as caught:
        decide_ownership(marker, first, state, WANTED, adopt=adopt)
    assert expected in str(caught.value)


def log(end: str) -> str:
    return 'v1\n{"batchTimestampMs":' + end.partition(":")[2] + "}\n" + json.dumps({"c": "x", "t": {"a": end}, "v": 1})


@pytest.mark.parametrize(
    ("held", "planned", "finished", "record", "told"),
    [
        (-1, -1, -1, None, None),
        (-1, 0, -1, None, None),
        (3, 3, 3, "1:9", None),
        (3, 4, 3, "1:9", None),  # killed before the next one was committed
        (3, 3, 2, "1:9", None),  # killed between the commit and Spark's note of it
        (3, 3, 3, "1:8", "have other entries in micro-batch 3"),
        (3, 3, 3, None, "does not record which entries its micro-batch 3 holds"),
        (3, 2, 2, "1:9", "ends with micro-batch 2, and /t holds 3: is it an older copy?"),
        (3, 1, 1, "1:9", "ends with micro-batch 1, and /t holds 3"),
        (2, 3, 3, "1:9", "has exported micro-batch 3, and /t holds no more than 2"),
        (-1, 3, 3, None, "holds no more than -1"),
    ],
)
def test_a_checkpoint_and_its_table_agree_or_nothing_is_exported(held, planned, finished, record, told) -> None:
    state = CheckpointState(OURS, planned, finished)
    found = None if record is None else BatchRecord(log(record))
    if told is None:
        check_consistency(held, found, -1, state, log("1:9") + "\n", WANTED)
        return
    with pytest.raises(ExportError) as caught:
        check_consistency(held, found, -1, state, log("1:9"), WANTED)
    assert told in str(caught.value)


def test_the_times_of_files_show_whether_a_checkpoint_wrote_a_table() -> None:
    own = {0: (100, 110, 120), 1: (130, 140, None)}
    assert written_in_order([0, 1], own, 1)
    assert written_in_order([0, 1, 2], {**own, 0: (None, 110, None), 2: (150, 150, 150)}, 2), "Spark forgets old ones"
    skipped = {0: (200, 110, 220), 1: (230, 240, 250)}
    assert not written_in_order([0, 1], skipped, 1), "the log had micro-batch 0 before this checkpoint planned it"
    assert not written_in_order([0], {0: (100, 130, 120)}, 0), "finished before it was written"
    assert not written_in_order([0], {0: (None, 110, 120)}, 0), "not known"


# TableMarker and records


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "is damaged"),
        (MARKED.to_json()[:-20], "is damaged"),
        (b"[]", "is damaged"),
        (b'{"checkpoint": 1}', "is damaged"),
        (replace(MARKED, checkpoint="").to_json(), "is damaged"),
        (replace(MARKED, version=2).to_json(), "was written by a later version"),
    ],
)
def test_a_marker_that_cannot_be_read_is_refused(tmp_path, text, told) -> None:
    assert TableMarker.from_json(MARKED.to_json(), "") == MARKED
    (tmp_path / "t" / "_pulsar-readonly").mkdir(parents=True)
    (tmp_path / "t" / MARKER).write_bytes(text)
    with ExportTable(settings(tmp_path), "x") as table, pytest.raises(ExportError, match=f"table.json {told}"):
        table.lock()


def test_a_record_is_what_spark_planned() -> None:
    record = BatchRecord(log("1:9"), empty=True)
    assert BatchRecord.from_json(record.to_json(), "") == record
    for damaged in (b"", b"{}", json.dumps({"log": "v1\n", "empty": False}).encode()):
        with pytest.raises(ExportError, match="the content of the table is unknown"):
            BatchRecord.from_json(damaged, "f")


def test_files_are_written_whole_or_not_at_all(tmp_path) -> None:
    files = LocalFiles("t", str(tmp_path / "t"))
    assert files.first(lambda _: False) is None
    assert files.create("a/b", b"1")
    assert not files.create("a/b", b"2")
    files.write("a/c", b"3")
    files.write("a/c", b"4")
    assert (files.read("a/b"), files.read("a/c"), files.read("a/d"), files.names("a")) == (b"1", b"4", None, ["b", "c"])
    files.remove("a/b")
    files.remove("a/b")
    assert files.first(lambda name: name == "x") == "a/c"
    assert files.first(lambda name: name == "a") is None


# Places


def test_one_place_has_one_spelling(tmp_path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    same = {str(tmp_path / "t"), f"{tmp_path}/t/", f"{tmp_path}/./t", f"{tmp_path}/link", f"file://{tmp_path}/t"}
    assert len({canonical(one) for one in same}) == 1
    same = {"s3a://lake/t", "s3://lake/t/", "S3N://lake//t", "s3a://key:secret@lake/t"}
    assert {canonical(one) for one in same} == {"s3a://lake/t"}
    assert canonical("abfss://a@x/t") != canonical("abfss://b@x/t")
    assert below("s3a://lake/t/_checkpoint/", "s3://lake/t") == "_checkpoint"
    assert below("/tables/t2", "/tables/t") is None


# Locks of a file system


def take(folder: Path, **changed: object) -> ExportTable:
    table = ExportTable(settings(folder, **changed), "cluster-1")
    table.lock()
    return table


def test_nothing_is_made_in_a_folder_of_somebody_else(tmp_path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / FILE).write_bytes(b"x")
    for checkpoint in (f"{tmp_path}/t/_checkpoint", f"{tmp_path}/c"):
        with pytest.raises(ExportError, match=r"did not write \(part-0.parquet\)"):
            take(tmp_path, checkpoint=checkpoint)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["t", f"t/{FILE}"]


def test_what_file_systems_keep_for_themselves_is_no_data(tmp_path) -> None:
    (tmp_path / "t" / "lost+found").mkdir(parents=True)
    (tmp_path / "t" / ".DS_Store").write_bytes(b"x")
    take(tmp_path).close()


@pytest.mark.parametrize("log_name", ["_delta_log", "_spark_metadata", "_pulsar-readonly/table.json"])
def test_a_table_is_not_made_inside_of_another_one(tmp_path, log_name) -> None:
    (tmp_path / log_name).mkdir(parents=True)
    with pytest.raises(ExportError, match=f"is inside of the table {tmp_path}"):
        take(tmp_path)


HOLDER = """
import sys
from readonly_spark.export.settings import ExportSettings
from readonly_spark.export.table import ExportTable
source = {"metadataStoreUrl": "zk:h:2181", "topics": "a,b"}
with ExportTable(ExportSettings(source=source, to=sys.argv[1], checkpoint=sys.argv[2]), "cluster-1") as table:
    table.lock()
    print("held", flush=True)
    sys.stdin.read()
"""


def test_exports_with_two_checkpoints_exclude_each_other_by_their_table_however_it_is_spelt(tmp_path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    words = [sys.executable, "-c", HOLDER, str(tmp_path / "t"), str(tmp_path / "c1")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            for to in (f"{tmp_path}/t", f"{tmp_path}/t/", f"{tmp_path}/link", f"file://{tmp_path}/t"):
                with pytest.raises(
                    ExportError, match=rf"--to .* is in use by another export \(process {holder.pid} on "
                ):
                    take(tmp_path, to=to)
        finally:
            holder.kill()
    take(tmp_path).close()


# A checkpoint that takes over


def test_a_checkpoint_that_takes_over_is_what_it_would_be_had_it_exported_the_table(tmp_path) -> None:
    with Checkpoint(settings(tmp_path)) as checkpoint:
        name = checkpoint.adopt(THEIRS, 4, log("1:9"))
        state = checkpoint.state()
        assert (state.id, state.planned, state.finished, state.adopting) == (name, 4, 4, THEIRS)
        assert (checkpoint.log(3), checkpoint.log(4)) == (log("1:9"), log("1:9")), "Spark reads the last two"
        assert checkpoint.next_entries() == {"a": "1:9"}
        assert checkpoint.adopt(THEIRS, 5, log("1:12")) == name, "again, after it was killed"
        checkpoint.finish_adoption()
        assert checkpoint.state().adopting is None
    files = LocalFiles("c", f"{tmp_path}/c")
    assert files.read(ADOPTING) is None
    files.write("metadata", b"{")
    with pytest.raises(ExportError, match="metadata is damaged"):
        read_state(files)


# Leases, where there are no locks


class Clock:
    """Time that passes while somebody waits, and what happens meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile = lambda: None

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.meanwhile()
        return False


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lease(folder: Path, clock: Clock) -> Lease:
    return Lease(LocalFiles("s3a://lake/t", str(folder)), clock.wait, clock)


def test_a_lease_is_refused_while_its_holder_renews_it(tmp_path, clock) -> None:
    first = lease(tmp_path, clock)
    clock.meanwhile = first.renew
    with pytest.raises(ExportError, match=rf"s3a://lake/t is in use by another export \(process {os.getpid()} on "):
        lease(tmp_path, clock)
    assert clock.now < LEASE_S
    first.check()


def test_a_lease_that_was_given_back_is_free_at_once(tmp_path, clock) -> None:
    for _ in range(3):
        lease(tmp_path, clock).close()
    assert clock.now == 0
    assert [path.name for path in (tmp_path / "_pulsar-readonly" / "lease").iterdir()] == ["3"]


def test_a_lease_of_a_dead_holder_is_taken_over_and_the_holder_knows_it_when_it_was_not_dead(tmp_path, clock) -> None:
    first = lease(tmp_path, clock)
    second = lease(tmp_path, clock)
    assert clock.now >= LEASE_S
    with pytest.raises(ExportError, match="another export may have taken over"):
        first.check()
    first.renew()
    first.close()  # neither takes it back nor frees it
    second.check()
    assert [path.name for path in (tmp_path / "_pulsar-readonly" / "lease").iterdir()] == ["2"]


def test_of_two_that_wait_for_a_dead_holder_one_gets_its_lease(tmp_path, clock) -> None:
    lease(tmp_path, clock)
    taken: list[Lease] = []

    def race() -> None:
        if clock.now >= LEASE_S - 1 and not taken:
            clock.meanwhile = lambda: None
            taken.append(lease(tmp_path, Clock()))

    clock.meanwhile = race
    with pytest.raises(ExportError, match="in use by another export"):
        lease(tmp_path, clock)
    taken[0].check()


def test_a_lease_that_is_being_written_is_not_free(tmp_path, clock) -> None:
    (tmp_path / "_pulsar-readonly" / "lease").mkdir(parents=True)
    (tmp_path / "_pulsar-readonly" / "lease" / "7").write_bytes(b"")
    lease(tmp_path, clock)
    assert clock.now >= LEASE_S


def test_a_holder_that_could_not_renew_for_long_commits_nothing(tmp_path, clock) -> None:
    held = lease(tmp_path, clock)
    clock.now += LEASE_S
    held.check()  # it renews now

    def broken(name: str, content: bytes) -> None:
        raise ExportError(f"{name}: no answer")

    held._files.write = broken
    clock.now += LEASE_S
    with pytest.raises(ExportError, match="no answer"):
        held.check()
