"""`make -C lab export-soak`: an export for hours: memory, files, checkpoint, log and lag stay flat, and no message is missing.

A producer publishes at a steady rate. The export runs as users run it, in a process of its own. Samples of its last third are
compared with those of its middle third; the first one has the start of the JVM in it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pulsar as pulsar_lib
from prometheus_client.parser import text_string_to_metric_families

from bench.cpu import family, resident_bytes
from bench.spark.common import machine, pulsar, write
from devstack.common.ports import free_port
from devstack.console import say
from devstack.program import run_program
from tests.integration.spark.export_process import Export, until_exported, values

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "export-soak"
BASE_PORT: Final = 17900
TOPIC: Final = "persistent://public/default/soak"
RATE: Final = 100
FORMS: Final = ("parquet", "delta", "iceberg")
EVERY_S: Final = 20.0
GROWTH: Final = 1.1
"""Allowed ratio of the median of the last third to that of the middle third."""

SLACK: Final = {"memory": 30.0, "files": 10.0, "checkpoint": 1.0, "log": 0.1, "table_log": math.inf, "lag": 0.5}
"""Allowed growth beside that, in the unit of each."""

UNITS: Final = {"memory": "MB", "files": "", "checkpoint": "MB", "log": "MB", "table_log": "MB", "lag": "s"}
TABLE_LOGS: Final = ("_spark_metadata", "_delta_log", "metadata")
LARGE_TASKS: Final = ("--option", "maxBytesPerPartition=64m")
GOLDEN: Final = (math.sqrt(5) - 1) / 2
LEAST: Final = 9
"""Minimum number of samples."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The export at one moment.

    Attributes:
        memory: MB of the command, its JVM and its Python workers.
        files: their open files.
        checkpoint: MB of the checkpoint folder.
        log: MB of its standard error.
        table_log: MB of the table's own log, which Parquet's never shortens: Spark's file sink keeps all names.
        lag: age of the oldest message that is not exported, in seconds.
    """

    memory: float
    files: float
    checkpoint: float
    log: float
    table_log: float
    lag: float


def thirds(samples: Sequence[Sample]) -> dict[str, tuple[float, float, float]]:
    """Return the median of each third, by what is measured.

    Args:
        samples: at least LEAST of them, in the order of time.
    """
    size = len(samples) // 3
    cuts = (samples[:size], samples[size : 2 * size], samples[2 * size :])
    found = {}
    for field in fields(Sample):
        first, middle, last = (statistics.median(getattr(one, field.name) for one in cut) for cut in cuts)
        found[field.name] = (first, middle, last)
    return found


def grown(samples: Sequence[Sample]) -> list[str]:
    """Return what is larger in the last third than in the middle third, by more than is allowed."""
    return [
        name for name, (_, middle, last) in thirds(samples).items() if last > max(middle * GROWTH, middle + SLACK[name])
    ]


def pause(taken: int, interval: float) -> float:
    """Return the seconds until the next sample: never the same, because lag rises from trigger to trigger and falls at each.

    Args:
        taken: number of samples so far.
        interval: seconds from trigger to trigger.
    """
    return EVERY_S + interval * (taken * GOLDEN % 1)


def report(samples: Sequence[Sample], messages: int, minutes: float) -> str:
    """Return the table as Markdown."""
    lines = ["| measured | first third | middle third | last third | most |", "|---|---:|---:|---:|---:|"]
    for name, medians in thirds(samples).items():
        most = max(getattr(one, name) for one in samples)
        shown = " | ".join(f"{value:,.1f}" for value in (*medians, most))
        lines.append(f"| {name}{', ' * bool(UNITS[name])}{UNITS[name]} | {shown} |")
    return "\n".join([*lines, "", f"{messages:,} messages in {minutes:.0f} minutes, each of them once in the table."])


class Publishing:
    """Publishes numbers at a steady rate until it is stopped; `count` of them."""

    def __init__(self, url: str) -> None:
        self._client = pulsar_lib.Client(url, logger=pulsar_lib.ConsoleLogger(pulsar_lib.LoggerLevel.Error))
        self._producer = self._client.create_producer(TOPIC, batching_enabled=True, block_if_queue_full=True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(max(began + self.count / RATE - time.monotonic(), 0)):
            self._producer.send_async(str(self.count).encode(), None)
            self.count += 1

    def stop(self) -> None:
        """End it; everything is stored then."""
        self._stop.set()
        self._thread.join()
        self._producer.flush()
        self._client.close()


def folder_mb(folder: Path) -> float:
    """Return the size of all files below a folder; those that vanish meanwhile are left out."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total / 1e6


def lag(port: int) -> float:
    """Return the largest `lag_seconds` that an export serves."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        found = [one.value for each in families for one in each.samples if one.name.endswith("_lag_seconds")]
    return max(found, default=0.0)


def sample(export: Export, port: int) -> Sample:
    """Look at a running export."""
    pids = family(export.process.pid)
    open_files = 0
    for pid in pids:
        try:
            open_files += sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
    return Sample(
        memory=resident_bytes([export.process.pid]) / 1e6,
        files=open_files,
        checkpoint=folder_mb(export.folder / "table" / "_checkpoint"),
        log=export.errors.stat().st_size / 1e6,
        table_log=sum(folder_mb(export.folder / "table" / name) for name in TABLE_LOGS),
        lag=lag(port),
    )


def run(minutes: float, form: str, base_port: int, interval: float) -> tuple[list[Sample], int, int]:
    """Export for some minutes; return samples, the number of messages, and how many of them are in the table once."""
    stack = pulsar(NAME, base_port)
    samples: list[Sample] = []
    try:
        stack.up()
        with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as name:
            folder = Path(name)
            port = free_port()
            publishing = Publishing(stack.endpoints.writer_url)
            words: tuple[str, ...] = (
                "--trigger",
                "continuous",
                "--interval",
                f"{interval:g}",
                "--metrics",
                f"127.0.0.1:{port}",
            )
            # The export measures its lag with its progress: at a multiple of the interval, the same part of it for minutes.
            words += ("--progress", f"{EVERY_S + interval * GOLDEN:.3f}")
            export = Export(stack, TOPIC, folder, form, *words, *LARGE_TASKS)
            try:
                deadline = time.monotonic() + 60 * minutes
                export.until_it_has_committed()
                while time.monotonic() < deadline:
                    time.sleep(pause(len(samples), interval))
                    assert export.process.poll() is None, export.said()
                    samples.append(sample(export, port))
                    last = samples[-1]
                    say(
                        f"{publishing.count:,} messages; {last.memory:,.0f} MB, {last.files:.0f} files, lag {last.lag:.1f} s"
                    )
            except BaseException:
                export.kill()  # else it writes on while its folder is removed
                raise
            finally:
                publishing.stop()
            export.stop()
            until_exported(stack, TOPIC, folder, form, publishing.count)
            found = values(folder, form)
            once = publishing.count if found == list(range(publishing.count)) else len(set(found))
            return samples, publishing.count, once
    finally:
        stack.down(purge=True)


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 1 if something grows, or a message is not in the table once."""
    parser = argparse.ArgumentParser(prog="make -C lab export-soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=180.0, help="duration (default %(default)g)")
    parser.add_argument("--format", choices=FORMS, default=FORMS[0], help="the table's format (default %(default)s)")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between triggers (default %(default)g)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/spark-performance.md")
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help="first port (default %(default)s)")
    args = parser.parse_args(argv)
    if args.minutes * 60 < (least := (LEAST + 3) * (EVERY_S + args.interval)):
        parser.error(f"--minutes: at least {least / 60:g}")
    samples, messages, once = run(args.minutes, args.format, args.base_port, args.interval)
    made = report(samples, messages, args.minutes)
    sys.stdout.write(f"{made}\n")
    wrong = [f"{name} grows" for name in grown(samples)]
    if once != messages:
        wrong.append(f"{once:,} of {messages:,} messages are in the table once")
    for one in wrong:
        sys.stdout.write(f"WRONG: {one}\n")
    if args.write and not wrong:
        note = f"{machine()}; format {args.format}, {RATE} messages a second, a micro-batch every {args.interval:g} s."
        write("soak", f"{note}\n\n{made}")
    return 1 if wrong else 0


if __name__ == "__main__":
    run_program(main)
