"""`make -C lab placement`: subscriptions of many topics come and go, so one consumer of each swings between owner and pool.

In each cycle of a topic three subscriptions come, so that a fourth one goes to the pool. Then they leave, and the pool sends the
fourth one back to the owner after its five checks. Each consumer gets messages all the time.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import pulsar
from readonly_engine.broker.passthrough.pool_metadata import POOL_KEY
from readonly_engine.broker.pool.cheaper import RECENT_S
from readonly_engine.broker.server.owner_returns import CHECK_S, CHECKS

from devstack.console import say
from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec
from longtests.faults.table import write
from longtests.placement.history import History
from tests.support.stamp import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devstack.pulsar.admin import PulsarAdmin

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "testing" / "messages.md"
MARKS: Final = (
    "<!-- placement: written by make -C lab placement PLACEMENT_OPTIONS=--write -->",
    "<!-- end of placement -->",
)
SPEC: Final = PulsarSpec(name="placement", base_port=31950, bookies=1, brokers=1, quick=True)
WATCHED: Final = "watched"
CROWD: Final = ("a", "b", "c")
CROWD_S: Final = 20.0
"""How long the crowd stays in each cycle."""

KNOWN_S: Final = RECENT_S + 2.0
"""Time until the pool knows where the crowd is, and that the former watched consumer is gone."""

CYCLE_S: Final = KNOWN_S + CROWD_S + (CHECKS + 1.5) * CHECK_S
POLL_S: Final = 2.0
RATE: Final = 20.0
AROUND_S: Final = POLL_S + 3.0
END_S: Final = 30.0
_QUIET: Final = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class Swinging:
    """One topic with its watched consumer and its crowd.

    Args:
        topic: its name.
        client: client of the pool.
        begin: when its first cycle begins, by a monotonic clock.
    """

    def __init__(self, topic: str, client: pulsar.Client, begin: float) -> None:
        self.topic, self.history = topic, History()
        self._client, self._next = client, begin
        self._crowd: list[pulsar.Consumer] = []
        self._watched: pulsar.Consumer | None = None
        self._at_pool: bool | None = None

    def step(self, now: float, end: float) -> None:
        """Do what is due: let the crowd come, then the watched consumer, or let the crowd go."""
        if now < self._next:
            return
        if not self._crowd:
            if now < end:
                if self._watched is not None:
                    self._watched.close()
                self._watched, self._at_pool = None, None  # a reconnect of the program, no move
                self._crowd = [self._subscribe(name, _acked) for name in CROWD]
                self._next += KNOWN_S
        elif self._watched is None:
            self.history.begins.append(len(self.history.numbers))
            self._watched = self._subscribe(WATCHED, self._received)
            self._next += CROWD_S
        else:
            for one in self._crowd:
                one.close()
            self._crowd = []
            self._next += CYCLE_S - CROWD_S - KNOWN_S

    def look(self, admin: PulsarAdmin, now: float) -> None:
        """Ask the owner who serves the watched consumer."""
        found = admin.stats(self.topic)["subscriptions"].get(WATCHED, {}).get("consumers", [])
        if len(found) != 1:
            return
        at_pool = POOL_KEY in (found[0].get("metadata") or {})
        if self._at_pool is not None and at_pool != self._at_pool:
            self.history.moves.append(now)
        self._at_pool = at_pool

    def _received(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        self.history.times.append(time.monotonic())
        self.history.numbers.append(int(message.data()))
        consumer.acknowledge(message)

    def _subscribe(self, name: str, listener: Callable[[pulsar.Consumer, pulsar.Message], None]) -> pulsar.Consumer:
        return self._client.subscribe(
            self.topic, name, consumer_type=pulsar.ConsumerType.Shared, message_listener=listener
        )


def _acked(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
    consumer.acknowledge(message)


class Publisher:
    """Publishes to all topics at RATE until it is stopped.

    Attributes:
        last: the last number of each topic.
    """

    def __init__(self, url: str, topics: Sequence[str]) -> None:
        self.last = -1
        self._client = pulsar.Client(url, logger=_QUIET)
        self._producers = [self._client.create_producer(topic, batching_enabled=False) for topic in topics]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Stop; return when all is stored."""
        self._over.set()
        self._thread.join()
        for producer in self._producers:
            producer.flush()
        self._client.close()

    def _run(self) -> None:
        begin = time.monotonic()
        while not self._over.wait(max(0.0, begin + (self.last + 1) / RATE - time.monotonic())):
            number = b"%d" % (self.last + 1)
            for producer in self._producers:
                producer.send_async(number, lambda _result, _id: None)
            self.last += 1


def run(stack: PulsarCluster, minutes: float, count: int) -> tuple[list[History], int]:
    """Let topics swing for some minutes; return the histories of their watched consumers and the last number published."""
    admin = stack.admin()
    topics = [f"persistent://public/default/swing-{uuid.uuid4().hex[:8]}" for _ in range(count)]
    for topic in topics:
        admin.create_topic(topic)
    with tempfile.TemporaryDirectory() as folder:
        bindings = Path(folder, "bindings.json")
        binding = {"name": "team/swing", "topics": topics, "placement": "WhenCheaper"}
        bindings.write_text(json.dumps({"revision": "1", "bindings": [binding]}), encoding="utf-8")
        pool = Pool(stack.endpoints, Path(folder), uuid.uuid4().hex, ["--bindings", str(bindings)])
        try:
            pool.start(1)
            client = pulsar.Client(pool.url, logger=_QUIET, message_listener_threads=4)
            begin = time.monotonic()
            end = begin + minutes * 60
            swinging = [Swinging(topic, client, begin + CYCLE_S * i / count) for i, topic in enumerate(topics)]
            publisher = Publisher(stack.endpoints.writer_url, topics)
            said = begin
            while (now := time.monotonic()) < end:
                for one in swinging:
                    one.step(time.monotonic(), end - CYCLE_S)
                    one.look(admin, time.monotonic())
                if now > said:
                    moves = sum(len(one.history.moves) for one in swinging)
                    say(f"{(now - begin) / 60:.1f} minutes: {moves} moves")
                    said += 60
                time.sleep(POLL_S)
            publisher.stop()
            deadline = time.monotonic() + END_S
            while any(one.history.lost(publisher.last) for one in swinging) and time.monotonic() < deadline:
                time.sleep(POLL_S)
            client.close()
        finally:
            pool.close()
    return [one.history for one in swinging], publisher.last


def report(minutes: float, histories: Sequence[History], last: int) -> list[str]:
    """Return a table in Markdown."""
    pauses = sorted(pause for history in histories for pause in history.pauses(AROUND_S))
    shown = "none"
    if pauses:
        p99 = pauses[math.ceil(len(pauses) * 0.99) - 1]
        shown = f"{median(pauses) * 1000:.0f}, {p99 * 1000:.0f}, {pauses[-1] * 1000:.0f} ms"
    cells = [
        f"{minutes:g}",
        str(len(histories)),
        f"{sum(len(one.numbers) for one in histories):,}",
        str(len(pauses)),
        str(sum(one.lost(last) for one in histories)),
        str(sum(one.repeated() for one in histories)),
        str(sum(one.disordered() for one in histories)),
        shown,
    ]
    return [
        "| minutes | topics | messages | moves to the owner | lost | twice | out of order | pause: median, p99, longest |",
        "|---:|---:|---:|---:|---:|---:|---:|---|",
        "| " + " | ".join(cells) + " |",
    ]


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 1 if a message was lost or out of order, or nothing moved."""
    parser = argparse.ArgumentParser(prog="make -C lab placement", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="duration (default %(default)g)")
    parser.add_argument("--topics", type=int, default=20, help="topics that swing (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table to docs/testing/messages.md")
    args = parser.parse_args(argv)
    stack = PulsarCluster(SPEC)
    try:
        stack.up()
        histories, last = run(stack, args.minutes, args.topics)
    finally:
        stack.down(purge=True)
    rows = report(args.minutes, histories, last)
    sys.stdout.write("\n".join(rows) + "\n")
    if args.write:
        write(DOCUMENT, [stamp(), *rows], MARKS)
    wrong = sum(one.lost(last) + one.disordered() for one in histories)
    return int(wrong > 0 or not any(one.moves for one in histories))


if __name__ == "__main__":
    sys.exit(main())
