"""`make -C lab matrix`: runs the suites on every release of Pulsar that the devstack has, and keeps one result for each.

A result replaces the earlier one of the same release and suite. So single cells can be run again with --only and --suite.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.document import machine
from devstack.cache import cache_root
from devstack.console import say
from devstack.program import run_program
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.spec import OXIA, STOCK_VERSION, ZOOKEEPER, default_state
from devstack.pulsar.state import running_stacks
from longtests.faults.table import write
from longtests.matrix.cells import Cell, load, merge, save
from longtests.matrix.page import BEGIN, END, table
from longtests.matrix.suites import SUITES, Sizes, Suite

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).resolve().parents[3]
DOCUMENT: Final = ROOT / "docs" / "reference" / "releases.md"
RESULTS: Final = Path(__file__).with_name("results.json")
RELEASE_VARIABLE: Final = "PULSAR_READONLY_PULSAR"
METADATA_VARIABLE: Final = "PULSAR_READONLY_METADATA"
STORES_VARIABLE: Final = "PULSAR_READONLY_STORES"
SECURE: Final = "secure"
RELEASES: Final = (
    STOCK_VERSION,
    *assembled_versions(),
    *(f"{version}+{OXIA}" for version in (STOCK_VERSION, *assembled_versions())),
    f"{STOCK_VERSION}+{SECURE}",
)
"""Releases, each on ZooKeeper and on Oxia, and one on ZooKeeper and bookies with TLS and logins."""

FORMER: Final = ("5.0.0-M1", f"5.0.0-M1+{OXIA}")
"""Releases whose results are kept, and which the devstack runs no more: the milestone before 5.0.1."""

MINUTES: Final = 10.0
ENTRIES: Final = 20_000


def run_cell(release: str, suite: Suite, sizes: Sizes, log: Path, environment: Mapping[str, str]) -> Cell:
    """Run a suite on a release.

    Args:
        release: the release.
        suite: the suite.
        sizes: sizes of the long suites.
        log: file for its output.
        environment: environment of the command; the release, and the end of its servers, are added.
    """
    argv = suite.argv(release, sizes)
    version, _, stores = release.partition("+")
    added = {RELEASE_VARIABLE: version, METADATA_VARIABLE: OXIA if stores == OXIA else ZOOKEEPER}
    if stores == SECURE:
        added[STORES_VARIABLE] = SECURE
    before = " ".join(f"{name}={value}" for name, value in added.items())
    shown = shlex.join(argv) if argv[0] == "make" else f"{before} {shlex.join(argv)}"
    say(f"{release}, {suite.name}: {shown}; output in {log}")
    command = [sys.executable, *argv[1:]] if argv[0] == "python" else argv
    # Servers that a suite leaves running would have the ports of the next release.
    added["KEEP_PULSAR"] = "0"
    date, begin = time.strftime("%Y-%m-%d", time.gmtime()), time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        code = subprocess.run(
            command, cwd=ROOT, env={**environment, **added}, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
    seconds = time.monotonic() - begin
    figures = suite.figures(log.read_text(errors="replace")) or f"no report; exit status {code}"
    say(f"{release}, {suite.name}: {'passed' if code == 0 else 'FAILED'} after {seconds / 60:.1f} minutes: {figures}")
    return Cell(release, suite.name, shown, date, round(seconds, 1), code == 0, figures, machine())


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 all passed, 1 a suite failed, 2 wrong usage or a stack that runs."""
    releases, names = list(RELEASES), [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(prog="make -C lab matrix", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=releases,
        default=releases,
        metavar="RELEASE",
        help=f"releases: {', '.join(releases)}",
    )
    parser.add_argument(
        "--suite", nargs="+", choices=names, default=names, metavar="NAME", help=f"suites: {', '.join(names)}"
    )
    parser.add_argument("--missing", action="store_true", help="run only cells without a result that passed")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="duration of churn (default %(default)g)")
    parser.add_argument("--entries", type=int, default=ENTRIES, help=f"entries of the oracle (default {ENTRIES:,})")
    parser.add_argument("--table", action="store_true", help="run nothing; write the page from the kept results")
    args = parser.parse_args(argv)
    if args.minutes <= 0 or args.entries < 1:
        parser.error("--minutes, --entries: give a positive number")
    running = [] if args.table else running_stacks(default_state("any").parent)
    if running:
        stops = "\n".join(f"  python -m devstack pulsar down --state {shlex.quote(str(path))}" for path in running)
        sys.stderr.write(f"a stack that runs has ports that the suites need, or takes their time; stop it:\n{stops}\n")
        return 2
    passed = {(cell.release, cell.suite) for cell in load(RESULTS) if cell.passed}
    wrong = 0
    for suite in SUITES if not args.table else ():
        for release in releases:
            if suite.name not in args.suite or release not in args.only:
                continue
            if (args.missing and (release, suite.name) in passed) or (release.endswith(SECURE) and not suite.secure):
                continue
            log = cache_root() / "matrix" / f"{release}-{suite.name}.log"
            cell = run_cell(release, suite, Sizes(args.minutes, args.entries), log, os.environ)
            wrong += not cell.passed
            # Loaded again, because another run may have added cells meanwhile.
            save(RESULTS, merge(load(RESULTS), cell))
            write(DOCUMENT, table(load(RESULTS)), (BEGIN, END))
    cells = load(RESULTS)
    write(DOCUMENT, table(cells), (BEGIN, END))
    sys.stdout.write("\n".join(table([c for c in cells if c.release in args.only and c.suite in args.suite])) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    run_program(main)
