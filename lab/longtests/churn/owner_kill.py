"""`make -C lab owner-kill`: kills an owner while 100 consumers read a backlog, by turns through a pool and directly."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import logging
import sys
import tempfile
import time
import uuid
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import pulsar
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandFlow, CommandSubscribe

from devstack.console import say
from devstack.errors import DevstackError
from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from longtests.churn.link import LinkError, RawConnection, find
from longtests.churn.stack import SESSION_TIMEOUT_S, SPEC
from longtests.faults.table import write
from tests.support.stamp import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "testing" / "messages.md"
BEGIN: Final = "<!-- owner-kill: written by make -C lab owner-kill OWNER_KILL_OPTIONS=--write -->"
END: Final = "<!-- end of owner-kill -->"
READERS: Final = 100
BROKERS: Final = 2
BATCH: Final = 1
TICK_S: Final = 0.25
"""Interval at which each reader requests a batch: the backlog outlasts the run, and the machine keeps up."""

STEADY_S: Final = 5.0
WATCH_S: Final = 40.0
OWNERLESS_S: Final = float(SESSION_TIMEOUT_S)
"""Time until ZooKeeper ends the dead owner's session: no broker can own its topics before."""

MESSAGES: Final = int((STEADY_S + WATCH_S + 150.0) / TICK_S * BATCH)
START_S: Final = 120.0
RETRY_S: Final = 0.2
_PAYLOAD: Final = bytes(1024)


class OwnerKillError(Exception):
    """The readers got no messages, so the run proves nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one run.

    Attributes:
        gaps: the longest time without a message, of each reader, in seconds.
        ownerless: messages delivered while no broker could own the topic.
        expected: messages requested by the readers in that time.
    """

    gaps: tuple[float, ...]
    ownerless: int
    expected: int


def longest_gap(times: Sequence[float], begin: float, end: float) -> float:
    """Return the longest time without a message between begin and end."""
    return max(after - before for before, after in pairwise([begin, *(t for t in times if begin < t < end), end]))


def table(outcomes: dict[str, list[Outcome]]) -> list[str]:
    """Return a table with a row for each way to read, in Markdown."""
    rows = [
        "| 100 consumers read | runs | longest gap of each run | median gap | delivered without an owner |",
        "|---|---:|---|---:|---:|",
    ]
    for way, runs in outcomes.items():
        gaps = ", ".join(f"{max(run.gaps):.2f} s" for run in runs)
        middle = median(gap for run in runs for gap in run.gaps)
        share = sum(run.ownerless for run in runs) / sum(run.expected for run in runs)
        rows.append(f"| {way} | {len(runs)} | {gaps} | {middle:.2f} s | {share:.0%} of the requested messages |")
    return rows


class Reader:
    """A consumer with its own subscription that receives a few messages at a time, acks them, and reconnects.

    Args:
        topic: the topic.
        subscription: its subscription.
        urls: brokers for the lookup.
    """

    def __init__(self, topic: str, subscription: str, urls: Callable[[], list[str]]) -> None:
        self.times: list[float] = []
        self._topic = topic
        self._subscription = subscription
        self._urls = urls
        self._link: RawConnection | None = None
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop reading."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._link is not None:
            self._link.abort()

    async def _run(self) -> None:
        while True:
            try:
                await self._subscribe()
            except LinkError:
                await asyncio.sleep(RETRY_S)
                continue
            while not self._over.is_set():
                assert self._link is not None
                flow = CommandFlow(consumer_id=0, message_permits=BATCH)
                self._link.send(BaseCommand(type=BaseCommand.FLOW, flow=flow))
                await asyncio.sleep(TICK_S)

    async def _subscribe(self) -> None:
        self._over.clear()
        link = await RawConnection.open(await find(self._urls(), self._topic), self._received, self._over.set)
        subscribe = CommandSubscribe(
            topic=self._topic,
            subscription=self._subscription,
            sub_type=CommandSubscribe.Exclusive,
            consumer_id=0,
            initial_position=CommandSubscribe.Earliest,
        )
        try:
            await link.request(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=subscribe))
        except BaseException:
            link.abort()
            raise
        self._link = link

    def _received(self, command: BaseCommand, _payload: bytes) -> None:
        if command.type == BaseCommand.MESSAGE:
            self.times.append(time.monotonic())
            assert self._link is not None
            ack = CommandAck(consumer_id=0, ack_type=CommandAck.Individual)
            ack.message_id.add().CopyFrom(command.message.message_id)
            self._link.send(BaseCommand(type=BaseCommand.ACK, ack=ack))
        elif command.type == BaseCommand.CLOSE_CONSUMER and self._link is not None:
            self._link.close()


async def run(stack: PulsarCluster, *, pooled: bool) -> Outcome:
    """Kill the owner once.

    Raises:
        OwnerKillError: the readers got no messages.
    """
    namespace = f"public/owner-kill-{uuid.uuid4().hex[:8]}"
    admin = stack.admin()
    admin.create_namespace(namespace)
    admin.set_retention(namespace, minutes=-1, megabytes=-1)
    topic = f"persistent://{namespace}/backlog"
    admin.create_topic(topic)
    ends = stack.endpoints
    owning = ends.brokers.index(admin.lookup(topic))
    await asyncio.to_thread(_publish, ends.brokers[owning], topic)
    other = (owning + 1) % len(ends.brokers)
    # The engine connects to the cluster by the other broker, as behind a service of all brokers.
    entrance = dataclasses.replace(ends, writer_url=ends.brokers[other], admin_url=ends.admin_urls[other])
    with tempfile.TemporaryDirectory() as folder:
        pool = Pool(entrance, Path(folder), uuid.uuid4().hex, ["--topics", topic, "--log-level", "warning"])
        try:
            if pooled:
                await asyncio.to_thread(pool.start, BROKERS)
            brokers = [broker.url for broker in pool.brokers] or list(ends.brokers)

            def turned(by: int) -> Callable[[], list[str]]:
                return lambda: brokers[by:] + brokers[:by]

            readers = [Reader(topic, f"reader-{i}", turned(i % len(brokers))) for i in range(READERS)]
            try:
                return await _observe(stack, owning, readers)
            finally:
                await asyncio.gather(*(reader.close() for reader in readers))
        finally:
            pool.close()
            await asyncio.to_thread(stack.start_broker, owning)


async def _observe(stack: PulsarCluster, owning: int, readers: list[Reader]) -> Outcome:
    deadline = time.monotonic() + START_S
    while not all(reader.times for reader in readers):
        if time.monotonic() > deadline:
            raise OwnerKillError(f"{sum(not r.times for r in readers)} readers got no messages in {START_S:g} s")
        await asyncio.sleep(0.1)
    await asyncio.sleep(STEADY_S)
    begin = time.monotonic()
    await asyncio.to_thread(stack.kill_broker, owning)
    await asyncio.sleep(begin + WATCH_S - time.monotonic())
    end = begin + WATCH_S
    until = begin + OWNERLESS_S
    return Outcome(
        tuple(longest_gap(reader.times, begin, end) for reader in readers),
        sum(begin < at < until for reader in readers for at in reader.times),
        int(len(readers) * BATCH * OWNERLESS_S / TICK_S),
    )


def _publish(url: str, topic: str) -> None:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
        for _ in range(MESSAGES):
            producer.send_async(_PAYLOAD, lambda _result, _id: None)
        producer.flush()
    finally:
        client.close()


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 the pool's gaps are shorter, 1 they are not, or the run failed."""
    parser = argparse.ArgumentParser(prog="make -C lab owner-kill", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each way, by turns (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table to docs/testing/messages.md")
    parser.add_argument("--keep", action="store_true", help="keep the stack and its data")
    args = parser.parse_args(argv)
    logging.getLogger().addHandler(logging.NullHandler())
    stack = PulsarCluster(SPEC)
    ways = {"through the pool": True, "directly at the owner": False}
    outcomes: dict[str, list[Outcome]] = {way: [] for way in ways}
    try:
        stack.up()
        for number in range(args.runs):
            for way, pooled in ways.items():
                outcome = asyncio.run(run(stack, pooled=pooled))
                outcomes[way].append(outcome)
                say(f"run {number + 1}, {way}: longest gap {max(outcome.gaps):.2f} s")
    except (OwnerKillError, DevstackError) as error:
        say(f"owner-kill: {error}")
        return 1
    finally:
        if not args.keep:
            stack.down(purge=True)
    rows = table(outcomes)
    sys.stdout.write("\n".join(rows) + "\n")
    if args.write:
        write(DOCUMENT, [stamp(), *rows], (BEGIN, END))
    pooled_gaps, direct = (max(max(run.gaps) for run in outcomes[way]) for way in ways)
    return 0 if pooled_gaps < direct else 1


if __name__ == "__main__":
    sys.exit(main())
