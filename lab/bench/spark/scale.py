"""`python -m bench.spark.scale`: speed of reads by number of workers, and duration of plans over very many topics.

Workers: a standalone Spark with workers of one core reads one topic, with one worker, then with two. Bookies and the driver use
cores of the same machine.

Topics: the methods that Spark calls on the driver are called here without Spark: for a batch, for a stream's first micro-batch,
for a micro-batch without new messages, and for one with new messages in every topic. No owner is asked.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import BinaryType, StructField, StructType
from readonly_spark.source import PulsarReadOnly

from bench.client import LoadClient
from bench.cpu import cpu_seconds
from bench.spark import common
from bench.spark.processes import engine_side
from devstack.common import processes
from devstack.common.results import save_results
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from devstack.standalone_spark import StandaloneSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devstack.pulsar.cluster import PulsarCluster

BASE_PORT: Final = 20650
NAME: Final = "bench-spark-scale"
SIZE: Final = 1024
MESSAGES: Final = 1_000_000
TOPICS: Final = 1000
EACH: Final = 5
"""Messages per topic, before and between micro-batches."""

MEMORY: Final = "1g"
WARM_UP: Final = 2
COLUMNS: Final = ("key", "value", "topic", "partition", "ledgerId", "entryId", "batchIndex", "publishTime")
SCHEMA: Final = StructType([StructField("value", BinaryType())])
TIMEOUT_S: Final = 600.0

BATCH: Final = "a batch"
FIRST: Final = "a stream's first micro-batch"
QUIET: Final = "a micro-batch without new messages"
FOLLOWING: Final = "a micro-batch with new messages in every topic"
PLANS: Final = (BATCH, FIRST, QUIET, FOLLOWING)


@dataclass(frozen=True, slots=True)
class Read:
    """One read of the whole topic.

    Attributes:
        workers: number of workers.
        seconds: duration.
        spark_cpu: CPU seconds of driver, master, workers and executors.
        server_cpu: CPU seconds of bookies, broker and ZooKeeper.
    """

    workers: int
    seconds: float
    spark_cpu: float
    server_cpu: float


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan.

    Attributes:
        what: one of PLANS.
        seconds: duration.
        cpu: CPU seconds of the planner.
        tasks: number of planned tasks.
    """

    what: str
    seconds: float
    cpu: float
    tasks: int


def produce(stack: PulsarCluster, topic: str, count: int, topics: int = 1) -> None:
    """Write messages of 1 KB: batched to one topic, or one per entry to several topics by turns.

    Raises:
        DevstackError: the deadline has passed.
    """
    broker = stack.endpoints.brokers[0].removeprefix("pulsar://")
    deadline = time.monotonic() + TIMEOUT_S
    with LoadClient(
        "produce", broker=broker, topic=topic, topics=topics, count=count, size=SIZE, batched=topics == 1
    ) as producer:
        while (counted := producer.counted()).receipts < counted.entries or not counted.done:
            if time.monotonic() > deadline:
                raise DevstackError(f"{counted.messages:,} of {count:,} messages in {TIMEOUT_S:g} s")
            time.sleep(0.1)


def servers(stack: PulsarCluster) -> list[int]:
    """Return the process ids of the Pulsar."""
    names = ["broker-0", "zookeeper", *(f"bookie-{number}" for number in range(stack.spec.bookies))]
    found = [processes.running(stack.state.record(name)) for name in names]
    return [one.pid for one in found if one is not None]


def read_on_workers(stack: PulsarCluster, folder: Path, messages: int, rounds: int) -> list[Read]:
    """Measure reads of one topic with one worker and with two.

    Raises:
        DevstackError: a read could not be measured.
    """
    topic = f"persistent://public/default/workers-{time.time_ns()}"
    stack.admin().create_topic(topic)
    say(f"writing {messages:,} messages")
    produce(stack, topic, messages)
    stack.admin().unload(topic)
    options = {"metadataStoreUrl": stack.endpoints.metadata_store, "topic": topic, "minPartitions": "4"}
    pids = servers(stack)
    found = []
    for workers in (1, 2):
        (folder / str(workers)).mkdir()
        with (
            StandaloneSpark(folder / str(workers), workers, MEMORY) as standalone,
            engine_side(standalone.url, MEMORY, folder) as side,
        ):
            spark = [side.pid, *standalone.pids()]
            for number in range(-WARM_UP, rounds):
                before, server_before = cpu_seconds(spark), cpu_seconds(pids)
                answer = side.ask("noop", "pulsar-readonly", COLUMNS, folder, options)
                one = Read(workers, answer["seconds"], cpu_seconds(spark) - before, cpu_seconds(pids) - server_before)
                say(f"{workers} workers, round {number + 1}: {messages / one.seconds:,.0f} rows/s")
                found += [one] if number >= 0 else []
    return found


def timed(what: str, plan: Callable[[], Sequence[Any]]) -> Plan:
    """Measure one plan."""
    began, cpu = time.perf_counter(), time.process_time()
    tasks = len(plan())
    return Plan(what, time.perf_counter() - began, time.process_time() - cpu, tasks)


def plan_topics(stack: PulsarCluster, topics: int, rounds: int) -> list[Plan]:
    """Measure plans over many topics.

    Raises:
        DevstackError: a plan could not be made.
    """
    base = f"persistent://public/default/many-{time.time_ns()}"
    say(f"writing to {topics:,} topics")
    produce(stack, f"{base}-#", EACH * topics, topics)
    options = {"metadataStoreUrl": stack.endpoints.metadata_store, "topicsPattern": f"{base}-.*"}
    found = []
    for number in range(rounds):
        source = PulsarReadOnly(dict(options))
        found.append(timed(BATCH, source.reader(SCHEMA).partitions))
        stream = PulsarReadOnly({**options, "startingOffsets": "earliest"}).streamReader(SCHEMA)
        offset: dict[str, Any] = {}

        def micro_batch(stream: Any = stream, offset: dict[str, Any] = offset) -> Sequence[Any]:
            before = dict(offset) or stream.initialOffset()
            offset.update(stream.latestOffset(before, None))
            # Spark plans tasks only if there are new messages.
            return stream.partitions(before, offset) if before != offset else ()

        try:
            found += [timed(FIRST, micro_batch), timed(QUIET, micro_batch)]
            produce(stack, f"{base}-#", EACH * topics, topics)
            found.append(timed(FOLLOWING, micro_batch))
        finally:
            stream.stop()
        text = ", ".join(f"{plan.what} {plan.seconds:.2f} s" for plan in found[-len(PLANS) :])
        say(f"round {number + 1} of {rounds}: {text}")
    return found


def workers_table(reads: Sequence[Read], messages: int) -> str:
    """Return the table of reads as Markdown, with medians."""
    lines = [
        "| workers of one core | rows/s | MB/s | rows per core-second | CPU of Spark | CPU of the servers |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for workers in sorted({read.workers for read in reads}):
        found = [read for read in reads if read.workers == workers]
        rate = messages / median(read.seconds for read in found)
        core = median(messages / (read.spark_cpu + read.server_cpu) for read in found)
        lines.append(
            f"| {workers} | {rate:,.0f} | {rate * SIZE / 1e6:,.0f} | {core:,.0f} "
            f"| {median(read.spark_cpu for read in found):.1f} s | {median(read.server_cpu for read in found):.1f} s |"
        )
    return "\n".join(lines)


def plans_table(plans: Sequence[Plan]) -> str:
    """Return the table of plans as Markdown, with medians, minimum and maximum."""
    lines = ["| plan | duration | CPU of the planner | tasks |", "|---|---:|---:|---:|"]
    for what in PLANS:
        found = [plan for plan in plans if plan.what == what]
        times = [plan.seconds for plan in found]
        lines.append(
            f"| {what} | {median(times):.2f} s ({min(times):.2f} to {max(times):.2f}) "
            f"| {median(plan.cpu for plan in found):.2f} s | {found[0].tasks:,} |"
        )
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> tuple[list[Read], list[Plan]]:
    """Measure the selected parts.

    Raises:
        DevstackError: a part could not be measured.
    """
    stack = common.pulsar(NAME, arguments.base_port, common.UNSYNCED)
    reads: list[Read] = []
    plans: list[Plan] = []
    try:
        stack.up()
        with ExitStack() as open_:
            folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="bench-scale-")))
            if arguments.only in {"", "workers"}:
                reads = read_on_workers(stack, folder, arguments.messages, arguments.rounds)
            if arguments.only in {"", "topics"}:
                plans = plan_topics(stack, arguments.topics, arguments.rounds)
    finally:
        if not arguments.keep:
            stack.down(purge=True)
    return reads, plans


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; the exit status is 1 if it cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("", "workers", "topics"), default="", help="only this part")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds (default %(default)s)")
    parser.add_argument(
        "--messages", type=int, default=MESSAGES, help="messages that workers read (default %(default)s)"
    )
    parser.add_argument("--topics", type=int, default=TOPICS, help="topics to plan (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there")
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/explanation/spark-performance.md"
    )
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help="first port (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the Pulsar running")
    arguments = parser.parse_args(argv)
    reads, plans = run(arguments)
    machine = common.machine()
    made = {}
    if reads:
        note = f"{machine}; {arguments.messages:,} messages of {SIZE} bytes, batched; noop sink; {arguments.rounds} rounds."
        made["workers"] = f"{note}\n\n{workers_table(reads, arguments.messages)}"
    if plans:
        note = f"{machine}; {arguments.topics:,} topics with an open ledger each; {arguments.rounds} rounds."
        made["topics"] = f"{note}\n\n{plans_table(plans)}"
    print(*made.values(), sep="\n\n")  # noqa: T201
    if arguments.json:
        measured = {"reads": [asdict(read) for read in reads], "plans": [asdict(plan) for plan in plans]}
        save_results(arguments.json, {"machine": machine, **measured})
    if arguments.write:
        for name, part in made.items():
            common.write(name, part)
    return 0


if __name__ == "__main__":
    run_program(main)
