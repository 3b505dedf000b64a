"""Exports on two workers while driver, executors, workers and Python workers are killed: each message is in the table once."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import pulsar as pulsar_lib
import pytest

from devstack.pulsar.cluster import PulsarCluster
from devstack.standalone_spark import StandaloneSpark
from tests.integration.spark.export_process import DEADLINE_S, Export, values

pytestmark = pytest.mark.slow

KINDS: Final = ("driver", "executor", "worker", "Python worker")
KILLS: Final = int(os.environ.get("SPARK_KILLS", "20"))
"""Of each table."""

RATE: Final = 40
"""Batches of five messages a second: in the minutes of the test the topic's ledger rolls many times."""

QUICK: Final = "-XX:TieredStopAtLevel=1"
"""A JVM that will not live long compiles in a hurry."""

# Tasks are slow, so that hardly any time passes in which no micro-batch is under way.
SLOW: Final = ("maxReadBytesPerSecond=1500", "maxBytesPerPartition=3k")


class Publishing:
    """Publishes numbers until it is left; `count` of them."""

    def __init__(self, client: pulsar_lib.Client, topic: str) -> None:
        self._producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=5)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        self._producer.flush()
        self._producer.close()

    def _run(self) -> None:
        while not self._stop.wait(1 / RATE):
            for _ in range(5):
                self._producer.send_async(str(self.count).encode(), None)
                self.count += 1


class Killing:
    """An export that is killed in parts, and started again where it has ended."""

    def __init__(self, stack: PulsarCluster, standalone: StandaloneSpark, topic: str, folder: Path, form: str) -> None:
        self._standalone = standalone
        self._started_with = (stack, topic, folder, form)
        self.done: dict[str, int] = dict.fromkeys(KINDS, 0)
        self.starts = 0
        self.export = self._start()

    def _start(self) -> Export:
        self.starts += 1
        words = ["--trigger", "continuous", "--interval", "0.2", "--max-bytes-per-batch", "12k"]
        words += [word for option in SLOW for word in ("--option", option)]
        return Export(*self._started_with, *words, *self.where())

    def where(self) -> list[str]:
        """The options for the cluster."""
        settings = {
            "spark.executor.memory": "600m",
            "spark.executor.extraJavaOptions": QUICK,
            "spark.driver.extraJavaOptions": QUICK,
            "spark.databricks.delta.snapshotPartitions": "2",
        }
        words = ["--master", self._standalone.url, "--shared-folder"]
        return [*words, *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}"))]

    def kill(self, kind: str) -> None:
        """Kill one process while a micro-batch is under way, then see a later micro-batch end."""
        self._wait(lambda: self.export.newest("offsets") > self.export.newest("commits") and bool(self._victims(kind)))
        time.sleep(random.uniform(0, 1))  # at whatever point of it
        before = self.export.newest("offsets")
        assert self.export.process.poll() is None, self.export.said()
        if kind == "driver":
            self.export.kill()
            self.export = self._start()
        elif kind == "worker":
            number = random.randrange(2)
            self._standalone.kill_worker(number)
            self._standalone.start_worker(number)
        else:
            for victim in random.sample(self._victims(kind), 1):
                os.kill(victim, signal.SIGKILL)
        self.done[kind] += 1
        sys.stdout.write(f"{sum(self.done.values())}: {kind}, in micro-batch {before}\n")
        self._wait(lambda: self.export.newest("commits") > before)

    def _victims(self, kind: str) -> list[int]:
        found = {"executor": self._standalone.executors, "Python worker": self._standalone.python_workers}
        return found[kind]() if kind in found else [self.export.process.pid]

    def _wait(self, condition: Any) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, self.export.said()
            if self.export.process.poll() is not None:
                self.export = self._start()
            time.sleep(0.05)  # nobody tells


@pytest.fixture(autouse=True)
def _same_python(monkeypatch) -> Iterator[None]:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_each_message_is_in_the_table_once_whatever_is_killed(
    spark_stack, standalone, spark_client, topic, tmp_path, record_property, form
) -> None:
    began = time.monotonic()
    with Publishing(spark_client, topic) as publishing:
        killing = Killing(spark_stack, standalone, topic, tmp_path, form)
        try:
            for number in range(KILLS):
                killing.kill(KINDS[number % len(KINDS)])
            summary = killing.export.stop()
        except BaseException:
            if killing.export.process.poll() is None:
                killing.export.kill()  # else it goes on after the test
            raise
    assert summary["messages"] > 0, "a continuous export ends well when it is told to"
    deadline = time.monotonic() + DEADLINE_S
    while True:
        Export(spark_stack, topic, tmp_path, form, *killing.where(), "--option", "maxBytesPerPartition=1m").end()
        found = values(tmp_path, form)
        if len(found) >= publishing.count:
            break
        assert time.monotonic() < deadline, f"{len(found)} of {publishing.count}"
    assert found == list(range(publishing.count))
    for kind, times in killing.done.items():
        record_property(f"kills of {kind}", times)
    micro_batches = killing.export.newest("commits") + 1
    sys.stdout.write(
        f"{form}: {killing.done}, {killing.starts} starts, {micro_batches} micro-batches, {publishing.count} messages, "
        f"{time.monotonic() - began:.0f} s\n"
    )
