"""Two exports with one checkpoint in an object store: the first is suspended between its write and its commit.

The second takes the lease over, and commits the micro-batch. Then the first goes on. `SUSPENDED_EXPORTS=10` repeats it.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest

from devstack.objectstore.server import ObjectStore
from tests.integration.held_requests import HeldRequests
from tests.integration.spark_export import DEADLINE_S, Export, publish
from tests.integration.table_files import LOGS, live_files
from tests.integration.test_spark_export_outages import BUCKET, InStore
from tests.integration.test_spark_export_tables import objects
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STORE_PORT: Final = 18903
SLOW: Final = "Python worker failed to connect back"
"""Spark gives a Python process 10 s to start, which a busy machine may not."""
REPEATS: Final = int(os.environ.get("SUSPENDED_EXPORTS", "1"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def lake() -> Iterator[ObjectStore]:
    """MinIO with a bucket."""
    store = ObjectStore("lake-suspended", STORE_PORT)
    store.up(BUCKET)
    yield store
    store.down(purge=True)


def commits(form: str) -> Callable[[str], bool]:
    """Recognise the first request after the files of a micro-batch: to the table's log, or any if pyiceberg commits."""
    written = False

    def holds(line: str) -> bool:
        nonlocal written
        before = written
        written = written or (
            line.startswith("PUT ") and ("/_SUCCESS" if form == "iceberg" else "/table/part-") in line
        )
        return before and (form == "iceberg" or LOGS[form] in line)

    return holds


def run(export: Callable[[], Export]) -> None:
    """Export; again if the machine was too slow."""
    deadline = time.monotonic() + 2 * DEADLINE_S
    while True:
        running = export()
        running.process.communicate(timeout=DEADLINE_S)
        if running.process.returncode == 0:
            return
        assert SLOW in running.errors.read_text(), running.said()
        assert time.monotonic() < deadline, running.said()


def until_held(export: Callable[[], Export], relay: HeldRequests) -> Export:
    """Return an export that has written its files; another one if the machine was too slow."""
    while True:
        running = export()
        wait_until(
            lambda running=running: relay.held.is_set() or running.process.poll() is not None, DEADLINE_S, "it writes"
        )
        if running.process.poll() is None:
            return running
        assert SLOW in running.errors.read_text(), running.said()


@pytest.mark.parametrize("repeat", range(REPEATS))
@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_a_micro_batch_is_committed_once(spark_stack, spark_client, topic, tmp_path, lake, form, repeat) -> None:
    publish(spark_client, topic, 0, 300)
    table = InStore(lake, tmp_path, form)

    def export() -> Export:
        return Export(spark_stack, topic, tmp_path, form, *table.options, to=table.to)

    with HeldRequests(urlsplit(lake.endpoint).port, commits(form)) as relay:
        behind = [word.replace(lake.endpoint, f"http://127.0.0.1:{relay.port}") for word in table.options]
        first = until_held(lambda: Export(spark_stack, topic, tmp_path, form, *behind, to=table.to), relay)
        try:
            os.killpg(first.process.pid, signal.SIGSTOP)
            assert table.values() == [], "it has not committed"
            run(export)
            held = table.values()
            assert held, "the second one has taken over"
            relay.release()
            os.killpg(first.process.pid, signal.SIGCONT)
            error = first.failed()[-1]
        finally:
            if first.process.poll() is None:
                first.kill()
    assert "another export" in error
    assert table.values() == held == list(range(300))
    if form == "parquet":  # readers that do not know the log see no files of the first one
        found = objects(lake, f"{table.prefix}/table")
        folder = LOGS[form] + "/"
        log = {name.removeprefix(folder): text for name, text in found.items() if name.startswith(folder)}
        assert sorted(name for name in found if name.startswith("part-")) == live_files(form, log)
