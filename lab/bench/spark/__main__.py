"""`python -m bench.spark`: reads by Spark of the same payloads from a real Pulsar and a real Kafka.

There are three sources, by turns: this project's source; Spark's own Kafka source, in the newest Spark for which Maven has all
of its jars; and the newest Pulsar connector that Maven had, in its own Spark. Every Spark has two cores and keeps
running. The CPU is that of all processes involved: Spark with its Python workers, and broker, bookies and ZooKeeper, or Kafka.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.cpu import cpu_seconds, family
from bench.spark import common
from bench.spark.offloading import ENVIRONMENT, NAMESPACE, Offloading
from bench.spark.processes import Kafka, Side, engine_side, java_side, load_kafka, load_pulsar
from bench.spark.report import CLIENTS, CONNECTOR, ENGINE, KAFKA, Result, Round, figures, results_of, table
from devstack.common import processes
from devstack.common.results import save_results
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devstack.pulsar.cluster import PulsarCluster

BASE_PORT: Final = 17700
KAFKA_PORT: Final = 50
"""Offset of Kafka's port from the base port."""

STORE_PORT: Final = 60
"""Offset of the object store's port from the base port."""

MASTER: Final = "local[2]"
MEMORY: Final = "2g"
WARM_UP: Final = 2
EXPORT: Final = "export"
SINKS: Final = ("noop", "parquet", EXPORT)
"""`parquet` is Spark's writer. `export` is the one of `pulsar-readonly export`, and Spark's for the other sources."""

_SQL: Final = {"long": "bigint", "string": "string"}
_TICKS: Final = os.sysconf("SC_CLK_TCK")

# The same columns of each source: key, payload and position.
COLUMNS: Final = {
    ENGINE: ("key", "value", "topic", "partition", "ledgerId", "entryId", "batchIndex", "publishTime"),
    KAFKA: ("key", "value", "topic", "partition", "offset", "timestamp"),
    CONNECTOR: ("__key", "value", "__topic", "__messageId", "__publishTime"),
}
CHECKED: Final = dict.fromkeys(CLIENTS, ("value",))

_FIELDS: Final = {"id": "long", "customer": "string", "cents": "long", "note": "string"}
AVRO: Final = json.dumps(
    {"type": "record", "name": "Order", "fields": [{"name": name, "type": type_} for name, type_ in _FIELDS.items()]}
)
"""Schema of the records of Payloads.java."""

DECODED: Final = f"value struct<{', '.join(f'{name}: {_SQL[type_]}' for name, type_ in _FIELDS.items())}>"
"""The column of this project's source with their values."""


@dataclass(frozen=True, slots=True)
class Case:
    """One topic.

    Attributes:
        name: name in the table.
        size: bytes of a payload.
        messages: number of messages.
        quick: the same with --quick.
        ledgers: number of ledgers of the Pulsar topic, or of each partition.
        partitions: number of partitions of both topics.
        kind: `bytes`, or `avro` for records that each source decodes.
        offloaded: whether Pulsar's topic is read from an object store; Kafka's is on its disk always.
    """

    name: str
    size: int
    messages: int
    quick: int
    ledgers: int
    partitions: int = 1
    kind: str = "bytes"
    offloaded: bool = False


CASES: Final = (
    Case("100 B, 1 ledger", 100, 2_000_000, 100_000, 1),
    Case("100 B, 20 ledgers", 100, 2_000_000, 100_000, 20),
    Case("1 KB, 1 ledger", 1024, 500_000, 20_000, 1),
    Case("1 KB, 20 ledgers", 1024, 500_000, 20_000, 20),
    Case("1 KB, beyond the cache", 1024, 1_500_000, 30_000, 20),
    Case("1 KB, 8 partitions", 1024, 500_000, 20_000, 1, partitions=8),
    Case("1 KB, 64 partitions", 1024, 500_000, 20_000, 1, partitions=64),
    Case("200 B, Avro decoded", 200, 1_000_000, 50_000, 1, kind="avro"),
    Case("1 KB, offloaded", 1024, 500_000, 20_000, 20, offloaded=True),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Read of a topic by one source.

    Attributes:
        source: name of the format.
        options: its options.
    """

    source: str
    options: dict[str, str]


class Bench:
    """Servers and Sparks of the bench.

    Args:
        stack: the running Pulsar.
        kafka: the Kafka.
        folder: folder for tables and logs.
        open_: closes the Sparks.
        offloading: for topics in an object store.
    """

    def __init__(
        self, stack: PulsarCluster, kafka: Kafka, folder: Path, open_: ExitStack, offloading: Offloading
    ) -> None:
        self._stack = stack
        self._offloading = offloading
        self._kafka = kafka
        self._folder = folder
        self._sides: dict[str, Side] = {
            ENGINE: open_.enter_context(engine_side(MASTER, MEMORY, folder)),
            KAFKA: open_.enter_context(java_side("spark-kafka", MASTER, MEMORY, folder)),
            CONNECTOR: open_.enter_context(java_side("spark-pulsar", MASTER, MEMORY, folder)),
        }

    def fill(self, case: Case, messages: int) -> dict[str, Reading]:
        """Write a case's messages to both systems, and check that every source reads exactly these.

        Raises:
            DevstackError: a source reads other rows.
        """
        name = f"bench-{case.kind}-{case.size}-{case.ledgers}-{case.partitions}-{messages}"
        topic = (
            f"persistent://{NAMESPACE if case.offloaded else 'public/default'}/{name}{'-far' if case.offloaded else ''}"
        )
        name = topic.rpartition("/")[2]
        admin, endpoints = self._stack.admin(), self._stack.endpoints
        if case.partitions > 1:
            admin.create_partitioned_topic(topic, case.partitions)
        else:
            admin.create_topic(topic)
        payload = (case.kind, case.size)
        say(f"{case.name}: writing {messages:,} messages to Pulsar and to Kafka")
        sums = {
            load_pulsar(
                endpoints.writer_url, topic, messages, payload, case.ledgers, lambda: admin.unload(topic),
                self._folder / "load.log",
            ),
            load_kafka(self._kafka.server, name, messages, payload, case.partitions),
        }  # fmt: skip
        if case.offloaded:
            say(f"{case.name}: offloading")
            self._offloading.offload(topic)
        store, web = endpoints.metadata_store, endpoints.admin_url
        readings = {
            ENGINE: Reading("pulsar-readonly", {"metadataStoreUrl": store, "topic": topic, "minPartitions": "2"}),
            KAFKA: Reading(
                "kafka",
                {"kafka.bootstrap.servers": self._kafka.server, "subscribe": name, "startingOffsets": "earliest",
                 "minPartitions": "2"},
            ),
            CONNECTOR: Reading(
                "pulsar",
                {"service.url": endpoints.writer_url, "admin.url": web, "topic": topic, "startingOffsets": "earliest"},
            ),
        }  # fmt: skip
        if case.kind == "avro":
            schema = json.dumps({"type": "AVRO", "schema": json.loads(AVRO)})
            for client, reading in readings.items():
                reading.options.update({"valueSchema": schema} if client == ENGINE else {"avroSchema": AVRO})
        if case.offloaded:
            readings[ENGINE].options.update(self._offloading.options)
        check = "check" if case.kind == "bytes" else "check-record"
        for client, reading in readings.items():
            columns = _columns(client, case, CHECKED[client])
            found = self._sides[client].ask(check, reading.source, columns, self._folder, reading.options)
            if found["rows"] != messages or {found["checksum"]} != sums:
                raise DevstackError(f"{client} read {found}, not {messages} messages of checksum {sums}")
        return readings

    def measure(self, case: Case, sink: str, readings: dict[str, Reading], messages: int, rounds: int) -> list[Result]:
        """Read by turns, and return the rounds without the warm-up."""
        taken: dict[str, list[Round]] = {client: [] for client in CLIENTS}
        for number in range(-WARM_UP, rounds):
            say(f"{case.name}, {sink}: round {number + 1} of {rounds}")
            for client in CLIENTS if number % 2 else CLIENTS[::-1]:
                one = self._round(client, sink, readings[client], messages, case)
                if number >= 0:
                    taken[client].append(one)
        return [Result(case.name, sink, client, tuple(taken[client])) for client in CLIENTS]

    def _round(self, client: str, sink: str, reading: Reading, messages: int, case: Case) -> Round:
        side, servers = self._sides[client], self._servers(client, case)
        columns = _columns(client, case, COLUMNS[client])
        spark, server = whole_family(side.pid), cpu_seconds(servers)
        command = "parquet" if sink == EXPORT and client != ENGINE else sink
        answer = side.ask(command, reading.source, columns, self._folder / "table", reading.options)
        return Round(
            rows=messages,
            size=case.size,
            seconds=answer["seconds"],
            spark_cpu=whole_family(side.pid) - spark,
            server_cpu=cpu_seconds(servers) - server,
        )

    def _servers(self, client: str, case: Case) -> list[int]:
        if client == KAFKA:
            return [self._kafka.pid]
        names = ("broker-0", "bookie-0", "bookie-1", "zookeeper")
        found = [processes.running(self._stack.state.record(name)) for name in names]
        if case.offloaded:
            found.append(processes.running(self._offloading.store.record))
        if None in found:
            raise DevstackError("a server of the bench's Pulsar has ended")
        return [one.pid for one in found if one is not None]


def _columns(client: str, case: Case, names: Sequence[str]) -> list[str]:
    """Return the columns of a read; decoded values have their type in this project's source."""
    decoded = client == ENGINE and case.kind == "avro"
    return [DECODED if decoded and name == "value" else name for name in names]


def whole_family(pid: int) -> float:
    """Return the CPU seconds of a process and of all its descendants, with those that have ended."""
    total = 0
    for one in family(pid):
        fields = Path(f"/proc/{one}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


def run(arguments: argparse.Namespace, rounds: int) -> list[Result]:
    """Measure all selected cases."""
    stack = common.pulsar("bench-spark", arguments.base_port, common.UNSYNCED, broker_environment=ENVIRONMENT)
    results: list[Result] = []
    cases = [case for case in CASES if any(text in case.name for text in arguments.only)]
    try:
        stack.up()
        with tempfile.TemporaryDirectory(prefix="bench-spark-") as name, ExitStack() as open_:
            folder = Path(name)
            kafka = open_.enter_context(Kafka(folder, arguments.base_port + KAFKA_PORT, "1g"))
            offloading = Offloading(stack, arguments.base_port + STORE_PORT, folder)
            if any(case.offloaded for case in cases):
                open_.callback(offloading.store.down, purge=True)
                offloading.up()
            bench = Bench(stack, kafka, folder, open_, offloading)
            for case in cases:
                messages = case.quick if arguments.quick else case.messages
                readings = bench.fill(case, messages)
                for sink in [arguments.sink] if arguments.sink else SINKS:
                    results += bench.measure(case, sink, readings, messages, rounds)
                    if arguments.json:  # a run that ends early keeps what it has measured
                        save_results(arguments.json, figures(results, machine=common.machine(), rounds=rounds))
    finally:
        if not arguments.keep:
            stack.down(purge=True)
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; the exit status is 1 if it cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few messages, as a check of the bench itself")
    parser.add_argument("--rounds", type=int, help="measured rounds of each client (default 5, quick 2)")
    parser.add_argument("--sink", choices=SINKS, help="only this sink")
    parser.add_argument(
        "--only", default=[""], nargs="+", metavar="TEXT", help="only topics whose names contain one of these"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there")
    parser.add_argument(
        "--from", dest="files", type=Path, nargs="+", metavar="FILE",
        help="do not measure, but make one table of several runs with --json",
    )  # fmt: skip
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/spark-performance.md")
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help="first port (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the Pulsar running")
    arguments = parser.parse_args(argv)
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in arguments.files or []] or [measured(arguments)]
    results = sorted(results_of(runs), key=_place)
    made = table(results)
    print(made)  # noqa: T201
    if arguments.write:
        machines = ", ".join(sorted({run["machine"] for run in runs}))
        rounds = " to ".join(map(str, sorted({min(run["rounds"] for run in runs), max(run["rounds"] for run in runs)})))
        note = f"{machines}; each Spark {MASTER} with {MEMORY}; medians of {rounds} rounds.\n"
        common.write("spark", f"{note}\n{made}")
    return 0


def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, write the file of --json, and return the figures."""
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    results = run(arguments, rounds)
    found: dict[str, Any] = json.loads(json.dumps(figures(results, machine=common.machine(), rounds=rounds)))
    if arguments.json:
        save_results(arguments.json, found)
    return found


def _place(result: Result) -> tuple[int, int, int]:
    """Return the sort key of a result in the table."""
    cases = [case.name for case in CASES]
    return cases.index(result.case), SINKS.index(result.sink), CLIENTS.index(result.client)


if __name__ == "__main__":
    run_program(main)
