"""`make -C lab compat`: compares observations of stock clients at the owner and through a pool, feature by feature."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from devstack.clients import CLIENTS, command
from devstack.clients.versions import select
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from devstack.pulsar.cluster import PulsarCluster
from longtests.compat import table
from longtests.compat.cells import Verdict
from longtests.compat.run import Named, Run
from longtests.compat.scenarios.catalogue import SCENARIOS, SPLIT_SCENARIOS
from longtests.compat.stack import SPEC, make_place
from tests.support.stamp import stamp

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "compatibility.md"
_WORKERS = 10


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 all equal or explained, 1 not so, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="make -C lab compat", description=__doc__)
    parser.add_argument(
        "--clients",
        nargs="+",
        default=[],
        metavar="CLIENT",
        help=f"languages, or some of: {', '.join(map(str, CLIENTS))}",
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="SCENARIO", help="rows, by the names of their functions"
    )
    parser.add_argument(
        "--workers", type=int, default=_WORKERS, help=f"number of concurrent scenarios (default {_WORKERS})"
    )
    parser.add_argument(
        "--cursors",
        choices=("owner", "local"),
        default="owner",
        help="keeper of the pool's cursors (default %(default)s)",
    )
    parser.add_argument("--split", action="store_true", help="both brokers serve each subscription (dispatch: Split)")
    parser.add_argument("--write", action="store_true", help="write the table to docs/reference/compatibility.md")
    parser.add_argument("--keep", action="store_true", help="keep the stack and its data")
    parser.add_argument("--logs", type=Path, help="folder of logs (default: a temporary one)")
    parser.add_argument("--resume", action="store_true", help="resume the run whose results are in --logs")
    args = parser.parse_args(argv)
    offered = SPLIT_SCENARIOS if args.split else SCENARIOS
    names = {scenario.name for scenario in offered}
    if unknown := sorted(set(args.only) - names):
        parser.error(f"--only {' '.join(unknown)}: no such scenario")
    if args.write and (args.only or args.clients or args.split or args.cursors != "owner"):
        parser.error(
            "--write: the table needs all clients and scenarios; omit --only, --clients, --split and --cursors"
        )
    if args.resume and not args.logs:
        parser.error("--resume: give the folder of the results with --logs")
    logging.getLogger().addHandler(logging.NullHandler())
    scenarios = [scenario for scenario in offered if not args.only or scenario.name in args.only]
    stack = PulsarCluster(SPEC)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            clients = [Named(str(client), tuple(command(client))) for client in select(args.clients)]
            stack.up()
            matrix = Run(
                stack,
                make_place(stack, folder),
                folder,
                args.workers,
                resume=args.resume,
                cursors=args.cursors,
                split=args.split,
            ).run(scenarios, clients)
        except DevstackError as error:
            say(f"compat: {error.text}")
            return 2
        finally:
            if not args.keep:
                stack.down(purge=True)
    lines = table.table(matrix)
    sys.stdout.write("\n".join(lines) + "\n")
    for (scenario, client), cell in matrix.cells.items():
        if cell.tries > 1 and cell.verdict is Verdict.EQUAL:
            say(f"equal at the second try: {scenario}, {client}; at the first: {cell.first}")
    wrong = table.unexplained(matrix)
    for each in wrong:
        say(f"ERROR: {each}")
    if args.write:
        table.write(DOCUMENT, [stamp(), *lines])
    return 1 if wrong else 0


if __name__ == "__main__":
    run_program(main)
