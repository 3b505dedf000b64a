"""`python -m bench NAME ...`: the read-only broker beside the owner of the same topics, in turns, with the same client.

Brings up a Pulsar of its own. CPU seconds are those of whole processes, in user and kernel mode.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.cluster import BASE_PORT, BenchCluster
from bench.document import page_of, save, write
from bench.plan import EXPLICIT_LAC_MS, ROUNDS, SECONDS, TAIL, Plan
from bench.scenarios import (
    catch_up,
    fan_out,
    few_readers,
    growth,
    idle_topics,
    latency,
    local_subscriptions,
    owner_loss,
    placement,
    saturation,
    shared,
    split,
    status_page,
    subscriptions,
)
from devstack.console import say
from devstack.program import run_program
from devstack.pulsar.admin import AdminError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.figures import Report

BENCHES: Final[dict[str, tuple[str, Callable[[BenchCluster, Plan], Report]]]] = {
    "fan-out": (fan_out.TITLE, fan_out.run),
    "saturation": (saturation.TITLE, saturation.run),
    "catch-up": (catch_up.TITLE, catch_up.run),
    "shared": (shared.TITLE, shared.run),
    "split": (split.TITLE, split.run),
    "split-limit": (split.LIMIT_TITLE, split.run_limit),
    "latency": (latency.TITLE, latency.run),
    "subscriptions": (subscriptions.TITLE, subscriptions.run),
    "local-subscriptions": (local_subscriptions.TITLE, local_subscriptions.run),
    "growth": (growth.TITLE, growth.run),
    "few-readers": (few_readers.TITLE, few_readers.run),
    "placement": (placement.TITLE, placement.run),
    "idle-topics": (idle_topics.TITLE, idle_topics.run),
    "owner-loss": (owner_loss.TITLE, owner_loss.run),
    "status-page": (status_page.TITLE, status_page.run),
}
ALL: Final = "all"
SETTINGS: Final = {"idle-topics": idle_topics.OWNER, "owner-loss": idle_topics.OWNER}
"""More settings of the Pulsar of a bench, which then has one of its own."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="benches:\n" + "\n".join(f"  {name:15} {title}" for name, (title, _) in BENCHES.items()),
    )
    made.add_argument("name", nargs="+", choices=[*BENCHES, ALL], metavar="NAME", help=f"bench to run, or {ALL}")
    made.add_argument(
        "--rounds",
        type=int,
        default=ROUNDS,
        metavar="N",
        help="measurements of each side (default %(default)s)",
    )
    made.add_argument("--seconds", type=float, default=SECONDS, help="duration of a measurement (default %(default)s)")
    made.add_argument("--short", action="store_true", help="few shapes, as a check of the bench itself")
    made.add_argument("--only", default="", metavar="TEXT", help="only shapes whose names contain this")
    made.add_argument(
        "--transactions",
        action="store_true",
        help="turn transactions on in its Pulsar (transactionCoordinatorEnabled); no message is in a transaction",
    )
    made.add_argument(
        "--tail",
        choices=("auto", "bookies", "owner"),
        default=TAIL,
        help="source of new entries of the read-only brokers (default %(default)s)",
    )
    made.add_argument(
        "--explicit-lac-ms",
        type=int,
        default=EXPLICIT_LAC_MS,
        metavar="MS",
        help="the owner's bookkeeperExplicitLacIntervalInMills, 0 for off (default %(default)s)",
    )
    made.add_argument("--write", action="store_true", help="put tables and plots into docs/explanation/performance*.md")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="write JSON and plots to this folder")
    made.add_argument(
        "--base-port", type=int, default=BASE_PORT, metavar="PORT", help="of its Pulsar (default %(default)s)"
    )
    made.add_argument("--keep", action="store_true", help="leave its Pulsar running")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the benches.

    Returns:
        The exit status: 0 for success, 1 if a bench cannot be measured, 2 for invalid options.
    """
    arguments = parser().parse_args(argv)
    if arguments.rounds < 1 or arguments.seconds <= 0:
        print("bench: --rounds and --seconds must be above 0", file=sys.stderr)  # noqa: T201
        return 2
    if arguments.explicit_lac_ms < 0:
        print("bench: --explicit-lac-ms must be 0 (off) or milliseconds", file=sys.stderr)  # noqa: T201
        return 2
    plan = Plan(
        arguments.rounds,
        arguments.seconds,
        arguments.short,
        arguments.only,
        arguments.transactions,
        arguments.tail,
        arguments.explicit_lac_ms,
    )
    names = list(BENCHES) if ALL in arguments.name else list(dict.fromkeys(arguments.name))
    if arguments.write and (lacking := [plan.named(name) for name in names if page_of(plan.named(name)) is None]):
        print(  # noqa: T201
            f"bench: --write: the document has no place for {', '.join(lacking)}; use --out FOLDER", file=sys.stderr
        )
        return 2
    try:
        usual = [name for name in names if name not in SETTINGS]
        for together in filter(None, (usual, *([name] for name in names if name in SETTINGS))):
            more = SETTINGS.get(together[0], ())
            with BenchCluster(arguments.base_port, keep=arguments.keep, plan=plan, settings=more) as cluster:
                for name in together:
                    _run(cluster, name, plan, arguments)
    except (AdminError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _run(cluster: BenchCluster, name: str, plan: Plan, arguments: argparse.Namespace) -> None:
    """Run one bench, print its table, and write what the arguments ask for."""
    title, run = BENCHES[name]
    say(f"bench {name}: {title}")
    report = run(cluster, plan)
    report.expect_rows(name, plan.only)
    print(f"{title}\n\n{report.table()}\n", *report.notes, sep="\n", flush=True)  # noqa: T201
    settings = {"Pulsar": cluster.version, **asdict(plan)}
    if arguments.out is not None:
        save(report, plan.named(name), title, settings, arguments.out)
    if arguments.write:
        how = plan.described(report.how) if report.how else str(plan)
        write(report, plan.named(name), title, settings, f"Pulsar {cluster.version}, {how}")


if __name__ == "__main__":
    run_program(main)
