"""`make -C lab churn`: consumers of all four types connect and disconnect while brokers are killed and topics are unloaded."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import sys

from devstack.cache import cache_root
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from devstack.pulsar.cluster import PulsarCluster
from longtests.churn.plan import make_plan
from longtests.churn.report import lines
from longtests.churn.run import BROKERS, RATE, ChurnError, Run
from longtests.churn.stack import SPEC

TOPICS = 2


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 no errors, 1 errors, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="make -C lab churn", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeats a plan (default: a new one)")
    parser.add_argument("--minutes", type=float, default=10.0, help="duration of the churn (default %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=RATE, help="messages per second in each topic (default %(default)s)"
    )
    parser.add_argument("--direct", action="store_true", help="clients connect to the owners, to test a stock broker")
    parser.add_argument("--local-cursors", action="store_true", help="the pool keeps the cursors itself")
    parser.add_argument(
        "--split",
        action="store_true",
        help="all brokers serve each Shared and Key_Shared subscription (dispatch: Split); with --local-cursors each Shared one",
    )
    parser.add_argument("--keep", action="store_true", help="keep the stack and its data")
    args = parser.parse_args(argv)
    if args.direct and (args.local_cursors or args.split):
        parser.error("--local-cursors and --split are of a pool; omit --direct")
    seed = random.SystemRandom().randrange(1 << 31) if args.seed is None else args.seed
    kind = "".join(f"-{name}" for name in ("direct", "local_cursors", "split") if getattr(args, name))
    folder = cache_root() / "churn" / f"{SPEC.version}-{seed}{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Warnings of libraries about servers that are down would hide the progress.
    logging.getLogger().addHandler(logging.NullHandler())
    plan = make_plan(seed, args.minutes * 60, TOPICS, 0 if args.direct else BROKERS)
    say(f"seed {seed}, {len(plan.steps)} steps, {'at the owners' if args.direct else f'{BROKERS} read-only brokers'}")
    stack = PulsarCluster(SPEC)
    try:
        stack.up()
        run = Run(stack, plan, folder, direct=args.direct, local=args.local_cursors, split=args.split, rate=args.rate)
        outcome = asyncio.run(run.run())
    except (ChurnError, DevstackError) as error:
        say(f"churn: {error}")
        return 1
    finally:
        if not args.keep:
            stack.down(purge=True)
    sys.stdout.write("\n".join(lines(outcome)) + "\n")
    return 0 if outcome.passed else 1


if __name__ == "__main__":
    run_program(main)
