"""`make hostile`: raw-socket clients that keep to no rule, at an owner and at a pool, with an innocent client beside each."""

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
from tests.faults.table import write
from tests.hostile.attacks import ATTACKS
from tests.hostile.run import run_attack, worse
from tests.hostile.table import BEGIN, END, table

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
SPEC: Final = PulsarSpec(name="hostile", base_port=29700, bookies=1, brokers=1, quick=True)
TOPICS: Final = "persistent://public/default/hostile-"


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0 the pool is nowhere worse, 1 it is, 2 wrong usage."""
    names = [attack.name for attack in ATTACKS]
    parser = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="CLIENT", help=", ".join(names))
    parser.add_argument("--write", action="store_true", help="put the table into docs/testing.md")
    parser.add_argument("--keep", action="store_true", help="leave the stack running")
    args = parser.parse_args(argv)
    stack = PulsarCluster(SPEC)
    outcomes = {}
    wrong = 0
    try:
        stack.up()
        with tempfile.TemporaryDirectory() as folder:
            pool = Pool(stack.endpoints, Path(folder), "hostile", ["--topics", f"{TOPICS}.*"])
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
            finally:
                pool.close()
    except DevstackError as error:
        say(f"FAULT {error}")
        wrong += 1
    finally:
        if not args.keep:
            stack.down(purge=True)
    rows = table(outcomes)
    sys.stdout.write("\n".join(rows) + "\n")
    if args.write and outcomes:
        write(DOCUMENT, rows, (BEGIN, END))
    return 1 if wrong else 0


if __name__ == "__main__":
    run_program(main)
