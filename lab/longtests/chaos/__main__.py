"""`make -C lab chaos` and `make -C lab soak`: random faults on a pool and its cluster, and a check of every message."""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import random
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from longtests.chaos import curves, report, runs
from longtests.chaos.net import enter
from longtests.chaos.plan import CHAOS_GAP_S, SOAK_GAP_S, make_plan
from longtests.chaos.run import RATE, ChaosError, Run
from longtests.chaos.verdict import Limits
from longtests.faults.table import write
from tests.support.stamp import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtests.chaos.run import Outcome
    from longtests.chaos.runs import RunResult

DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
RESULTS: Final = Path(__file__).with_name("results.json")


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 no errors, 1 errors, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="make -C lab chaos", description=__doc__)
    parser.add_argument("--seed", type=int, nargs="+", help="seeds of plans, one run each (default: a new one)")
    parser.add_argument(
        "--minutes", type=float, default=15.0, help="duration of the faults in each run (default %(default)s)"
    )
    parser.add_argument("--local-cursors", action="store_true", help="the pool keeps the cursors")
    parser.add_argument(
        "--split",
        action="store_true",
        help="all brokers serve each Shared and Key_Shared subscription (dispatch: Split); with --local-cursors each Shared one",
    )
    parser.add_argument("--gap", type=float, help=f"seconds between faults (default {CHAOS_GAP_S:g})")
    parser.add_argument(
        "--soak",
        action="store_true",
        help=f"a fault every {SOAK_GAP_S:g} s; memory, files, tasks and latency must be flat",
    )
    parser.add_argument(
        "--rate", type=float, default=RATE, help="messages per second and producer (default %(default)s)"
    )
    parser.add_argument(
        "--two-at-once",
        type=float,
        default=Limits().two_at_once_s,
        metavar="SECONDS",
        help="seconds in which two consumers of an Exclusive may be served (default %(default)s)",
    )
    parser.add_argument("--write", action="store_true", help="write these and earlier results to docs/")
    parser.add_argument("--keep", action="store_true", help="keep servers and namespaces")
    args = parser.parse_args(argv)
    if args.soak and (args.local_cursors or args.split):
        parser.error(
            "--soak: not with --local-cursors or --split; its results are of owners' cursors and one broker each"
        )
    seeds = args.seed or [random.SystemRandom().randrange(1 << 31)]
    gap = args.gap or (SOAK_GAP_S if args.soak else CHAOS_GAP_S)
    # Warnings of libraries about servers that are down would hide the progress.
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    outcomes, failed = [], False
    name = "soak" if args.soak else "chaos"
    with _alone(name):
        for seed in seeds:
            folder = cache_root() / "chaos" / f"{'soak-' if args.soak else ''}{seed}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            plan = make_plan(seed, args.minutes * 60, gap)
            limits = Limits(two_at_once_s=args.two_at_once)
            home = os.open("/proc/self/ns/net", os.O_RDONLY)
            try:
                run = Run(
                    plan,
                    folder,
                    limits,
                    rate=args.rate,
                    local=args.local_cursors,
                    split=args.split,
                    flat=args.soak,
                    name=name,
                )
                outcome = run.run(keep=args.keep)
            except (ChaosError, DevstackError) as error:
                say(f"chaos: seed {seed}: {error}; histories and logs: {folder}")
                failed = True
                continue
            finally:
                enter(home)
                os.close(home)
            rows = report.lines(outcome)
            (folder / "report.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
            sys.stdout.write("\n".join(rows) + "\n")
            sys.stdout.flush()
            outcomes.append(outcome)
            failed = failed or not outcome.passed
    if args.write and outcomes:
        results = [
            report.result(outcome, args.minutes, local=args.local_cursors, split=args.split, gap=args.gap or 0.0)
            for outcome in outcomes
        ]
        _write(results, outcomes[-1] if args.soak else None)
    return 1 if failed else 0


def _write(results: list[RunResult], soak: Outcome | None) -> None:
    """Write the table to docs/testing/chaos.md: of a soak alone, or of all runs in the file of results."""
    if soak is None:
        kept = runs.add(RESULTS, results)
        rows = [runs.summary(kept), "", *runs.table(kept)]
        write(DOCS / "testing" / "chaos.md", rows, (report.BEGIN, report.END))
        return
    picture = DOCS / "testing" / "soak.svg"
    picture.parent.mkdir(exist_ok=True)
    picture.write_text(curves.draw_soak(soak), encoding="utf-8")
    rows = [stamp(), f"Seed {results[-1].seed}, {results[-1].minutes:g} minutes.", "", *runs.table(results)]
    rows += ["", "![memory, open files, tasks and latency over time](soak.svg)"]
    write(DOCS / "testing" / "chaos.md", rows, (report.SOAK_BEGIN, report.SOAK_END))


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Allow one run of a name at a time on this machine: namespaces and servers have this name."""
    path = cache_root() / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DevstackError(f"another run of make {name} is under way", "wait until it ends") from None
        yield


if __name__ == "__main__":
    run_program(main)
