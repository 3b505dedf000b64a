"""Two exports with one checkpoint in an object store: the first is suspended between its write and its commit.

The second takes the lease over, and commits the micro-batch and all later ones. Then the first continues.
`SUSPENDED_EXPORTS=10` repeats it, with the first and the second micro-batch. The first export is held in turn within the request
that commits, and before it looks into the table's log. Another test kills the first instead.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import pytest

from devstack.jars.fetch import ensure_jars
from devstack.objectstore.server import ObjectStore
from tests.integration.spark.export_process import DEADLINE_S, command_line, publish
from tests.integration.spark.exports_in_turn import ExportsInTurn
from tests.integration.spark.held_requests import HeldRequests
from tests.integration.spark.table_files import LOGS, live_files
from tests.integration.spark.test_export_outages import BUCKET, InStore
from tests.integration.spark.test_export_tables import objects
from tests.support.waiting import wait_until

STORE_PORT: Final = 18903
REPEATS: Final = int(os.environ.get("SUSPENDED_EXPORTS", "1"))
MESSAGES: Final = 40
OF_A_BATCH: Final = 20
"""About: it is a target."""

LEASE_S: Final = 12.0
"""Instead of 60 s: most of a test would be waiting for it."""

SESSION: Final = (
    *("--master", "local[1]", "--option", "maxBytesPerPartition=1m", "--progress", "600"),
    *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"),
    *("--conf", "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension"),
    *("--conf", "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"),
)
"""One session for tables of all formats, which does little on slow machines."""

_COMMITS: Final = {
    "parquet": r"PUT \S+/_spark_metadata/{number}[ ?]",
    "delta": r"PUT \S+/_delta_log/0*{number}\.json[ ?]",
    "iceberg": r"PUT \S+/metadata/0*{next}-\S+\.metadata\.json[ ?]",
}
"""The request that commits a micro-batch, by format. In a catalog a row follows, which names the file."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake() -> Iterator[ObjectStore]:
    """MinIO with a bucket."""
    store = ObjectStore("lake-suspended", STORE_PORT)
    store.up(BUCKET)
    yield store
    store.down(purge=True)


@pytest.fixture(scope="module")
def relay(lake) -> Iterator[HeldRequests]:
    """The way of the first export to MinIO."""
    with HeldRequests(urlsplit(lake.endpoint).port) as made:
        yield made


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Iterator[ExportsInTurn]:
    with ExportsInTurn(tmp_path_factory.mktemp("first"), "first", LEASE_S) as made:
        yield made


@pytest.fixture(scope="module")
def second(tmp_path_factory) -> Iterator[ExportsInTurn]:
    with ExportsInTurn(tmp_path_factory.mktemp("second"), "second", LEASE_S) as made:
        yield made


def commit(form: str, number: int) -> Callable[[str], bool]:
    """Recognise the request that commits a micro-batch."""
    pattern = re.compile(_COMMITS[form].format(number=number, next=number + 1))
    return lambda line: pattern.match(line) is not None


def after_files(form: str, number: int) -> Callable[[str], bool]:
    """Recognise the first request after the files of a micro-batch: to the table's log, or any if pyiceberg commits."""
    steps = [f"PUT .*/batches/{number}[ ?]", "PUT .*/_SUCCESS" if form == "iceberg" else r"PUT .*/part-.*\.parquet"]
    steps.append("" if form == "iceberg" else f".*/{LOGS[form]}")

    def holds(line: str) -> bool:
        if re.match(steps[0], line) is not None:
            steps.pop(0)
        return not steps

    return holds


@pytest.fixture
def export(spark_stack, spark_client, topic, tmp_path, lake, relay) -> Callable[[str], Scene]:
    """Makes a topic, and the options of its export in a format."""

    def make(form: str) -> Scene:
        publish(spark_client, topic, 0, MESSAGES)
        spark_stack.admin().unload(topic)  # its ledger is closed, so all messages are confirmed
        table = InStore(lake, tmp_path, form)
        words = [*table.options, *SESSION, "--option", f"maxMessagesPerTrigger={OF_A_BATCH}"]
        words[words.index("--jars") + 1] = ",".join(str(ensure_jars(name)) for name in ("s3a", "delta"))
        direct = command_line(spark_stack, topic, table.to, form, *words)
        return Scene(table, direct, [word.replace(lake.endpoint, f"http://127.0.0.1:{relay.port}") for word in direct])

    return make


@dataclass(frozen=True)
class Scene:
    """An export to a table.

    Attributes:
        table: the table.
        direct: the options of the export.
        relayed: the same through the relay.
    """

    table: InStore
    direct: list[str]
    relayed: list[str]

    def unlisted(self) -> list[str]:
        """The Parquet files that its log does not list, which readers see that do not know the log."""
        found = objects(self.table.store, f"{self.table.prefix}/table")
        folder = LOGS["parquet"] + "/"
        log = {name.removeprefix(folder): text for name, text in found.items() if name.startswith(folder)}
        return sorted({name for name in found if name.startswith("part-")} - set(live_files("parquet", log)))


def report(line: str) -> None:
    """Show a line at once, with `-s`."""
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


def until_held(running: ExportsInTurn, relay: HeldRequests) -> None:
    wait_until(lambda: relay.held is not None or not running.busy, DEADLINE_S, "it writes")
    assert running.busy, running.said()


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("repeat", range(REPEATS))
def test_a_micro_batch_is_committed_once(export, relay, first, second, form, repeat) -> None:
    began = time.monotonic()
    scene, held_at = export(form), (repeat // 2 + 1) % 2
    relay.hold((commit, after_files)[repeat % 2](form, held_at))
    first.start(scene.relayed)
    until_held(first, relay)
    first.suspend()
    try:
        before = scene.table.values()
        assert before == list(range(len(before))), "it has not committed"
        assert (len(before) > 0) == (held_at > 0), "it has not committed"
        assert len(before) < MESSAGES
        second.start(scene.direct)
        assert second.wait() == 0, second.said()
        assert scene.table.values() == list(range(MESSAGES)), "the second one has taken over"
        relay.release()
    finally:
        first.resume()
    status = first.wait()
    errors = [line for line in first.said().splitlines() if line.startswith("pulsar-readonly export: ")]
    took = time.monotonic() - began
    report(f"{form} {repeat}: {took:.0f} s, held {relay.held!r}, exit status {status}: {errors}")
    assert scene.table.values() == list(range(MESSAGES))
    assert status == 1, first.said()
    assert "another export" in errors[-1]
    assert form != "parquet" or scene.unlisted() == []


def test_files_of_a_killed_export_are_removed(export, relay, second, tmp_path) -> None:
    scene = export("parquet")
    relay.hold(commit("parquet", 1))
    with ExportsInTurn(tmp_path, "killed", LEASE_S) as killed:  # by SIGKILL at the end
        killed.start(scene.relayed)
        until_held(killed, relay)
    relay.release(drop=True)
    left = scene.unlisted()
    assert left, "its files are at their places, and not committed"
    second.start(scene.direct)
    assert second.wait() == 0, second.said()
    assert scene.table.values() == list(range(MESSAGES))
    assert scene.unlisted() == []
