"""Loss of an owner with many idle topics: how long a read-only broker is busy, and until the owner serves and pushes all again.

The owner's only broker is killed, or stopped cleanly, and started again at once; or its process stands still. A thread asks the
read-only broker for /healthz all the time: Kubernetes restarts a broker that does not answer in time.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.client import LoadClient
from bench.cpu import cpu_seconds, resident_bytes
from bench.figures import Bar, Report, Sample
from bench.scenarios.idle_topics import CONNECTIONS, pushed_topics
from devstack.console import say
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from bench.cluster import BenchCluster
    from bench.plan import Plan
    from devstack.pool import BrokerProcess

TITLE: Final = "Loss of an owner with many idle topics: longest wait for /healthz of a read-only broker"
COUNTS: Final = (1_000, 10_000)
SHORT: Final = (100,)
FROZEN_S: Final = 6.0
"""Longer than the time after which owners are silent, and shorter than the timeout of its session."""

LOSSES: Final = ("killed", "stopped", f"frozen for {FROZEN_S:g} s")
REST_S: Final = 20.0
ASK_S: Final = 0.02
ANSWER_S: Final = 120.0
RETURN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class OwnerLoss:
    """Result of one loss.

    Attributes:
        count: topics, each with one reader.
        loss: what happened to the owner.
        away_s: seconds until the owner was there again.
        returned_s: seconds from then until it pushed all topics.
        longest_s: longest wait for an answer of /healthz.
        cpu: CPU seconds of the read-only broker, in all this time.
        memory: its resident bytes at the end.
        ended: connections of clients that it closed.
    """

    count: int
    loss: str
    away_s: float
    returned_s: float
    longest_s: float
    cpu: float
    memory: int
    ended: int


class _HealthAsker(threading.Thread):
    """Asks for /healthz until `stop`; `longest_s` is the longest wait so far."""

    def __init__(self, engine: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._url = f"{engine.http_url}/healthz"
        self._stopped = threading.Event()
        self.longest_s = 0.0

    def run(self) -> None:
        """Ask."""
        while not self._stopped.wait(ASK_S):
            begin = time.monotonic()
            with suppress(OSError), urllib.request.urlopen(self._url, timeout=ANSWER_S):  # noqa: S310 - http
                pass
            self.longest_s = max(self.longest_s, time.monotonic() - begin)

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self.join()


def _wait_pushed(engine: BrokerProcess, count: int) -> float:
    """Wait until the owner pushes all topics; return the seconds."""
    begin = time.monotonic()
    while time.monotonic() - begin < RETURN_S:
        with suppress(OSError):  # it may be too busy to answer
            if pushed_topics(engine) >= count:
                return time.monotonic() - begin
        time.sleep(0.5)
    raise DevstackError(f"the owner does not push {count:,} topics {RETURN_S:g} s after it is back")


def _lose(cluster: BenchCluster, engine: BrokerProcess, count: int, loss: str, readers: LoadClient) -> OwnerLoss:
    """Measure one loss of the owner."""
    time.sleep(REST_S)
    pid = engine.process.pid
    asker, cpu, begin, ended = _HealthAsker(engine), cpu_seconds([pid]), time.monotonic(), readers.counted().ended
    asker.start()
    try:
        if loss == "killed":
            cluster.kill_owner()
        elif loss == "stopped":
            cluster.restart_owner()
        else:
            cluster.freeze_owner(FROZEN_S)
        away_s = time.monotonic() - begin
        time.sleep(2)  # the broker counts a topic as pushed until it has noticed
        returned_s = 2 + _wait_pushed(engine, count)
    finally:
        asker.stop()
    used, memory = cpu_seconds([pid]) - cpu, resident_bytes([pid])
    ended = readers.counted().ended - ended
    return OwnerLoss(count, loss, away_s, returned_s, asker.longest_s, used, memory, ended)


def run(cluster: BenchCluster, plan: Plan) -> Report:
    """Measure all numbers of topics, each loss once."""
    results: list[OwnerLoss] = []
    for count in plan.pick(COUNTS, SHORT):
        topics = f"{cluster.topic_name('loss')}-#"
        say(f"{count:,} topics are created")
        created = cluster.create_topics(topics, count)
        with ExitStack() as stack:
            engine = stack.enter_context(cluster.engine(topics.replace("#", ".*")))
            consumers: dict[str, Any] = {"consumers": count, "connections": CONNECTIONS, "subscription": "loss-#"}
            readers = stack.enter_context(LoadClient("consume", broker=engine.address, topic=topics, **consumers))
            _wait_pushed(engine, count)
            for loss in LOSSES:
                results.append(_lose(cluster, engine, count, loss, readers))
                found = results[-1]
                say(
                    f"{count:,} topics, owner {loss}: /healthz {found.longest_s:.2f} s, back {found.returned_s:.0f} s later"
                )
        cluster.delete_topics(created)
    columns = (
        "topics with a reader",
        "owner",
        "there again after",
        "pushes all again",
        "longest wait for /healthz",
        "CPU of the read-only broker",
        "memory",
        "connections closed",
    )
    rows = [
        (
            f"{found.count:,}",
            found.loss,
            f"{found.away_s:.0f} s",
            f"{found.returned_s:.0f} s later",
            f"{found.longest_s:.2f} s",
            f"{found.cpu:.1f} s",
            f"{found.memory / 1e6:.0f} MB",
            f"{found.ended}",
        )
        for found in results
    ]
    bars = tuple(Bar(f"{found.count:,}", found.loss, Sample((found.longest_s,))) for found in results)
    return Report(
        columns, tuple(rows), "s", bars, (), [asdict(found) for found in results], "once each, explicit LAC off"
    )
