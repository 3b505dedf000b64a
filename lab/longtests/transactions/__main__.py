"""`make -C lab transactions-memory`: memory of a stream's planner while a topic gets many transactions.

The stock Java client publishes transactions of one message each; every hundredth is aborted. A process plans micro-batches by the
calls that Spark's planner makes on the driver. No task runs: the planner itself searches the topic for markers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.cpu import resident_bytes
from bench.paths import ROOT
from bench.spark.common import machine, write
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution
from devstack.pulsar.spec import PulsarSpec, Setting
from longtests.chaos import curves

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "transactions"
BASE_PORT: Final = 24900
TOPIC: Final = "persistent://public/default/transactions"
PICTURE: Final = ROOT / "docs/explanation/performance/transactions-memory.svg"
SOURCE: Final = Path(__file__).parent / "Transactions.java"
LEDGER_ENTRIES: Final = 50_000
RETENTION_MINUTES: Final = 2
EVERY_S: Final = 5.0
ROWS: Final = 12
"""Of the table, at most."""

GROWTH_MB: Final = 10.0
"""Allowed growth from the middle of the run to its end."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of the run.

    Attributes:
        seconds: since the start.
        transactions: those that have ended.
        planned: entries in the tasks so far, messages and markers.
        memory: resident MB of the planner.
    """

    seconds: float
    transactions: int
    planned: int
    memory: float


def report(samples: Sequence[Sample]) -> str:
    """Return a table in Markdown."""
    lines = ["| minutes | transactions | entries planned | planner, MB |", "|---:|---:|---:|---:|"]
    step = max(len(samples) // ROWS, 1)
    shown = [*samples[:-1:step], samples[-1]]
    lines += [
        f"| {one.seconds / 60:.1f} | {one.transactions:,} | {one.planned:,} | {one.memory:.1f} |" for one in shown
    ]
    return "\n".join(lines)


def picture(samples: Sequence[Sample]) -> str:
    """Return the planner's memory and the transactions over time, as SVG."""
    panels = [
        curves.Panel("resident memory of the planner, MB", {"": [(one.seconds / 60, one.memory) for one in samples]}),
        curves.Panel(
            "ended transactions, thousands", {"": [(one.seconds / 60, one.transactions / 1e3) for one in samples]}
        ),
    ]
    return curves.draw("A stream's planner over a topic with many transactions", panels, samples[-1].seconds / 60)


def run(minutes: float, rate: float, base_port: int) -> list[Sample]:
    """Publish and read for some minutes; return samples."""
    settings = (
        Setting("broker", "managedLedgerMaxEntriesPerLedger", str(LEDGER_ENTRIES)),
        Setting("broker", "managedLedgerMinLedgerRolloverTimeMinutes", "0"),
        Setting("broker", "defaultRetentionTimeInMinutes", str(RETENTION_MINUTES)),
        Setting("broker", "defaultRetentionSizeInMB", "-1"),
        Setting("broker", "brokerDeleteInactiveTopicsEnabled", "false"),
        Setting("bookie", "journalSyncData", "false"),
    )
    stack = PulsarCluster(
        PulsarSpec(
            name=NAME, base_port=base_port, bookies=1, brokers=1, transactions=True, quick=True, settings=settings
        )
    )
    samples: list[Sample] = []
    processes: list[subprocess.Popen[str]] = []
    last: dict[str, int] = {}

    def start(name: str, *words: str) -> None:
        """Run a program that prints a number now and then; the last one is kept."""
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        processes.append(process)

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip().isdecimal():  # the client logs there too
                    last[name] = int(line)

        threading.Thread(target=listen, daemon=True).start()

    try:
        stack.up(renew=True)
        stack.admin().create_topic(TOPIC)
        jars = f"{ensure_distribution(stack.spec.version)}/lib/*"
        service = stack.endpoints.writer_url
        start(
            "transactions",
            "java",
            "-Xmx512m",
            "-cp",
            jars,
            str(SOURCE),
            service,
            TOPIC,
            f"{rate:g}",
            f"{minutes * 60:.0f}",
        )
        start("planned", sys.executable, "-m", "longtests.transactions.planner", stack.endpoints.metadata_store, TOPIC)
        began = time.monotonic()
        while processes[0].poll() is None:
            time.sleep(EVERY_S)
            if processes[1].poll() is not None:
                raise DevstackError("the planner has ended", "see its error above")
            seconds = time.monotonic() - began
            memory = resident_bytes([processes[1].pid]) / 1e6
            samples.append(Sample(seconds, last.get("transactions", 0), last.get("planned", 0), memory))
            say(str(samples[-1]))
        if processes[0].returncode:
            raise DevstackError("the publisher has failed", "see its error above")
    finally:
        for process in processes:
            process.kill()
            process.wait()
        stack.down(purge=True)
    return [one for one in samples if one.planned]


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 1 if the planner grows in the second half of the run."""
    parser = argparse.ArgumentParser(prog="make -C lab transactions-memory", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="duration (default %(default)g)")
    parser.add_argument(
        "--rate", type=float, default=1000.0, help="transactions a second, if Pulsar can (default %(default)g)"
    )
    parser.add_argument(
        "--write", action="store_true", help="put table and plot into docs/explanation/spark-performance.md"
    )
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help="first port (default %(default)s)")
    args = parser.parse_args(argv)
    samples = run(args.minutes, args.rate, args.base_port)
    made = report(samples)
    sys.stdout.write(f"{made}\n")
    growth = samples[-1].memory - samples[len(samples) // 2].memory
    if args.write:
        PICTURE.write_text(picture(samples), encoding="utf-8")
        plot = f"![memory of the planner over time](performance/{PICTURE.name})"
        write(NAME, f"{machine()}; {args.rate:,g} transactions a second were the target.\n\n{made}\n\n{plot}")
    if growth > GROWTH_MB:
        sys.stdout.write(f"WRONG: the planner grows by {growth:.0f} MB in the second half\n")
    return int(growth > GROWTH_MB)


if __name__ == "__main__":
    run_program(main)
