"""`make -C lab frameworks`: programs of frameworks at the owner and through a pool, also while servers are disturbed."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from devstack.pulsar.cluster import PulsarCluster
from longtests.faults.table import write
from longtests.frameworks.build import ensure_built
from longtests.frameworks.cases import BY_NAME, CASES
from longtests.frameworks.program import TYPES, load_programs
from longtests.frameworks.results import load, merge, save
from longtests.frameworks.run import Job, Runs
from longtests.frameworks.stack import SPEC
from longtests.frameworks.table import BEGIN, END, problems, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtests.frameworks.cases import Case
    from longtests.frameworks.program import Program
    from longtests.frameworks.results import Result

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "reference" / "frameworks.md"
RESULTS: Final = Path(__file__).with_name("results.json")
_WORKERS: Final = 2


def jobs_of(programs: Sequence[Program], types: Sequence[str], cases: Sequence[Case]) -> list[Job]:
    """Return the runs of programs: each type in each case, the first type of all programs first.

    Only the first type reads partitions, and asks a pool's HTTP port.
    """
    found = []
    for number in range(len(TYPES)):
        for program in programs:
            found += [
                Job(program, type_, case)
                for type_ in program.types[number : number + 1]
                for case in cases
                if type_ in types
                and (number == 0 or not (case.partitions or case.admin_of_pool))
                and (program.partitions or not case.partitions)
                and (program.admin or not case.admin_of_pool)
            ]
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 all equal or explained, 1 not so, 2 wrong usage."""
    programs = load_programs()
    names = [program.name for program in programs]
    parser = argparse.ArgumentParser(prog="make -C lab frameworks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--case", nargs="+", choices=list(BY_NAME), default=list(BY_NAME), help="default: all")
    parser.add_argument("--type", nargs="+", choices=TYPES, default=TYPES, help="default: all of the program")
    parser.add_argument("--workers", type=int, default=_WORKERS, help="runs at a time (default %(default)s)")
    parser.add_argument(
        "--write", action="store_true", help=f"keep the results, and write docs/reference/{DOCUMENT.name}"
    )
    parser.add_argument("--build", action="store_true", help="build the programs, and run nothing")
    parser.add_argument("--table", action="store_true", help="run nothing; write the page from the kept results")
    parser.add_argument("--keep", action="store_true", help="keep the stack and its data")
    parser.add_argument("--logs", type=Path, help="folder of logs (default: a temporary one)")
    args = parser.parse_args(argv)
    if args.workers < 1:
        parser.error(f"--workers {args.workers}: give 1 or more")
    if args.build:
        for program in programs:
            if program.name in args.only:
                say(f"{program.name}: {ensure_built(program)}")
        return 0
    logging.getLogger().addHandler(logging.NullHandler())
    results: list[Result] = []
    if not args.table:
        cases = [case for case in CASES if case.name in args.case]
        jobs = jobs_of([program for program in programs if program.name in args.only], args.type, cases)

        def keep(result: Result) -> None:
            if args.write:
                # Loaded again, because another run may have added results meanwhile.
                save(RESULTS, merge(load(RESULTS), result))

        stack = PulsarCluster(SPEC)
        with tempfile.TemporaryDirectory() as temporary:
            folder = args.logs or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                stack.up()
                results = Runs(stack, folder, args.workers).run(jobs, keep)
            except DevstackError as error:
                say(f"frameworks: {error.text}")
                return 2
            finally:
                if not args.keep:
                    stack.down(purge=True)
    kept = load(RESULTS) if args.table or args.write else results
    if args.table or args.write:
        write(DOCUMENT, tables(programs, kept), (BEGIN, END))
    wrong = problems(kept if args.table else results)
    sys.stdout.write("\n".join(tables(programs, kept)) + "\n")
    for each in wrong:
        say(f"ERROR: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    run_program(main)
