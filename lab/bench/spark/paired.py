"""`python -m bench.spark.paired`: change of the owner's CPU under a load, in pairs of short windows.

The speed of a shared machine varies from minute to minute by more than the effect to measure. So Spark reads continuously, and
is stopped and continued (SIGSTOP, SIGCONT) every few seconds. Each window with the load is compared with an adjacent window
without it, and the mean of many pairs shows small differences. CPU-bound programs are stopped and continued in the same way, as
a reference.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Final

from bench.cpu import family
from bench.spark import common
from bench.spark.beside import APART, BACKLOG, BASE_PORT, BUSY, CORES, LIMITED, RATE, SPARK, the_bench
from devstack.common.results import save_results
from devstack.console import say
from devstack.program import run_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.spark.beside import Bench

SIDES: Final = (SPARK, LIMITED, BUSY)
SETTLE_S: Final = 0.5
WARM_UP_S: Final = 10.0
T_95: Final = 2.0
"""Student's t for 95 % and at least twenty pairs, rounded."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Measurements of one side.

    Attributes:
        side: one of SIDES.
        cores: one of `beside.CORES`.
        pairs: CPU of the owner per message in µs, without the load and with it.
    """

    side: str
    cores: str
    pairs: tuple[tuple[float, float], ...]

    @property
    def change(self) -> float:
        """Mean relative change of the owner's CPU with the load."""
        return mean(beside for _, beside in self.pairs) / self.alone - 1

    @property
    def alone(self) -> float:
        """Mean CPU of the owner per message without the load, in µs."""
        return mean(alone for alone, _ in self.pairs)

    @property
    def margin(self) -> float:
        """Half of the 95 % confidence interval of `change`."""
        differences = [beside - alone for alone, beside in self.pairs]
        return T_95 * stdev(differences) / math.sqrt(len(differences)) / self.alone


def cpu_ns(pid: int) -> int:
    """Return the CPU of a process's running threads in ns, which is finer than the ticks of the process's own sum."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended meanwhile
            total += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return total


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """Stop processes and their children inside of the context."""
    _signal(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pids, signal.SIGCONT)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for one in {child for pid in pids for child in family(pid)}:
        with suppress(ProcessLookupError):
            os.kill(one, number)


def window(bench: Bench, seconds: float) -> float:
    """Measure the owner's CPU per message in one window, in µs."""
    time.sleep(SETTLE_S)
    messages, cpu = bench.published(), cpu_ns(bench.owner)
    time.sleep(seconds)
    messages_then, cpu_then = bench.published(), cpu_ns(bench.owner)
    return (cpu_then - cpu) / 1000 / max(messages_then - messages, 1)


def measure(bench: Bench, side: str, cores: str, pairs: int, seconds: float) -> Pairs:
    """Measure the pairs of one side; the order inside of a pair alternates."""
    found = []
    with bench.load(side) as pids:
        time.sleep(WARM_UP_S)
        for number in range(pairs):
            if number % 2:
                beside = window(bench, seconds)
            with stopped(pids):
                alone = window(bench, seconds)
            if not number % 2:
                beside = window(bench, seconds)
            found.append((alone, beside))
    made = Pairs(side, cores, tuple(found))
    say(
        f"{cores}, {side}: owner {made.alone:.0f} µs per message without, {made.change:+.1%} ± {made.margin:.1%} with it"
    )
    return made


def table(found: Sequence[Pairs]) -> str:
    """Return the table as Markdown."""
    lines = [
        "| cores | load | pairs | owner's CPU per message without it | change with it |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {one.cores} | {one.side} | {len(one.pairs)} | {one.alone:.0f} µs | {one.change:+.1%} ± {one.margin:.1%} |"
        for one in found
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; the exit status is 1 if it cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark.paired", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30, help="pairs of windows of each side (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of a window (default %(default)s)")
    parser.add_argument(
        "--messages", type=int, default=BACKLOG, help="messages of 1 KB in the backlog (default %(default)s)"
    )
    parser.add_argument(
        "--only", choices=("", *CORES), default=APART, help="distribution of cores (default: %(default)s)"
    )
    parser.add_argument("--side", choices=("", *SIDES), default="", help="only this load")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all pairs there")
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/spark-performance.md")
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help="first port (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the Pulsar running")
    arguments = parser.parse_args(argv)
    found = []
    with the_bench(arguments.base_port, arguments.messages, keep=arguments.keep) as bench:
        for cores in CORES:
            if arguments.only in {"", cores}:
                bench.share(cores)
                sides = [side for side in SIDES if arguments.side in {"", side}]
                found += [measure(bench, side, cores, arguments.pairs, arguments.seconds) for side in sides]
    made = table(found)
    print(made)  # noqa: T201
    machine = common.machine()
    if arguments.json:
        save_results(arguments.json, {"machine": machine, "pairs": [asdict(one) for one in found]})
    if arguments.write:
        note = (
            f"{machine}; pairs of windows of {arguments.seconds:g} s, {RATE:,g} messages per second; means, "
            "with their 95 % confidence intervals.\n"
        )
        common.write("paired", f"{note}\n{made}")
    return 0


if __name__ == "__main__":
    run_program(main)
