"""`python -m bench.spark.beside`: effect on an owner and its publisher while Spark reads a backlog.

A broker owns a topic with messages at a fixed rate, and another topic with a backlog of 2 GB. There are four sides, by turns:
no reads; Spark reads the backlog at full speed, repeatedly; the same with the option that limits the tasks' bytes per second;
and two CPU-bound programs without reads, on as many cores as Spark has. The last one is the reference: on a machine whose cores
are all shared, any program that uses them slows publishing down.

All of it is measured twice: with all cores shared, and with one core for the owner alone, as on a machine of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import CONFLICT
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.client import LoadClient
from bench.cpu import cpu_seconds, family
from bench.figures import Sample
from bench.spark import common
from bench.spark.processes import Side, engine_side
from devstack.common import processes
from devstack.common.results import save_results
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from devstack.pulsar.admin import AdminError
from devstack.pulsar.counters import entries_read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devstack.pulsar.cluster import PulsarCluster

BASE_PORT: Final = 19650
NAME: Final = "bench-spark-owner"

MASTER: Final = "local[2]"
TASKS: Final = 2
MEMORY: Final = "2g"
SIZE: Final = 1024
BACKLOG: Final = 2_000_000
LIMITED_BACKLOG: Final = 150_000
"""Messages of the topic for limited reads: one read should not take longer than a turn."""

RATE: Final = 1000.0
LIMIT: Final = 10_000_000
"""Bytes per second of each task."""

SETTLE_S: Final = 2.0
FILL_TIMEOUT_S: Final = 900.0
COLUMNS: Final = ("key", "value", "topic", "partition", "ledgerId", "entryId", "batchIndex", "publishTime")

COUNTING: Final = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""
"""A CPU-bound program that ends with the bench, whatever ends that."""

BASELINE: Final = "no reads"
SPARK: Final = "Spark at full speed"
LIMITED: Final = "Spark, limited"
BUSY: Final = "two CPU-bound programs"
SIDES: Final = (BASELINE, SPARK, LIMITED, BUSY)

SHARED: Final = "all shared"
APART: Final = "one for the owner alone"
CORES: Final = (SHARED, APART)


@dataclass(frozen=True, slots=True)
class SideMeasurement:
    """One side, measured once.

    Attributes:
        side: one of SIDES.
        cores: one of CORES.
        seconds: duration of the measurement.
        published: messages in this time.
        owner_cpu: CPU seconds of the owner.
        bookie_cpu: CPU seconds of the bookies.
        spark_cpu: CPU seconds of Spark and its Python workers.
        p50_ms: publish latency, median.
        p99_ms: publish latency, 99th percentile.
        read_bytes: bytes of payloads that Spark read from the bookies.
    """

    side: str
    cores: str
    seconds: float
    published: int
    owner_cpu: float
    bookie_cpu: float
    spark_cpu: float
    p50_ms: float
    p99_ms: float
    read_bytes: float

    @property
    def owner_us(self) -> float:
        """CPU of the owner per published message, in µs."""
        return self.owner_cpu / self.published * 1e6


@dataclass(frozen=True, slots=True)
class Backlog:
    """A topic that is read.

    Attributes:
        topic: its name.
        options: options of Spark's read.
    """

    topic: str
    options: dict[str, str]


class Reads:
    """Repeated reads of a topic by Spark, in a thread; the end waits for the read in progress."""

    def __init__(self, side: Side, backlog: Backlog, folder: Path) -> None:
        self._side = side
        self._backlog = backlog
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failed: DevstackError | None = None

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._side.ask("noop", "pulsar-readonly", COLUMNS, self._folder, self._backlog.options)
        except DevstackError as error:
            self._failed = error

    @contextmanager
    def running(self) -> Iterator[None]:
        """Read repeatedly inside of the context.

        Raises:
            DevstackError: a read failed.
        """
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
        if self._failed is not None:
            raise self._failed


@contextmanager
def counting() -> Iterator[list[int]]:
    """Run CPU-bound programs on as many cores as Spark has, and return their process ids."""
    words = [sys.executable, "-c", COUNTING]
    programs = [subprocess.Popen(words, stdin=subprocess.PIPE) for _ in range(TASKS)]  # noqa: S603
    try:
        yield [program.pid for program in programs]
    finally:
        for program in programs:
            program.kill()
            program.communicate()


class Bench:
    """The servers, the publisher and Spark.

    Args:
        stack: the Pulsar, up.
        side: Spark.
        publisher: publishes at its rate.
        backlogs: topics to read, by side.
        folder: folder for Spark's files.
    """

    def __init__(
        self, stack: PulsarCluster, side: Side, publisher: LoadClient, backlogs: dict[str, Backlog], folder: Path
    ) -> None:
        self._stack = stack
        self._side = side
        self._publisher = publisher
        self._backlogs = backlogs
        self._folder = folder
        self._entry_bytes = {name: entry_bytes(stack, backlog.topic) for name, backlog in backlogs.items()}
        self._cores = SHARED

    def share(self, cores: str) -> None:
        """Distribute the cores: one of CORES.

        Raises:
            DevstackError: the machine has one core only.
        """
        every = sorted(os.sched_getaffinity(0))
        if cores == APART and len(every) < 2:
            raise DevstackError("the machine has one core: there is none for the owner alone")
        bookies = [self._pid(f"bookie-{number}") for number in range(self._stack.spec.bookies)]
        others = [*bookies, self._pid("zookeeper"), self._side.pid, self._publisher.process.pid]
        pin([self._pid("broker-0")], every[-1:] if cores == APART else every)
        pin(others, every[:-1] if cores == APART else every)
        self._cores = cores

    def turn(self, side: str, seconds: float) -> SideMeasurement:
        """Measure one side.

        Raises:
            DevstackError: the side could not be measured.
        """
        with self.load(side):
            time.sleep(SETTLE_S)
            return self._measure(side, seconds)

    @contextmanager
    def load(self, side: str) -> Iterator[list[int]]:
        """Run the load of a side inside of the context, and return its processes without their children.

        Raises:
            DevstackError: a read of Spark failed.
        """
        if side == BUSY:
            with counting() as programs:
                pin(programs, sorted(os.sched_getaffinity(self._side.pid)))
                yield programs
        elif side in self._backlogs:
            with Reads(self._side, self._backlogs[side], self._folder).running():
                yield [self._side.pid]
        else:
            yield []

    @property
    def owner(self) -> int:
        """Process id of the owner."""
        return self._pid("broker-0")

    def published(self) -> int:
        """Return the number of published messages."""
        return self._publisher.counted().receipts

    def _measure(self, side: str, seconds: float) -> SideMeasurement:
        groups = {
            "owner": [self._pid("broker-0")],
            "bookies": [self._pid("bookie-0"), self._pid("bookie-1")],
            "spark": [self._side.pid],
        }
        reads, published = entries_read(self._stack.endpoints), self._publisher.counted()
        before = {name: cpu_seconds(pids) for name, pids in groups.items()}
        time.sleep(seconds)
        after = {name: cpu_seconds(pids) for name, pids in groups.items()}
        published_after = self._publisher.counted()
        reads = entries_read(self._stack.endpoints) - reads
        return SideMeasurement(
            side=side,
            cores=self._cores,
            seconds=published_after.seconds - published.seconds,
            published=published_after.receipts - published.receipts,
            owner_cpu=after["owner"] - before["owner"],
            bookie_cpu=after["bookies"] - before["bookies"],
            spark_cpu=after["spark"] - before["spark"],
            p50_ms=published_after.latency_ms["p50"],
            p99_ms=published_after.latency_ms["p99"],
            read_bytes=reads * self._entry_bytes.get(side, 0.0),
        )

    def _pid(self, server: str) -> int:
        running = processes.running(self._stack.state.record(server))
        if running is None:
            raise DevstackError(f"{server} of the bench's cluster has ended")
        return running.pid


def pin(pids: Iterable[int], cores: Iterable[int]) -> None:
    """Pin processes, their children and all their threads to cores; new threads and children inherit that."""
    wanted = list(cores)
    for pid in pids:
        for one in family(pid):
            for thread in Path(f"/proc/{one}/task").iterdir():
                with suppress(ProcessLookupError):  # the thread has ended meanwhile
                    os.sched_setaffinity(int(thread.name), wanted)


def entry_bytes(stack: PulsarCluster, topic: str) -> float:
    """Return the mean size of a topic's entries, in bytes."""
    stats = stack.admin().internal_stats(topic)
    return float(stats["totalSize"]) / max(1.0, float(stats["numberOfEntries"]))


def fill(stack: PulsarCluster, topic: str, messages: int) -> None:
    """Write a topic, unless it exists already.

    Raises:
        DevstackError: the deadline has passed.
    """
    admin, broker = stack.admin(), stack.endpoints.brokers[0].removeprefix("pulsar://")
    try:
        admin.create_topic(topic)
    except AdminError as error:
        if error.status != CONFLICT:
            raise
        if admin.internal_stats(topic)["totalSize"] >= messages * SIZE:
            return  # from an earlier run with --prepare or --keep
    say(f"writing {messages * SIZE / 1e9:.2f} GB to {topic}")
    deadline = time.monotonic() + FILL_TIMEOUT_S
    with LoadClient("produce", broker=broker, topic=topic, count=messages, size=SIZE, batched=True) as producer:
        while (counted := producer.counted()).receipts < counted.entries or not counted.done:
            if time.monotonic() > deadline:
                raise DevstackError(f"{counted.messages:,} of {messages:,} messages in {FILL_TIMEOUT_S:g} s")
            time.sleep(0.2)
    admin.unload(topic)  # its last ledger is closed


@contextmanager
def filled(base_port: int, messages: int, *, keep: bool) -> Iterator[tuple[PulsarCluster, dict[str, Backlog]]]:
    """Start the Pulsar, and write its backlogs; return both, the backlogs by side.

    Args:
        base_port: the Pulsar's first port.
        messages: messages of the larger backlog.
        keep: whether the Pulsar keeps running at the end.

    Raises:
        DevstackError: the Pulsar does not start, or a backlog is not written in time.
    """
    # With fsync, as stock servers. A small journal keeps the use of the disk near the size of the backlog.
    stack = common.pulsar(NAME, base_port, ("journalMaxSizeMB", "256"), ("journalMaxBackups", "1"))
    tasks = {"metadataStoreUrl": stack.endpoints.metadata_store, "minPartitions": str(TASKS)}
    names = {side: f"persistent://public/default/backlog-{number}" for number, side in enumerate((SPARK, LIMITED))}
    backlogs = {
        SPARK: Backlog(names[SPARK], {**tasks, "topic": names[SPARK]}),
        LIMITED: Backlog(names[LIMITED], {**tasks, "topic": names[LIMITED], "maxReadBytesPerSecond": str(LIMIT)}),
    }
    try:
        stack.up()
        fill(stack, names[SPARK], messages)
        fill(stack, names[LIMITED], min(LIMITED_BACKLOG, messages))
        yield stack, backlogs
    finally:
        if not keep:
            stack.down(purge=True)


@contextmanager
def the_bench(base_port: int, messages: int, *, keep: bool = False) -> Iterator[Bench]:
    """Start the Pulsar with its backlogs (see `filled`), the publisher and Spark.

    Raises:
        DevstackError: a part does not start.
    """
    with filled(base_port, messages, keep=keep) as (stack, backlogs):
        topic = f"persistent://public/default/published-{time.time_ns()}"
        stack.admin().create_topic(topic)
        broker = stack.endpoints.brokers[0].removeprefix("pulsar://")
        with ExitStack() as open_:
            folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="bench-beside-")))
            publisher = open_.enter_context(
                LoadClient("produce", broker=broker, topic=topic, rate=RATE, size=SIZE, batched=False)
            )
            yield Bench(stack, open_.enter_context(engine_side(MASTER, MEMORY, folder)), publisher, backlogs, folder)


def run(arguments: argparse.Namespace) -> list[SideMeasurement]:
    """Measure all turns, and return them without the warm-up.

    Raises:
        DevstackError: a turn could not be measured.
    """
    turns: list[SideMeasurement] = []
    if arguments.prepare:
        with filled(arguments.base_port, arguments.messages, keep=True):
            return turns
    with the_bench(arguments.base_port, arguments.messages, keep=arguments.keep) as bench:
        for cores in CORES:
            if arguments.only in {"", cores}:
                bench.share(cores)
                turns += rounds(bench, arguments)
        bench.share(SHARED)
    return turns


def rounds(bench: Bench, arguments: argparse.Namespace) -> list[SideMeasurement]:
    """Measure all sides by turns, and return the turns without the warm-up."""
    turns = []
    for number in range(-arguments.warm_up, arguments.rounds):
        for side in SIDES if number % 2 else SIDES[::-1]:
            turn = bench.turn(side, arguments.seconds)
            say(
                f"round {number + 1} of {arguments.rounds}, {side}: owner {turn.owner_us:.0f} µs per message, "
                f"p99 {turn.p99_ms:.2f} ms, {turn.read_bytes / turn.seconds / 1e6:.0f} MB/s read; cores {turn.cores}"
            )
            turns += [turn] if number >= 0 else []
    return turns


def table(turns: Sequence[SideMeasurement]) -> str:
    """Return the table of medians, with the spread, as Markdown."""
    lines = [
        (
            "| cores | load | Spark reads | owner's CPU per message | change | publish p50 | publish p99 "
            "| owner's CPU | bookies' CPU | Spark's CPU |"
        ),
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for cores in CORES:
        here = [turn for turn in turns if turn.cores == cores]
        if here:
            alone = median(turn.owner_us for turn in here if turn.side == BASELINE)
            lines += [row([turn for turn in here if turn.side == side], alone) for side in SIDES]
    return "\n".join(lines)


def row(turns: Sequence[SideMeasurement], alone: float) -> str:
    """Return one row of the table.

    Args:
        turns: turns of one side.
        alone: CPU of the owner per message without reads, in µs.
    """

    def sample(name: str) -> Sample:
        return Sample(tuple(float(getattr(turn, name)) for turn in turns))

    def part(name: str) -> str:
        return f"{median(float(getattr(turn, name)) / turn.seconds for turn in turns):.0%}"

    rate = median(turn.read_bytes / turn.seconds for turn in turns)
    owner = sample("owner_us")
    return (
        f"| {turns[0].cores} | {turns[0].side} | {f'{rate / 1e6:,.0f} MB/s' if rate else '-'} | {owner.text('.0f')} µs "
        f"| {owner.median / alone - 1:+.1%} | {sample('p50_ms').text()} ms | {sample('p99_ms').text()} ms "
        f"| {part('owner_cpu')} | {part('bookie_cpu')} | {part('spark_cpu')} |"
    )


def read(files: Sequence[Path]) -> list[SideMeasurement]:
    """Read turns from files of `--json`."""
    return [SideMeasurement(**turn) for file in files for turn in json.loads(file.read_text(encoding="utf-8"))["turns"]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; the exit status is 1 if it cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark.beside", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of every side (default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before them (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of each side (default %(default)s)")
    parser.add_argument(
        "--messages", type=int, default=BACKLOG, help="messages of 1 KB in the backlog (default %(default)s)"
    )
    parser.add_argument("--only", choices=("", *CORES), default="", help="only this distribution of cores")
    parser.add_argument("--prepare", action="store_true", help="write the backlog, leave the Pulsar running, and end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all turns there")
    parser.add_argument(
        "--read", type=Path, nargs="+", metavar="FILE", help="do not measure, but read the turns of these files"
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/spark-performance.md")
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help="first port (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the Pulsar running")
    arguments = parser.parse_args(argv)
    turns = read(arguments.read) if arguments.read else run(arguments)
    if not turns:
        return 0
    made = table(turns)
    print(made)  # noqa: T201
    machine = common.machine()
    if arguments.json:
        save_results(arguments.json, {"machine": machine, "turns": [asdict(turn) for turn in turns]})
    if arguments.write:
        note = (
            f"{machine}; {sum(turn.side == BASELINE and turn.cores == turns[0].cores for turn in turns)} rounds of "
            f"{median(turn.seconds for turn in turns):.0f} s per side, by turns; {RATE:,g} messages of "
            f"{SIZE} bytes per second, a backlog of {arguments.messages * SIZE / 1e9:.1f} GB; Spark {MASTER}; limited: "
            f"`maxReadBytesPerSecond` of {LIMIT / 1e6:g} MB in {TASKS} tasks. Medians, with minimum and maximum.\n"
        )
        common.write("beside", f"{note}\n{made}")
    return 0


if __name__ == "__main__":
    run_program(main)
