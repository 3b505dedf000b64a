"""`make -C lab hostile`: clients that violate the protocol, on an owner and on a pool, each beside an innocent client."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from devstack.console import say
from devstack.errors import DevstackError
from devstack.pool import Pool
from devstack.program import run_program
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec
from longtests.faults.table import write
from longtests.hostile.attacks import ATTACKS
from longtests.hostile.commands import ROWS, broker_counts, run_row, settled, worse_row
from longtests.hostile.run import run_attack, worse
from longtests.hostile.table import BEGIN, COMMANDS_BEGIN, COMMANDS_END, END, commands_table, table
from tests.support.stamp import stamp
from tests.support.waiting import wait_until

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "testing" / "hostile-clients.md"
SPEC: Final = PulsarSpec(name="hostile", base_port=29700, bookies=1, brokers=1, quick=True)
TOPICS: Final = "persistent://public/default/hostile-"
SETTLED_S: Final = 60.0


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 if the pool is nowhere worse, 1 if it is, 2 for wrong usage."""
    names = [*(attack.name for attack in ATTACKS), *(row.name for row in ROWS)]
    parser = argparse.ArgumentParser(prog="make -C lab hostile", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="CLIENT", help=", ".join(names))
    parser.add_argument("--local-cursors", action="store_true", help="the pool keeps the cursors")
    parser.add_argument("--write", action="store_true", help="put the table into docs/testing/hostile-clients.md")
    parser.add_argument("--keep", action="store_true", help="leave the stack running")
    args = parser.parse_args(argv)
    if args.local_cursors and args.write:
        parser.error("--write: not with --local-cursors; the tables are of owners' cursors")
    keeper = ["--cursors", "local", "--cursor-partitions", "1"] if args.local_cursors else []
    stack = PulsarCluster(SPEC)
    outcomes, reactions = {}, {}
    wrong = 0
    try:
        stack.up()
        with tempfile.TemporaryDirectory() as folder:
            pool = Pool(stack.endpoints, Path(folder), "hostile", ["--topics", f"{TOPICS}.*", *keeper])
            try:
                (broker,) = pool.start()
                for attack in [each for each in ATTACKS if each.name in args.only]:
                    owner, served = (
                        run_attack(attack, url, TOPICS) for url in (stack.endpoints.writer_url, broker.url)
                    )
                    outcomes[attack] = (owner, served)
                    faults = worse(owner, served)
                    wrong += bool(faults)
                    say(f"{attack.title}: {owner} | {served}{''.join(f'; FAULT {fault}' for fault in faults)}")
                before = broker_counts(broker)
                for row in [each for each in ROWS if each.name in args.only]:
                    both = run_row(row, stack.endpoints.writer_url, TOPICS), run_row(row, broker.url, TOPICS)
                    reactions[row] = both
                    faults = worse_row(*both)
                    wrong += bool(faults)
                    say(f"{row.title}: {both}{''.join(f'; FAULT {fault}' for fault in faults)}")
                wait_until(lambda: settled(before, broker_counts(broker)), SETTLED_S, f"the counts are {before} again")
            finally:
                pool.close()
    except DevstackError as error:
        say(f"FAULT {error.text}")
        wrong += 1
    finally:
        if not args.keep:
            stack.down(purge=True)
    tables = ((table(outcomes), (BEGIN, END)), (commands_table(reactions), (COMMANDS_BEGIN, COMMANDS_END)))
    for (rows, marks), found in zip(tables, (outcomes, reactions), strict=True):
        sys.stdout.write("\n".join(rows) + "\n")
        if args.write and found:
            write(DOCUMENT, [stamp(), *rows], marks)
    return 1 if wrong else 0


if __name__ == "__main__":
    run_program(main)
