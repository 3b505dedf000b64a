"""`python -m bench.versions CHECKOUT`: this engine beside that of another checkout, by turns, on the same topics.

Shows whether a change costs speed. Both read-only brokers serve the same topics of one Pulsar, each in a pool of its own; the
same clients read at one of them, then at the other. Each round starts new processes. The other checkout must have its own
`.venv` (`make venv`).
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.client import LoadClient
from bench.cluster import BASE_PORT, BenchCluster
from bench.figures import Sample, ratio
from bench.plan import ROUNDS, SECONDS, Plan
from bench.scenarios import fan_out, few_readers, growth, latency, saturation, shared
from bench.sides import WARM_UP, Measured, Workload, measure_side
from devstack.common.results import save_results
from devstack.console import say
from devstack.program import run_program
from devstack.pulsar.admin import AdminError

if TYPE_CHECKING:
    from collections.abc import Sequence

OLD: Final = "old"
NEW: Final = "new"

BENCHES: Final[dict[str, tuple[Workload, ...]]] = {
    "fan-out": fan_out.WORKS,
    "few-readers": (*few_readers.ONE, *few_readers.TOPICS, *few_readers.EACH),
    "shared": shared.WORKS,
    "latency": latency.BUSY,
    "isolated": latency.ISOLATED,
    "saturation": saturation.WORKS,
    "growth": (*growth.SUBSCRIBERS, *growth.RATES),
}
COLUMNS: Final = (
    "work",
    "old, µs per message",
    "new, µs",
    "new to old",
    "old, p99 ms",
    "new, p99 ms",
    "p99, new to old",
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both engines in one round."""

    old: Measured
    new: Measured


def cost_us(measured: Measured) -> float:
    """CPU of the read-only broker for each delivered message, in µs."""
    return measured.cpu["engine"] / max(measured.delivered, 1) * 1e6


def row(name: str, pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return the cells of one work; ratios are taken round by round."""
    old, new = [cost_us(pair.old) for pair in pairs], [cost_us(pair.new) for pair in pairs]
    old_ms, new_ms = [pair.old.latency_ms["p99"] for pair in pairs], [pair.new.latency_ms["p99"] for pair in pairs]
    return (
        name,
        Sample(tuple(old)).text(),
        Sample(tuple(new)).text(),
        ratio(new, old).text(),
        Sample(tuple(old_ms)).text(".1f"),
        Sample(tuple(new_ms)).text(".1f"),
        ratio(new_ms, old_ms).text(),
    )


def measure(cluster: BenchCluster, work: Workload, plan: Plan, seconds: float, python: str, warm_up: int) -> list[Pair]:
    """Measure one work in rounds; return the rounds after the warm-up.

    Args:
        cluster: the bench's Pulsar.
        work: readers and rate.
        plan: number of rounds.
        seconds: duration of each side.
        python: interpreter of the old engine.
        warm_up: number of rounds that do not count.
    """
    base = cluster.topic_name("versions")
    topic = base if work.topics == 1 else f"{base}-#"
    bound = topic if work.topics == 1 else f"{base}.*"
    publishing: dict[str, Any] = {
        "rate": work.rate,
        "size": work.size,
        "batched": work.batched,
        "topics": work.topics,
    }
    pairs = []
    topics = cluster.create_topics(topic, work.topics)
    with LoadClient("produce", broker=cluster.owner, topic=topic, **publishing) as publisher:
        for number in range(-warm_up, plan.rounds):
            measured = {}
            with ExitStack() as stack:
                # Two processes of the same code differ by up to 7 % for as long as they live (measured): new ones each round.
                sides = plan.turns(number, (OLD, NEW))
                engines = {
                    side: stack.enter_context(cluster.engine(bound, python=python if side == OLD else sys.executable))
                    for side in sides
                }
                for side in sides:
                    engine = engines[side]
                    measured[side] = measure_side(
                        cluster, work, topic, side, engine.address, engine, publisher, seconds
                    )
            pair = Pair(**measured)
            share = ratio([cost_us(pair.new)], [cost_us(pair.old)]).text()
            say(
                f"{work}: old {cost_us(pair.old):.2f} µs, new {cost_us(pair.new):.2f} µs, ratio {share}, round {number}"
            )
            pairs.append(pair)
    cluster.delete_topics(topics)
    return pairs[warm_up:]


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    made = argparse.ArgumentParser(
        prog="python -m bench.versions", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("checkout", type=Path, metavar="CHECKOUT", help="folder of the old version, with its .venv")
    made.add_argument(
        "name",
        nargs="*",
        metavar="NAME",
        help=f"which works: {', '.join(BENCHES)} (default: fan-out and shared)",
    )
    made.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="rounds (default %(default)s)")
    made.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="seconds of each side (default %(default)s)"
    )
    made.add_argument("--only", default="", metavar="TEXT", help="only works whose names contain this")
    made.add_argument("--out", type=Path, metavar="FILE", help="write all that was measured there, as JSON")
    made.add_argument(
        "--base-port", type=int, default=BASE_PORT, metavar="PORT", help="of its Pulsar (default %(default)s)"
    )
    return made


def main(argv: list[str] | None = None) -> int:
    """Measure; exit status 1 where a work cannot be measured, 2 for a wrong argument."""
    arguments = parser().parse_args(argv)
    python = arguments.checkout.resolve() / ".venv/bin/python"
    names = arguments.name or ["fan-out", "shared"]
    wrong = [name for name in names if name not in BENCHES]
    problem = (
        f"{python} does not exist: give the folder of a checkout, and run `make venv` in it"
        if not python.exists()
        else f"NAME {wrong[0]}: expected {', '.join(BENCHES)}"
        if wrong
        else "--rounds and --seconds must be above 0"
        if arguments.rounds < 1 or arguments.seconds <= 0
        else ""
    )
    if problem:
        print(f"bench.versions: {problem}", file=sys.stderr)  # noqa: T201
        return 2
    plan = Plan(arguments.rounds, arguments.seconds, only=arguments.only)
    raw = []
    print(f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}", flush=True)  # noqa: T201
    try:
        with BenchCluster(arguments.base_port) as cluster:
            warm_up = WARM_UP
            for name in names:
                seconds = latency.ISOLATED_S if name == "isolated" else plan.seconds
                for work in plan.pick(BENCHES[name], BENCHES[name]):
                    pairs = measure(cluster, work, plan, seconds, str(python), warm_up)
                    warm_up = 1
                    print(f"| {' | '.join(row(f'{name}: {work}', pairs))} |", flush=True)  # noqa: T201
                    raw.append({"bench": name, "work": asdict(work), "rounds": [asdict(pair) for pair in pairs]})
                    if arguments.out is not None:  # after each work: a later one may fail
                        save_results(arguments.out, raw)
    except (AdminError, OSError) as error:
        print(f"bench.versions: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    run_program(main)
