"""`python -m bench.spark.paired`: how much the owner's CPU moves while something runs beside it, in pairs of short windows.

A machine that others use too is quicker in one minute than in the next, by more than what is looked for. So Spark reads
all the time, and is stopped and let go on (SIGSTOP, SIGCONT) every few seconds: each window with it is compared with the one
without it right after, and the mean of many such pairs tells small differences. Programs that only count are stopped and let go
on in the same way, for comparison.
"""

from __future__ import annotations

import argparse
import json
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
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.spark.beside import Bench

SIDES: Final = (SPARK, LIMITED, BUSY)
SETTLE_S: Final = 0.5
WARM_UP_S: Final = 10.0
T_95: Final = 2.0
"""Student's t for 95 % and twenty pairs or more, about."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """What was measured of one side.

    Attributes:
        side: one of SIDES.
        cores: one of `beside.CORES`.
        pairs: the owner's CPU for a message in µs, without the load and with it.
    """

    side: str
    cores: str
    pairs: tuple[tuple[float, float], ...]

    @property
    def change(self) -> float:
        """By which part the owner's CPU is higher with the load, on the average."""
        return mean(beside for _, beside in self.pairs) / self.alone - 1

    @property
    def alone(self) -> float:
        """The owner's CPU for a message without it, µs."""
        return mean(alone for alone, _ in self.pairs)

    @property
    def margin(self) -> float:
        """How far from `change` the truth may be, in 19 of 20 cases."""
        differences = [beside - alone for alone, beside in self.pairs]
        return T_95 * stdev(differences) / math.sqrt(len(differences)) / self.alone


def cpu_ns(pid: int) -> int:
    """Nanoseconds of CPU that the threads of a process have used that run now; finer than the ticks of its own sum."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            total += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return total


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """While this is entered, processes and their children do not run."""
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
    """The owner's CPU for a message in a short time, µs."""
    time.sleep(SETTLE_S)
    messages, cpu = bench.published(), cpu_ns(bench.owner)
    time.sleep(seconds)
    messages_then, cpu_then = bench.published(), cpu_ns(bench.owner)
    return (cpu_then - cpu) / 1000 / max(messages_then - messages, 1)


def measure(bench: Bench, side: str, cores: str, pairs: int, seconds: float) -> Pairs:
    """Pairs of one side; of each the one that comes first changes."""
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
    say(f"{cores}, {side}: owner {made.alone:.0f} µs a message without, {made.change:+.1%} ± {made.margin:.1%} with it")
    return made


def table(found: Sequence[Pairs]) -> str:
    """Markdown."""
    lines = [
        "| cores | beside the publisher | pairs | owner's CPU a message without it | change with it |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {one.cores} | {one.side} | {len(one.pairs)} | {one.alone:.0f} µs | {one.change:+.1%} ± {one.margin:.1%} |"
        for one in found
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; exit status 1 where it could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark.paired", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30, help="of windows, for each side (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each window (default %(default)s)")
    parser.add_argument("--messages", type=int, default=BACKLOG, help="of 1 KB in the backlog (default %(default)s)")
    parser.add_argument(
        "--only", choices=("", *CORES), default=APART, help="with the cores used so (default: %(default)s)"
    )
    parser.add_argument("--side", choices=("", *SIDES), default="", help="beside this only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all pairs there")
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/spark-performance.md")
    parser.add_argument("--base-port", type=int, default=BASE_PORT, help="first port (default %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the Pulsar running")
    arguments = parser.parse_args(argv)
    found = []
    try:
        with the_bench(arguments.base_port, arguments.messages, keep=arguments.keep) as bench:
            for cores in CORES:
                if arguments.only in {"", cores}:
                    bench.share(cores)
                    sides = [side for side in SIDES if arguments.side in {"", side}]
                    found += [measure(bench, side, cores, arguments.pairs, arguments.seconds) for side in sides]
    except DevstackError as error:
        return common.give_up("bench.spark.paired", error)
    made = table(found)
    print(made)  # noqa: T201
    machine = common.machine()
    if arguments.json:
        text = json.dumps({"machine": machine, "pairs": [asdict(one) for one in found]}, indent=1)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    if arguments.write:
        note = (
            f"{machine}; pairs of windows of {arguments.seconds:g} s, {RATE:,g} messages a second; means, and how far "
            "from them the truth may be in 19 of 20 cases.\n"
        )
        common.write("paired", f"{note}\n{made}")
    return 0


if __name__ == "__main__":
    run_program(main)
