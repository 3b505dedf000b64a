"""`python -m bench.storage`: sequential reads of ledgers by the engine and by BookKeeper's own Java client.

Both read the same ledgers in the same run by turns, from bookies on this machine, and verify digests. The Java client reads entry
by entry (readAsync, as Pulsar's brokers do) and in batches (batchReadAsync). Then one and many readers read topics; the bookies'
counters have the reads of each entry.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import uvloop
from readonly_engine import collector
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.connect import store_at
from readonly_engine.metadata.url import MetadataUrl

from bench.document import machine
from bench.engine_client import read_ledger
from bench.java_client import JavaClient
from bench.reads import Reads, count_reads
from bench.reads import table as reads_table
from devstack.common.results import save_results
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution
from devstack.pulsar.spec import PulsarSpec, Setting

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "lab" / "bench" / "java" / "StorageBench.java"
DOCUMENT: Final = ROOT / "docs" / "explanation" / "performance-parts.md"
BEGIN: Final = "<!-- storage: made by make -C lab bench-storage -->"
END: Final = "<!-- end of storage -->"
BASE_PORT: Final = 24650
SINGLE_ENTRIES: Final = 20_000
"""Entries that the Java client reads one by one, which takes 0.2 ms each."""

WARM_UP: Final = 4
"""Reads of each ledger by Java before the measurement, so that its compiler has finished."""

ENGINE: Final = "engine"
CLIENTS: Final = (ENGINE, "java, in batches", "java, one by one")


@dataclass(frozen=True, slots=True)
class Shape:
    """Entries of one size.

    Attributes:
        name: name in the table.
        size: bytes of an entry.
        entries: number of entries to read.
        quick: the same with --quick.
    """

    name: str
    size: int
    entries: int
    quick: int


SHAPES: Final = (
    Shape("1 KB, unbatched", 1024, 200_000, 40_000),
    Shape("100 B, unbatched", 100, 200_000, 60_000),
    Shape("128 KB, batched", 128 * 1024, 2_000, 500),
)


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the rounds.

    Attributes:
        shape: the shape's name.
        client: one of CLIENTS.
        entries_per_cpu_s: entries per CPU second of the client.
        mb_per_cpu_s: megabytes per CPU second of the client.
        mb_per_s: megabytes per elapsed second; the bookies share the machine.
    """

    shape: str
    client: str
    entries_per_cpu_s: float
    mb_per_cpu_s: float
    mb_per_s: float


def summarize(shape: str, client: str, rounds: Sequence[dict[str, float]]) -> Result:
    """Return the medians over the rounds of one client."""
    return Result(
        shape,
        client,
        median(r["entries"] / r["cpu_s"] for r in rounds),
        median(r["bytes"] / 1e6 / r["cpu_s"] for r in rounds),
        median(r["bytes"] / 1e6 / r["wall_s"] for r in rounds),
    )


def table(results: Sequence[Result]) -> str:
    """Return the table as Markdown. The last column is the engine's entries per CPU second divided by the client's."""
    engine = {result.shape: result.entries_per_cpu_s for result in results if result.client == ENGINE}
    lines = [
        "| entries | client | entries per CPU second | MB per CPU second | MB/s | ratio, engine to client |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for result in results:
        ahead = "" if result.client == ENGINE else f"{engine[result.shape] / result.entries_per_cpu_s:.2f}"
        lines.append(
            f"| {result.shape} | {result.client} | {result.entries_per_cpu_s:,.0f} | {result.mb_per_cpu_s:,.0f} "
            f"| {result.mb_per_s:,.0f} | {ahead} |"
        )
    return "\n".join(lines)


def insert(document: str, made: str) -> str:
    """Put the table between its two marks."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


async def measure(stack: PulsarCluster, java: JavaClient, rounds: int, *, quick: bool) -> list[Result]:
    """Write the ledgers, read them by turns, and summarize."""
    store = store_at(MetadataUrl.parse(stack.endpoints.metadata_store))
    await store.start()
    cluster = ClusterMetadata(store)
    pool = BookiePool(cluster.bookie_address)
    results = []
    try:
        for shape in SHAPES:
            entries = shape.quick if quick else shape.entries
            say(f"{shape.name}: writing {entries:,} entries")
            written = await asyncio.to_thread(java.ask, f"write {entries} {shape.size} 2 2 2 CRC32C")
            ledger_id = written["ledger"]
            few = min(entries, SINGLE_ENTRIES)
            taken: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
            for _ in range(WARM_UP):
                await asyncio.to_thread(java.ask, f"read {ledger_id} {entries} batch")
            for number in range(-1, rounds):  # the first round is not counted
                say(f"{shape.name}: round {number + 1} of {rounds}")
                took = {ENGINE: await read_ledger(cluster, pool, ledger_id, entries, shape.size)}
                for client, count, mode in ((CLIENTS[1], entries, "batch"), (CLIENTS[2], few, "single")):
                    took[client] = await asyncio.to_thread(java.ask, f"read {ledger_id} {count} {mode}")
                for client, one in took.items():
                    expected = few if client == CLIENTS[2] else entries
                    if (one["entries"], one["bytes"]) != (expected, expected * shape.size):
                        raise DevstackError(f"{client} read {one}, not {expected} entries of {shape.size} bytes")
                    if number >= 0:
                        taken[client].append(one)
            results += [summarize(shape.name, client, taken[client]) for client in CLIENTS]
    finally:
        pool.close()
        await store.close()
    return results


def main(argv: list[str] | None = None) -> int:
    """Measure all shapes.

    Returns:
        The exit status: 0 for success, 1 if a shape cannot be measured.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.storage", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer entries and rounds; does not touch the document")
    parser.add_argument("--rounds", type=int, help="measured rounds per client and shape (default 5, quick 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--base-port", type=int, default=BASE_PORT, help="first port of the stack (default %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the stack running")
    arguments = parser.parse_args(argv)
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    stack = PulsarCluster(
        PulsarSpec(
            name="bench",
            base_port=arguments.base_port,
            bookies=2,
            brokers=1,
            # The measurement does not include the writes of ledgers.
            settings=(Setting("bookie", "journalSyncData", "false"),),
        )
    )
    stack.up()
    try:
        home = ensure_distribution(stack.spec.version)
        with JavaClient(SOURCE, home, stack.endpoints.metadata_store) as java:
            collector.tune_garbage_collector()  # as `serve` and the tool do
            results = uvloop.run(measure(stack, java, rounds, quick=arguments.quick))
        reads: list[Reads] = uvloop.run(count_reads(stack.endpoints))
    finally:
        if not arguments.keep:
            stack.down()
    made = f"{table(results)}\n\n{reads_table(reads)}"
    print(made)  # noqa: T201
    figures: dict[str, Any] = {
        "version": stack.spec.version,
        "machine": machine(),
        "rounds": rounds,
        "results": [{name: getattr(result, name) for name in result.__dataclass_fields__} for result in results],
        "reads": [{name: getattr(row, name) for name in row.__dataclass_fields__} for row in reads],
    }
    if arguments.json:
        save_results(arguments.json, figures)
    if not arguments.quick:
        note = f"Pulsar {figures['version']}, {figures['machine']}, median of {rounds} rounds.\n"
        DOCUMENT.write_text(insert(DOCUMENT.read_text(encoding="utf-8"), f"{note}\n{made}"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    run_program(main)
