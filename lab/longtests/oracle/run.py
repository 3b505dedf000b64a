"""One run of the oracle: publish, disturb, follow, then compare every log in storage with the deliveries of its owner."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine.topic.position import EARLIEST

from devstack.console import say
from longtests.oracle import owner, storage
from longtests.oracle.compare import Comparison, compare, stored_frame
from longtests.oracle.disturb import Disturbances
from longtests.oracle.follow import LogFollower
from longtests.oracle.publish import Publisher, make_keys
from longtests.oracle.transactions import Ended, publish_transactions
from longtests.oracle.workload import ROUNDS, plan_rounds, plan_topics

if TYPE_CHECKING:
    from devstack.pulsar.cluster import PulsarCluster
    from longtests.oracle.storage import Floor
    from longtests.oracle.workload import Round

CONSUMER_ID: Final = 0
FOLLOWED: Final = 6
"""Number of logs with a reader at the tail during writes and disturbances; more readers would starve the writers."""

QUORUMS: Final = ((2, 2, 2), (3, 2, 2))
"""Ensemble size, write quorum, ack quorum: each bookie has all entries of a ledger, or (odd seeds) three bookies share them."""

TRANSACTION_TURNS: Final = (1, ROUNDS - 1)
"""Rounds after which transactions are written too."""

_SETTLE_S: Final = 60.0
_SAY_EVERY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    Attributes:
        seed: determines the workload.
        entries: minimum number of entries to write.
        topics: number of topics.
        transactions: number for each topic with transactions; 0 for none.
        restarts: whether brokers and bookies are restarted and killed.
    """

    seed: int
    entries: int
    topics: int
    transactions: int
    restarts: bool = True


@dataclass(slots=True)
class Report:
    """Result of a run.

    Attributes:
        options: its options.
        total: sum of the comparisons of all logs.
        followed: entries read at the moving tail.
        messages: messages published by the Python client.
        ended: numbers of transactions.
        disturbances: names of the disturbances.
        quorum: ensemble size, write quorum, ack quorum.
        publish_s: duration of the publication, in seconds.
        compare_s: duration of the comparison, in seconds.
    """

    options: Options
    total: Comparison = field(default_factory=Comparison)
    followed: int = 0
    messages: int = 0
    ended: list[Ended] = field(default_factory=list)
    disturbances: list[str] = field(default_factory=list)
    quorum: tuple[int, int, int] = (0, 0, 0)
    publish_s: float = 0.0
    compare_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Return whether there is no difference, and storage has the requested number of entries."""
        return not self.total.differences and self.total.stored >= self.options.entries

    def lines(self) -> list[str]:
        """Return the report as text."""
        total = self.total
        features = sorted(total.features.items(), key=lambda item: -item[1])
        restarts = [name for name in self.disturbances if not name.startswith(("unload", "compact"))]
        unloads, compactions = (sum(d.startswith(kind) for d in self.disturbances) for kind in ("unload", "compact"))
        ends = [sum(getattr(ended, end) for ended in self.ended) for end in ("committed", "aborted", "open")]
        return [
            f"logs (topics, and each partition)      {total.topics:>12,}",
            f"entries in storage                     {total.stored:>12,}",
            f"entries delivered by their owner       {total.delivered:>12,}",
            f"  bytes of their frames                {total.frame_bytes:>12,}",
            f"in storage only: markers               {total.markers:>12,}",
            f"  of aborted transactions              {total.aborted:>12,}",
            f"  from an open transaction on          {total.held_back:>12,}",
            f"entries followed at the tail           {self.followed:>12,}",
            f"messages of the Python client          {self.messages:>12,}",
            f"transactions committed, aborted, open  {ends[0]:>12,}{ends[1]:>8,}{ends[2]:>4}",
            f"unloads, compactions                   {unloads:>12,}{compactions:>8,}",
            f"restarts                               {', '.join(restarts) or 'none'}",
            f"ensemble, write quorum, ack quorum     {self.quorum[0]:>12}{self.quorum[1]:>8}{self.quorum[2]:>4}",
            f"entries by feature                     {', '.join(f'{name} {n:,}' for name, n in features)}",
            f"seconds publishing, comparing          {self.publish_s:>12.0f}{self.compare_s:>8.0f}",
            f"seed                                   {self.options.seed:>12}",
            f"DIFFERENCES                            {total.differences:>12,}",
            *(f"  {example}" for example in total.examples),
        ]


class Run:
    """A run on one cluster, in its own namespace.

    Args:
        stack: the healthy source cluster.
        options: its options.
    """

    def __init__(self, stack: PulsarCluster, options: Options) -> None:
        self._stack = stack
        self._options = options
        rng = random.Random(options.seed)
        self._quorum = QUORUMS[options.seed % len(QUORUMS)]
        self._namespace = f"public/oracle-{options.seed}-{int(time.time()):x}"
        self._topics = plan_topics(rng, self._namespace, options.topics)
        self._rounds = plan_rounds(rng, self._topics, options.entries)
        self._disturbances = Disturbances(stack, rng, self._topics, restarts=options.restarts)
        self._report = Report(options)
        self._said = 0.0

    async def run(self) -> Report:
        """Execute the run, and return its report."""
        begin = time.monotonic()
        self._stack.admin().create_namespace(self._namespace)
        ensemble, write, ack = self._report.quorum = self._quorum
        self._stack.admin().set_persistence(self._namespace, ensemble=ensemble, write_quorum=write, ack_quorum=ack)
        for topic in self._topics:
            if topic.partitions:
                self._stack.admin().create_partitioned_topic(topic.name, topic.partitions)
        logs = [log for topic in self._topics for log in topic.logs]
        async with storage.open_floor(self._stack.endpoints) as floor:
            followed = logs[:: max(1, len(logs) // FOLLOWED)][:FOLLOWED]
            followers = [LogFollower(floor, log, iterate=i % 2 == 0) for i, log in enumerate(followed)]
            await self._write()
            self._report.publish_s = time.monotonic() - begin
            begin = time.monotonic()
            # A new storage layer, with empty caches.
            async with storage.open_floor(self._stack.endpoints) as fresh:
                seen = {follower.topic: follower for follower in followers}
                for number, log in enumerate(logs, 1):
                    result = await self._compare(fresh, log, seen.get(log))
                    self._report.total.add(result)
                    self._progress(f"compared {number} of {len(logs)} logs, {self._report.total.stored:,} entries")
            for follower in followers:
                await follower.close()
        self._report.compare_s = time.monotonic() - begin
        self._report.disturbances = self._disturbances.done
        return self._report

    async def _write(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            keys = make_keys(Path(folder))
            publisher = Publisher(self._stack.endpoints.writer_url, keys, Path(folder) / "client.log")
            try:
                for turn, rounds in enumerate(self._rounds):
                    await self._round(publisher, turn, rounds)
            finally:
                publisher.close()
            self._report.messages = publisher.messages

    async def _round(self, publisher: Publisher, turn: int, rounds: list[Round]) -> None:
        done = 0

        def count(_: Round) -> None:
            nonlocal done
            done += 1
            self._progress(f"round {turn + 1} of {ROUNDS}: {done} of {len(rounds)} producers are done")

        say(f"round {turn + 1} of {ROUNDS}")
        disturbing = asyncio.create_task(asyncio.to_thread(self._disturbances.disturb, turn))
        await asyncio.to_thread(publisher.publish, rounds, count)
        await disturbing
        topics = [topic.name for topic in self._topics if topic.transactional]
        if topics and self._options.transactions and turn in TRANSACTION_TURNS:
            say(f"transactions on {len(topics)} topics")
            ended = await asyncio.to_thread(
                publish_transactions,
                self._stack,
                topics,
                self._options.seed + turn,
                self._options.transactions,
                leave_open=turn == ROUNDS - 1,
            )
            self._report.ended.append(ended)

    async def _compare(self, floor: Floor, log: str, follower: LogFollower | None) -> Comparison:
        sent = await asyncio.to_thread(lambda: list(owner.read_all(self._stack.endpoints.writer_url, log, CONSUMER_ID)))
        topic_log = floor.log(log)
        try:
            last = sent[-1].position if sent else EARLIEST
            partition = topic_log.topic.partition
            stored = [stored_frame(entry, CONSUMER_ID, partition) async for entry in storage.read_all(topic_log, last)]
        finally:
            topic_log.close()
        result = compare(log, stored, sent)
        if follower is not None:
            await follower.reach(stored[-1].position if stored else EARLIEST, _SETTLE_S)
            follower.compare(stored, result)
            self._report.followed += len(follower.seen)
        return result

    def _progress(self, what: str) -> None:
        now = time.monotonic()
        if now - self._said > _SAY_EVERY_S:
            self._said = now
            say(what)
