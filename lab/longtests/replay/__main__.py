"""`make -C lab replay`: a recorded week of messages is replayed to stock clients.

4 topics of 2 partitions get messages whose publish times are of a week; half of the topics are in tiered storage. Replays:

- a minute at the speeds 1 and 10: the drift of each message from the clock;
- the week within minutes, with two brokers, one of which is killed in the middle;
- the last messages at once, to stock clients in Python, Java and Go;
- the week at once, in alternation with a normal catch-up: the CPU of a broker for a message.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
import time
import uuid
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine.broker.pool.membership import POOLS_PATH
from readonly_engine.broker.replay.record import replay_folder
from readonly_engine.broker.replay.shared_record import change_record
from readonly_engine.config.replay import show_time
from readonly_engine.metadata.connect import store_at
from readonly_engine.metadata.url import MetadataUrl

from bench.cpu import cpu_seconds
from devstack.clients.drivers import command
from devstack.clients.versions import CLIENTS
from devstack.common import processes
from devstack.console import say
from devstack.errors import DevstackError
from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting
from longtests.compat.handles import new_client
from longtests.compat.process import Driver
from longtests.faults.table import write
from longtests.replay.arrivals import Consumers, Judged, ReceivedMessage, judge
from longtests.replay.recording import AGE_MS, BUSY, NAMESPACE, PARTITIONS, TOPICS, Recording, plan, publish
from longtests.replay.report import Owner, ReplayResult, table
from tests.support.stamp import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from readonly_engine.broker.replay.record import ReplayRecord
    from readonly_engine.topic.replay.clock import ReplayClock

    from devstack.clients.versions import ClientVersion

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "testing" / "messages.md"
MARKS: Final = ("<!-- replay: written by make -C lab replay REPLAY_OPTIONS=--write -->", "<!-- end of replay -->")
LEDGER_ENTRIES: Final = 20_000
SPEC: Final = PulsarSpec(
    name="replay",
    base_port=28550,
    bookies=1,
    brokers=1,
    quick=True,
    settings=(
        Setting("broker", "managedLedgerMaxEntriesPerLedger", str(LEDGER_ENTRIES)),
        Setting("broker", "managedLedgerMinLedgerRolloverTimeMinutes", "0"),
    ),
)
BINDING: Final = f"persistent://{NAMESPACE}/.*"
MAX_SPEED: Final = 1000.0
LEAD_S: Final = 5.0
"""Time of a paced replay before its first message."""

IDLE_S: Final = 20.0
LANGUAGE_MESSAGES: Final = 20_000
"""Messages of the replay for stock clients of each language."""

PATIENCE_S: Final = 300.0
DRIFT_MS: Final = 50.0
COST: Final = 1.2
MS_PER_S: Final = 1000


class Run:
    """One run.

    Args:
        stack: the running Pulsar.
        folder: for logs.
        recording: what was published.
    """

    def __init__(self, stack: PulsarCluster, folder: Path, recording: Recording) -> None:
        self._stack, self._folder, self._recording = stack, folder, recording
        self.rows: list[ReplayResult] = []

    @contextmanager
    def _pool(self, count: int, *options: str) -> Iterator[Pool]:
        name = uuid.uuid4().hex
        folder = self._folder / name
        folder.mkdir()
        pool = Pool(self._stack.endpoints, folder, name, ["--topics", BINDING, *options])
        try:
            pool.start(count)
            yield pool
        finally:
            pool.close()

    def paced(self, name: str, begin_ms: int, end_ms: int, speed: float, *, kill: bool = False) -> Judged:
        """Replay a window at a pace; kill one of two brokers in the middle if asked."""
        from_ms = begin_ms - int(LEAD_S * speed * MS_PER_S)
        window = self._recording.between(from_ms, end_ms)
        window_options = ["--replay-from", show_time(from_ms), "--replay-to", show_time(end_ms)]
        began = time.monotonic()
        with (
            self._pool(2 if kill else 1, *window_options, "--replay-speed", "0.01") as pool,
            closing(Consumers(pool.url, self._recording.topics, "paced")) as consumers,
        ):
            clock = asyncio.run(self._speed_up(replay_folder(f"{POOLS_PATH}/{pool.name}", from_ms, end_ms), speed))
            killed_ms = math.inf

            def meanwhile() -> None:
                nonlocal killed_ms
                if kill and killed_ms == math.inf and consumers.seen > len(window) // 2:
                    say(f"killing a broker after {consumers.seen:,} messages")
                    killed_ms = time.time() * MS_PER_S
                    pool.brokers[0].kill()

            consumers.wait(len(window), (end_ms - from_ms) / speed / MS_PER_S + PATIENCE_S, meanwhile)
            arrivals = list(consumers.arrivals)
        judged = judge(self._recording, window, arrivals, (clock.at_ms, clock.since_ms, speed), killed_ms)
        self._add(name, judged, time.monotonic() - began)
        return judged

    def week(self, speed: float) -> Owner:
        """Replay everything at a pace, with a kill; return what the owner did meanwhile."""
        idle = self._owner_cpu()
        time.sleep(IDLE_S)
        idle = (self._owner_cpu() - idle) / IDLE_S
        before, cpu, began = self._owner_totals(), self._owner_cpu(), time.monotonic()
        times = self._recording.times
        name = f"the week at speed {speed:g}, one of two brokers killed"
        self.paced(name, times[0], times[-1], speed, kill=True)
        seconds = time.monotonic() - began
        after = self._owner_totals()
        return Owner(after[0] - before[0], after[1] - before[1], (self._owner_cpu() - cpu) / seconds, idle)

    def language(self, client: ClientVersion) -> None:
        """Let a stock client read the last messages at once."""
        times = self._recording.times
        begin_ms = times[-min(LANGUAGE_MESSAGES, len(times))]
        window = self._recording.between(begin_ms, times[-1])
        began = time.monotonic()
        with (
            self._pool(1, "--replay-from", show_time(begin_ms), "--replay-speed", "unlimited") as pool,
            closing(Driver(command(client), self._folder / f"{client}.log")) as driver,
        ):
            handle = new_client(driver, pool.url)
            arrivals = []
            for topic in self._recording.topics:
                consumer = handle.consumer(topic, type="failover")
                expected = sum(
                    self._recording.topics[self._recording.partitions[one] // PARTITIONS] == topic for one in window
                )
                got = consumer.take(expected, ack=True) + consumer.take(1, timeout_ms=500)
                arrivals += [ReceivedMessage(int(message.value.split(" ", 1)[0]), 0.0) for message in got]
                consumer.close()
        self._add(
            f"the last ones at once, {client}", judge(self._recording, window, arrivals, None), time.monotonic() - began
        )

    def cost(self, name: str, *options: str) -> float:
        """Let a fresh broker serve everything at once; return its CPU microseconds for a message."""
        count = len(self._recording.times)
        began = time.monotonic()
        with self._pool(1, *options) as pool:
            pid = pool.brokers[0].process.pid
            before = cpu_seconds([pid])
            with closing(Consumers(pool.url, self._recording.topics, "all")) as consumers:
                consumers.wait(count, PATIENCE_S + count / 1000)
                spent = cpu_seconds([pid]) - before
                arrivals = list(consumers.arrivals)
        self._add(name, judge(self._recording, range(count), arrivals, None), time.monotonic() - began)
        return spent * 1e6 / count

    def _add(self, name: str, judged: Judged, seconds: float) -> None:
        self.rows.append(ReplayResult(name, judged, seconds))
        say(f"{name}: {judged} in {seconds:.1f} s")

    async def _speed_up(self, folder: str, speed: float) -> ReplayClock:
        """Let the clock run, now that the consumers are there."""
        store = store_at(MetadataUrl.parse(self._stack.endpoints.pool_store))
        await store.start()
        now_ms = time.time() * MS_PER_S

        def change(found: ReplayRecord | None) -> ReplayRecord:
            assert found is not None
            return found._replace(clock=found.clock.with_speed(speed, now_ms))

        try:
            return (await change_record(store, folder, change)).clock
        finally:
            await store.close()

    def _owner_cpu(self) -> float:
        running = processes.running(self._stack.state.record("broker-0"))
        if running is None:
            raise DevstackError("the owner broker has ended")
        return cpu_seconds([running.pid])

    def _owner_totals(self) -> tuple[int, int]:
        names = [self._recording.partition_name(one) for one in range(TOPICS * PARTITIONS)]
        stats = [self._stack.admin().stats(name) for name in names]
        return sum(one["msgOutCounter"] for one in stats), sum(one["bytesOutCounter"] for one in stats)


def newest_clients() -> list[ClientVersion]:
    """Return the newest client of each language."""
    return list({client.language: client for client in reversed(CLIENTS)}.values())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 1 if a message is lost, foreign or out of order, or a goal is missed."""
    parser = argparse.ArgumentParser(
        prog="make -C lab replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000_000, help="messages of the week (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the messages' partitions (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="catch-ups and replays at once (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table to docs/testing/messages.md")
    args = parser.parse_args(argv)
    recording = plan(args.count, int(time.time() * MS_PER_S) - AGE_MS, args.seed)
    stack = PulsarCluster(SPEC)
    catch_up, replayed = [], []
    try:
        stack.down(purge=True)
        stack.up()
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            offloaded = publish(stack, recording, Path(folder, "offloaded"))
            said = f"{len(recording.times):,} messages, {offloaded:,} of them offloaded"
            say(f"recorded {said}, in {time.monotonic() - began:.0f} s")
            run = Run(stack, Path(folder), recording)
            drifts = []
            for speed, busy in BUSY.items():
                begin_ms = recording.begin_ms + busy.begin_ms
                name = f"{busy.span_ms / MS_PER_S:g} s at speed {speed:g}"
                drifts.append(run.paced(name, begin_ms, begin_ms + busy.span_ms, speed).drift_ms[1])
            owner = run.week(MAX_SPEED)
            for client in newest_clients():
                run.language(client)
            for number in range(1, args.rounds + 1):
                catch_up.append(run.cost(f"normal catch-up {number}", "--cursors", "local"))
                first = show_time(recording.begin_ms)
                replayed.append(
                    run.cost(f"the week at once {number}", "--replay-from", first, "--replay-speed", "unlimited")
                )
    finally:
        stack.down(purge=True)
    rows = table(run.rows, owner, catch_up, replayed)
    sys.stdout.write("\n".join(rows) + "\n")
    if args.write:
        write(DOCUMENT, [stamp(), said + ":", "", *rows], MARKS)
    wrong = sum(row.judged.wrong for row in run.rows) + owner.messages
    dear = sorted(replayed)[len(replayed) // 2] > COST * sorted(catch_up)[len(catch_up) // 2]
    return int(wrong > 0 or dear or max(drifts) > DRIFT_MS)


if __name__ == "__main__":
    sys.exit(main())
