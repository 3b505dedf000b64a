"""`pulsar-readonly export` as a process that can be killed, and what is in the tables that it writes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pulsar as pulsar_lib
from readonly_spark.export.iceberg import CATALOG_FILE
from readonly_spark.export.leftovers import remove_leftovers
from readonly_spark.export.marker import MARKER, TableMarker

from devstack.jars.fetch import ensure_jars
from devstack.pulsar.cluster import PulsarCluster
from tests.integration.spark.table_files import LOGS, live_files, numbers_in

ROOT: Final = Path(__file__).parents[3]
DEADLINE_S: Final = 400
LOCAL: Final = {
    "--master": "local[2]",
    "--conf": "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
}
TASK_BYTES: Final = "maxBytesPerPartition=10k"


def publish(client: pulsar_lib.Client, topic: str, first: int, end: int) -> None:
    """Messages with numbers as their values, in batches of five."""
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=5, block_if_queue_full=True)
    for number in range(first, end):
        producer.send_async(str(number).encode(), None, partition_key=str(number % 3))
    producer.flush()
    producer.close()


def command_line(stack: PulsarCluster, topic: str, to: str, form: str, *options: str) -> list[str]:
    """The options of an export, with a local Spark of two cores where none names another."""
    words = ["--topics", topic, "--to", to, "--metadata-store-url", stack.endpoints.metadata_store]
    words += ["--format", form, "-o", "json"]
    if form == "delta":
        words += ["--jars", str(ensure_jars("delta"))]
    if "--master" not in options:
        words += [word for pair in LOCAL.items() for word in pair]
    if not any(option.startswith("maxBytesPerPartition") for option in options):
        words += ["--option", TASK_BYTES]
    words += ["--conf", "spark.driver.memory=1g"]
    words += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    return [*words, *options]


class Export:
    """The command in a process group of its own, with a local Spark of two cores where no option names another.

    Args:
        stack: the cluster.
        topic: the topic.
        folder: where the table is made.
        form: the table's format.
        options: more of the command line.
        environment: the command's environment; this process's by default.
        python: what runs it.
        to: the table; by default `table` in the folder.
    """

    def __init__(
        self,
        stack: PulsarCluster,
        topic: str,
        folder: Path,
        form: str,
        *options: str,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        to: str = "",
    ) -> None:
        self.folder = folder
        self.form = form
        words = [python, "-m", "readonly_engine.command", "export"]
        words += command_line(stack, topic, to or str(folder / "table"), form, *options)
        self.errors = folder / f"errors-{time.monotonic_ns()}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                words, cwd=ROOT if environment is None else folder, env=environment,
                stdout=subprocess.PIPE, stderr=errors, start_new_session=True, text=True,
            )  # fmt: skip

    def newest(self, kind: str) -> int:
        """The number of the last micro-batch that was planned (`offsets`) or has ended (`commits`); -1 for none."""
        folder = self.folder / "table" / "_checkpoint" / kind
        names = [path.name for path in folder.iterdir()] if folder.exists() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def until_it_has_committed(self) -> None:
        """Wait until a micro-batch has ended, or the process has."""
        before, deadline = self.newest("commits"), time.monotonic() + DEADLINE_S
        while self.newest("commits") == before and self.process.poll() is None:
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)  # until it has ended a micro-batch

    def said(self) -> str:
        """The end of its standard error."""
        return self.errors.read_text()[-2000:]

    def workers(self) -> list[int]:
        """The Python processes of its tasks, where Spark is in its process."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                mine = entry.name.isdigit() and os.getpgid(int(entry.name)) == self.process.pid
                if mine and b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def kill(self) -> None:
        """Kill -9 of the command and all that it has started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)

    def stop(self) -> dict[str, Any]:
        """End it as a user does, and return its summary."""
        self.process.terminate()
        return self.end()

    def end(self) -> dict[str, Any]:
        """Wait for its end; its summary."""
        try:
            said, _ = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(self.said()) from None
        assert self.process.returncode == 0, self.said()
        assert said, self.said()
        summary: dict[str, Any] = json.loads(said.splitlines()[-1])
        return summary

    def refused(self) -> str:
        """Wait for its end, which is an error in one line and the only thing that it says; that line."""
        errors = self.failed()
        assert len(errors) == 1, self.said()
        return errors[0]

    def failed(self) -> list[str]:
        """Wait for its end, which is an error; all that it says itself: progress, warnings, and the error last."""
        try:
            said, _ = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(self.said()) from None
        errors = [line for line in self.errors.read_text().splitlines() if line.startswith("pulsar-readonly export: ")]
        assert self.process.returncode == 1, f"exit status {self.process.returncode}: {said} {self.said()}"
        assert errors, self.said()
        return errors


def until_exported(stack: PulsarCluster, topic: str, folder: Path, form: str, count: int, *options: str) -> None:
    """Export, again where the owner had not told the bookies of the last messages yet, until a table holds so many."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        Export(stack, topic, folder, form, *options).end()
        if len(values(folder, form)) >= count:
            return
        assert time.monotonic() < deadline


def values(folder: Path, form: str) -> list[int]:
    """What is in a table, read by no code of Spark or Delta."""
    table = folder / "table"
    if form == "iceberg":
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - it is slow to import

        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{table}/{CATALOG_FILE}")
        if not catalog.table_exists("pulsar.messages"):
            return []
        return sorted(map(int, catalog.load_table("pulsar.messages").scan().to_arrow()["value"].to_pylist()))
    if form == "delta":
        return logged_values(folder, form)
    marker = TableMarker.from_json((table / MARKER).read_bytes(), "")
    remove_leftovers(table, (marker.checkpoint, *marker.former))
    files = [str(path) for path in table.rglob("part-*.parquet") if "_checkpoint" not in path.parts]
    return numbers_in(files, lambda name: Path(name).read_bytes())


def logged_values(folder: Path, form: str) -> list[int]:
    """What the log of a table counts; an export may be writing it."""
    table = folder / "table"
    log = {path.name: path.read_bytes() for path in (table / LOGS[form]).glob("[0-9]*")}
    return numbers_in(live_files(form, log), lambda name: (table / name).read_bytes())
