"""`make -C lab iceberg-growth`: the metadata of an Iceberg table after thousands of micro-batches.

The export's own code commits a file of one row at a time, to a catalog in SQLite, without Spark: first to a table whose snapshots
stay, then to one with `--expire-snapshots`. pyiceberg copies all snapshots 18 times in a commit. Only the commits whose time is
shown do so here, as thousands would take hours.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import deque
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from readonly_spark.export.iceberg import IcebergTable
from readonly_spark.export.settings import ExportSettings

from bench.paths import ROOT
from bench.spark.common import inserted, machine
from devstack.console import say
from devstack.program import run_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table

SHOWN: Final = (100, 500, 1_000, 2_000, 3_000, 5_000, 10_000)
TIMED: Final = 3
"""Commits whose median CPU time is shown."""

EXPIRE_H: Final = 0.01
"""Hours after which snapshots expire."""

PAGE: Final = ROOT / "docs" / "how-to" / "spark-export.md"
NAME: Final = "iceberg"


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table at one moment; sizes in bytes.

    Attributes:
        expires: whether snapshots expire.
        commits: number of commits so far.
        snapshots: number of those that did not expire.
        metadata: size of the newest metadata.json.
        manifests: manifests in the newest snapshot's list.
        listing: size of this list.
        metadata_files: metadata.json files that exist.
        metadata_bytes: their size.
        written: metadata.json files that were written so far, which all exist without `delete-after-commit`.
        written_bytes: their size.
        others: files of manifests and of lists of manifests that exist.
        others_bytes: their size.
        cpu_s: median CPU time of the last commits, in seconds.
    """

    expires: bool
    commits: int
    snapshots: int
    metadata: int
    manifests: int
    listing: int
    metadata_files: int
    metadata_bytes: int
    written: int
    written_bytes: int
    others: int
    others_bytes: int
    cpu_s: float


@contextmanager
def shared() -> Iterator[None]:
    """Let copies of a table's metadata share its snapshots, which are never changed."""
    kinds = (Snapshot, SnapshotLogEntry)
    for kind in kinds:
        kind.__deepcopy__ = lambda self, _=None: self  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        for kind in kinds:
            del kind.__deepcopy__


class Growing:
    """A table that an export commits to.

    Args:
        folder: an empty folder for the table.
        expire_h: hours after which snapshots expire; None for no expiry.
    """

    def __init__(self, folder: Path, expire_h: float | None) -> None:
        self._folder = folder
        self._expires = expire_h is not None
        settings = ExportSettings(
            source={"metadataStoreUrl": "zk:h:2181", "topics": "a"}, to=str(folder), checkpoint=f"{folder}/_checkpoint",
            table_format="iceberg", columns=("entryId",), expire_snapshots_h=expire_h,
        )  # fmt: skip
        self._table = IcebergTable(settings, lambda: None)
        self._times: deque[float] = deque(maxlen=TIMED)
        self._written: dict[str, int] = {}
        self._commits = 0

    def commit(self, *, timed: bool) -> None:
        """Commit the next micro-batch; pyiceberg copies its snapshots only if the commit is timed."""
        with nullcontext() if timed else shared():
            self._commit()

    def _commit(self) -> None:
        file = self._folder / f"{self._commits}.parquet"
        pq.write_table(pa.table({"entryId": pa.array([self._commits], pa.int64())}), file)
        began = time.process_time()
        self._table._commit("checkpoint", self._commits, [file.as_uri()])
        self._table._expire()
        self._times.append(time.process_time() - began)
        self._commits += 1
        self._written |= {path.name: path.stat().st_size for path in self._newest()}

    def _loaded(self) -> Table:
        return self._table._catalog.load_table("pulsar.messages")

    def _newest(self) -> list[Path]:
        """Return the files metadata.json that this micro-batch has added."""
        found = (self._folder / "metadata").glob("*.metadata.json")
        return [path for path in found if path.name not in self._written]

    def row(self) -> TableSize:
        """Look at the table."""
        table = self._loaded()
        snapshot = table.current_snapshot()
        assert snapshot is not None
        files = {path: path.stat().st_size for path in (self._folder / "metadata").iterdir()}
        metadata = [size for path, size in files.items() if path.suffix == ".json"]
        return TableSize(
            expires=self._expires,
            commits=self._commits,
            snapshots=len(table.snapshots()),
            metadata=files[_path(table.metadata_location)],
            manifests=len(snapshot.manifests(table.io)),
            listing=files[_path(snapshot.manifest_list)],
            metadata_files=len(metadata),
            metadata_bytes=sum(metadata),
            written=len(self._written),
            written_bytes=sum(self._written.values()),
            others=len(files) - len(metadata),
            others_bytes=sum(files.values()) - sum(metadata),
            cpu_s=statistics.median(self._times),
        )


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def report(rows: Sequence[TableSize]) -> str:
    """Return the rows as a table in Markdown."""
    names = (
        "`--expire-snapshots`", "commits", "snapshots", "`metadata.json`", "all of these files", "if none is deleted",
        "manifests", "their list", "files of both", "CPU of a commit",
    )  # fmt: skip
    lines = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    for row in rows:
        cells = (
            "yes" if row.expires else "no",
            f"{row.commits:,}",
            f"{row.snapshots:,}",
            _size(row.metadata),
            f"{row.metadata_files:,}, {_size(row.metadata_bytes)}",
            f"{row.written:,}, {_size(row.written_bytes)}",
            f"{row.manifests:,}",
            _size(row.listing),
            f"{row.others:,}, {_size(row.others_bytes)}",
            f"{row.cpu_s * 1e3:,.0f} ms",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _size(value: int) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if value >= unit:
            return f"{value / unit:,.1f} {name}"
    return f"{value / 1e3:,.0f} KB"


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="make -C lab iceberg-growth", description=__doc__)
    parser.add_argument(
        "--commits", type=int, default=SHOWN[-1], help="number of commits to each table (default %(default)s)"
    )
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(argv)
    rows = []
    shown = {*SHOWN, args.commits}
    for expire_h in (None, EXPIRE_H):
        with tempfile.TemporaryDirectory(prefix="iceberg-growth-") as name:
            growing = Growing(Path(name), expire_h)
            for number in range(1, args.commits + 1):
                growing.commit(timed=any(0 <= one - number < TIMED for one in shown))
                if number in shown:
                    rows.append(growing.row())
                    say(str(rows[-1]))
    made = report(rows)
    sys.stdout.write(f"{made}\n")
    if args.write:
        PAGE.write_text(inserted(PAGE.read_text(encoding="utf-8"), NAME, f"{machine()}.\n\n{made}"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_program(main)
