"""`python -m bench.spark.latency`: time from a record to the Parquet table of a stream, with a short trigger.

This project's source and Spark's own Kafka source take turns. Each round is a new topic, to which a producer publishes at a
steady rate, and a new stream from it. The latency of a record is the time from its publish time, by its producer's clock, to the
time at which Spark's log of the table names its file. All clocks are this machine's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from bench.spark import common
from bench.spark.processes import Kafka, Side, engine_side, java_side, load_kafka, load_pulsar
from bench.spark.report import ENGINE, KAFKA
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devstack.pulsar.cluster import PulsarCluster

NAME: Final = "bench-spark-latency"
BASE_PORT: Final = 17800
KAFKA_PORT: Final = 50
MASTER: Final = "local[2]"
MEMORY: Final = "2g"
SIZE: Final = 1024
RATE: Final = 200.0
TRIGGER: Final = "100 milliseconds"
SECONDS: Final = 60
WARM_S: Final = 15.0
"""Records of the first seconds of a topic are left out: the stream starts, and its JVM compiles."""

END_S: Final = 10
"""The stream outlives the producer by this time."""

CLIENTS: Final = (ENGINE, KAFKA)
TIME: Final = {ENGINE: "publishTime", KAFKA: "timestamp"}


@dataclass(frozen=True, slots=True)
class Latencies:
    """One round.

    Attributes:
        client: the source.
        seconds: the latency of each record, sorted.
    """

    client: str
    seconds: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """Return a quantile, by nearest rank."""
        return self.seconds[min(int(share * len(self.seconds)), len(self.seconds) - 1)]


def rows_of(table: Path, column: str) -> list[tuple[float, float]]:
    """Return publish time and latency of each row of a table that a stream has written, in seconds.

    Raises:
        DevstackError: the table has no rows.
    """
    logs = [path for path in (table / "_spark_metadata").iterdir() if path.name.partition(".")[0].isdigit()]
    seen: set[str] = set()
    found: list[tuple[float, float]] = []
    # A compacted log names the files of earlier logs again.
    for log in sorted(logs, key=lambda path: int(path.name.partition(".")[0])):
        written = log.stat().st_mtime
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:
            path = json.loads(line)["path"]
            if path in seen:
                continue
            seen.add(path)
            times = pq.read_table(unquote(urlparse(path).path), columns=[column])[column].to_pylist()
            found += [(time.timestamp(), written - time.timestamp()) for time in times]
    if not found:
        raise DevstackError(f"{table} has no rows", "see the logs of the bench's Sparks")
    return found


class Bench:
    """Servers and Sparks of the bench.

    Args:
        stack: the running Pulsar.
        kafka: the Kafka.
        folder: folder for tables and logs.
        open_: closes the Sparks.
    """

    def __init__(self, stack: PulsarCluster, kafka: Kafka, folder: Path, open_: ExitStack) -> None:
        self._stack, self._kafka, self._folder = stack, kafka, folder
        self._sides: dict[str, Side] = {
            ENGINE: open_.enter_context(engine_side(MASTER, MEMORY, folder)),
            KAFKA: open_.enter_context(java_side("spark-kafka", MASTER, MEMORY, folder)),
        }

    def round(self, client: str, number: int, seconds: int) -> Latencies:
        """Publish and read for some seconds."""
        publish, source, options = (self._pulsar if client == ENGINE else self._kafka_topic)(
            f"latency-{number}", int(RATE * (seconds - END_S))
        )
        publishing = threading.Thread(target=publish)
        publishing.start()
        folder = self._folder / f"{source}-{number}"
        options |= {"startingOffsets": "earliest", "seconds": str(seconds), "trigger": TRIGGER}
        try:
            self._sides[client].ask("stream", source, ("value", TIME[client]), folder, options)
        finally:
            publishing.join()
        rows = rows_of(folder / "table", TIME[client])
        first = min(time for time, _ in rows)
        return Latencies(client, tuple(sorted(latency for time, latency in rows if time >= first + WARM_S)))

    def _pulsar(self, name: str, count: int) -> tuple[Callable[[], object], str, dict[str, str]]:
        topic, endpoints = f"persistent://public/default/{name}", self._stack.endpoints
        self._stack.admin().create_topic(topic)
        log = self._folder / "load.log"
        payload = ("bytes", SIZE)
        return (
            lambda: load_pulsar(endpoints.writer_url, topic, count, payload, 1, lambda: None, log, RATE),
            "pulsar-readonly",
            {"metadataStoreUrl": endpoints.metadata_store, "topic": topic},
        )

    def _kafka_topic(self, name: str, count: int) -> tuple[Callable[[], object], str, dict[str, str]]:
        server = self._kafka.server
        load_kafka(server, name, 0, ("bytes", SIZE), 1)  # the source wants a topic that exists
        return (
            lambda: load_kafka(server, name, count, ("bytes", SIZE), 0, RATE),
            "kafka",
            {"kafka.bootstrap.servers": server, "subscribe": name},
        )


def report(rounds: Sequence[Latencies]) -> str:
    """Return the table as Markdown: medians of the rounds' quantiles, and the spread of the 99th percentile."""
    lines = ["| source | records | median | p99 | p99 of the rounds |", "|---|---:|---:|---:|---|"]
    for client in CLIENTS:
        own = [one for one in rounds if one.client == client]
        high = [one.quantile(0.99) for one in own]
        lines.append(
            f"| {client} | {sum(len(one.seconds) for one in own):,} "
            f"| {median(one.quantile(0.5) for one in own) * 1000:,.0f} ms | {median(high) * 1000:,.0f} ms "
            f"| {min(high) * 1000:,.0f} to {max(high) * 1000:,.0f} ms |"
        )
    ours, theirs = (median(one.quantile(0.99) for one in rounds if one.client == client) for client in CLIENTS)
    return "\n".join([*lines, "", f"Ratio of the p99, {ENGINE} to {KAFKA}: {ours / theirs:.2f}"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark.latency", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each source (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="length of a round (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/spark-performance.md")
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help="first port (default %(default)s)")
    arguments = parser.parse_args(argv)
    least = END_S + WARM_S + 5
    if arguments.rounds < 1 or arguments.seconds < least:
        parser.error(f"--rounds must be above 0, and --seconds at least {least:g}")
    stack = common.pulsar(NAME, arguments.base_port)
    rounds: list[Latencies] = []
    try:
        stack.up()
        with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as name, ExitStack() as open_:
            folder = Path(name)
            kafka = open_.enter_context(Kafka(folder, arguments.base_port + KAFKA_PORT, "1g"))
            bench = Bench(stack, kafka, folder, open_)
            for number in range(arguments.rounds + 1):  # the first one is left out
                for client in CLIENTS if number % 2 else CLIENTS[::-1]:
                    say(f"round {number} of {arguments.rounds}, {client}")
                    one = bench.round(client, number, arguments.seconds)
                    rounds += [one] if number else []
    finally:
        stack.down(purge=True)
    made = report(rounds)
    print(made)  # noqa: T201
    if arguments.write:
        what = f"{RATE:g} records of {SIZE} B a second, a trigger of {TRIGGER}"
        note = f"{common.machine()}; each Spark {MASTER} with {MEMORY}; {what}; medians of {arguments.rounds} rounds."
        common.write("latency", f"{note}\n\n{made}")
    return 0


if __name__ == "__main__":
    run_program(main)
