"""`make -C lab oracle`: compares the storage layer with the stock owner, on random workloads. Exit status 0: no difference."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys

from devstack.console import say
from devstack.program import run_program
from devstack.pulsar.cluster import PulsarCluster
from longtests.oracle.run import Options, Run
from longtests.oracle.stack import SPEC

FULL_ENTRIES = 200_000
_TOPICS = 50
_ENTRIES_PER_TRANSACTION = 2_000
_TRANSACTIONS = (4, 30)
"""Minimum and maximum for each topic with transactions; each takes 0.1 s, regardless of its messages."""


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return number


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 equal, 1 different, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="make -C lab oracle", description=__doc__)
    parser.add_argument("--seed", type=int, help="seed of a run to repeat (default: a new one, which is printed)")
    parser.add_argument("--entries", type=_positive, default=FULL_ENTRIES, help=f"default {FULL_ENTRIES:,}")
    parser.add_argument("--topics", type=_positive, default=_TOPICS, help=f"default {_TOPICS}")
    parser.add_argument("--no-restarts", action="store_true", help="do not restart brokers and bookies")
    parser.add_argument("--keep", action="store_true", help="keep the stack and its data")
    args = parser.parse_args(argv)
    # Warnings of the engine and its libraries about servers that are down would hide the progress.
    logging.getLogger().addHandler(logging.NullHandler())
    seed = random.SystemRandom().randrange(1 << 31) if args.seed is None else args.seed
    options = Options(
        seed=seed,
        entries=args.entries,
        topics=args.topics,
        transactions=min(max(_TRANSACTIONS[0], args.entries // _ENTRIES_PER_TRANSACTION), _TRANSACTIONS[1]),
        restarts=not args.no_restarts,
    )
    say(f"oracle: seed {seed}, {options.entries:,} entries over {options.topics} topics")
    stack = PulsarCluster(SPEC)
    try:
        stack.up()
        report = asyncio.run(Run(stack, options).run())
    finally:
        if not args.keep:
            stack.down(purge=True)
    sys.stdout.write("\n".join(report.lines()) + "\n")
    if not report.passed:
        say(f"FAILED; repeat it with: make -C lab oracle SEED={seed} ENTRIES={args.entries}")
    return 0 if report.passed else 1


if __name__ == "__main__":
    run_program(main)
