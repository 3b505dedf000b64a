"""One run of a fault: the messages that each reader received during the fault and its repair."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pulsar

from devstack.console import say
from devstack.pool import Pool
from longtests.faults.probes import LogProbe, Producer, consumer_probe, reader_probe
from longtests.faults.scenarios import ScenarioError, Target, wait_until
from longtests.oracle import owner, storage
from longtests.oracle.compare import compare, stored_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.topic.position import Position

    from longtests.faults.probes import ClientProbe, Probe
    from longtests.faults.scenarios import Scenario
    from longtests.faults.stack import FaultyStack

STEADY_MESSAGES: Final = 100
"""Number of messages before and after the fault that prove a healthy state."""

RECOVERY_S: Final = 120.0
CATCH_UP_S: Final = 60.0
QUIET_S: Final = 1.0

CONSUMER: Final = "consumer"
_HERE: Final = "/here"
"""Rack of the reader, and of the bookie that it must read from first."""
"""The probe that may get a message twice: acks in flight are lost if an owner dies."""


@dataclass(slots=True)
class ProbeResult:
    """Result of one reader.

    Attributes:
        pause: the longest time without a message, in seconds.
        lag: the longest time from the producer's receipt to the delivery, in seconds.
        lost: entries of the topic that it never received.
        twice: entries that it received again.
        disorder: entries that it received after a later one, without redeliveries.
    """

    pause: float
    lag: float
    lost: int
    twice: int
    disorder: int


@dataclass(slots=True)
class Outcome:
    """Result of one run.

    Attributes:
        entries: number of entries in the topic.
        writer_pause: the longest time without a receipt for the producer, in seconds.
        probes: results of the readers by name.
        damaged: entries that were damaged on one replica.
        met: number of them that a reader encountered and then read from another replica.
        faults: descriptions of all errors.
    """

    entries: int
    writer_pause: float
    probes: dict[str, ProbeResult] = field(default_factory=dict)
    damaged: int = 0
    met: int = 0
    faults: list[str] = field(default_factory=list)


class _DamageCounter(logging.Handler):
    """Counts the damaged entries that the storage layer encountered."""

    def __init__(self) -> None:
        super().__init__()
        self.met = 0

    def emit(self, record: logging.LogRecord) -> None:
        if "does not match its bytes" in record.getMessage():
            self.met += 1


async def run_fault(stack: FaultyStack, scenario: Scenario, number: int) -> Outcome:
    """Inject a fault and repair it once, with readers at the tail.

    Args:
        stack: the cluster, healthy.
        scenario: the fault.
        number: number of the run, which selects the affected bookie.

    Raises:
        ScenarioError: the fault could not be injected, or the cluster did not recover.
    """
    namespace = f"public/faults-{uuid.uuid4().hex[:8]}"
    stack.admin().create_namespace(namespace)
    ensemble, write, ack = scenario.quorum
    stack.admin().set_persistence(namespace, ensemble=ensemble, write_quorum=write, ack_quorum=ack)
    topic = f"persistent://{namespace}/{scenario.name}-{number}-{uuid.uuid4().hex[:8]}"
    stack.admin().create_topic(topic)
    ends = stack.endpoints
    owning = ends.brokers.index(stack.admin().lookup(topic))
    # The engine connects to the cluster by the other broker, as behind a service of all brokers.
    entrance = (owning + 1) % len(ends.brokers)
    ends = dataclasses.replace(ends, writer_url=ends.brokers[entrance], admin_url=ends.admin_urls[entrance])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pool = Pool(ends, folder, uuid.uuid4().hex, ["--topics", topic, "--cache-size", "4MiB", "--tail", "bookies"])
        log = pulsar.FileLogger(pulsar.LoggerLevel.Error, str(folder / "client.log"))
        writer = pulsar.Client(
            "pulsar://" + ",".join(url.removeprefix("pulsar://") for url in ends.brokers), logger=log
        )
        try:
            await asyncio.to_thread(pool.start)
            reading = pulsar.Client(pool.url, logger=log)
            try:
                async with storage.open_floor(ends) as floor:
                    return await _observe(stack, scenario, number, topic, owning, floor, writer, reading)
            finally:
                reading.close()
        finally:
            writer.close()
            pool.close()


async def _observe(
    stack: FaultyStack,
    scenario: Scenario,
    number: int,
    topic: str,
    owning: int,
    floor: storage.Floor,
    writer: pulsar.Client,
    reading: pulsar.Client,
) -> Outcome:
    producer = Producer(writer, topic)
    clients: list[ClientProbe] = []
    topic_log = floor.log(topic)
    log_probe = LogProbe(topic_log)
    end = threading.Event()
    try:
        clients.append(await asyncio.to_thread(reader_probe, reading, topic))
        clients.append(await asyncio.to_thread(consumer_probe, reading, topic))
        probes = [log_probe.probe, *(client.probe for client in clients)]
        await _until(
            lambda: all(len(p.seen) >= STEADY_MESSAGES for p in probes), CATCH_UP_S, "all readers are at the tail"
        )
        metadata = await floor.cluster.ledger(topic_log.chain.ledger_ids[-1])
        if metadata is None:
            raise ScenarioError("the topic's last ledger does not exist any more")
        ensemble = metadata.ensembles[-1][1]
        bookie = stack.bookie_index(ensemble[number % len(ensemble)])
        begin = time.monotonic()
        marker = producer.payload(0)[:-1].split(b" ")[0]
        damaged = await asyncio.to_thread(scenario.act, Target(stack, bookie, owning, marker, end))
        goal = len(producer.probe.seen) + STEADY_MESSAGES
        await _until(lambda: len(producer.probe.seen) >= goal, RECOVERY_S, "the producer resumes")
        await asyncio.to_thread(producer.stop)
        finish = time.monotonic()
        last = max(producer.probe.positions)
        faults = [
            f"{probe.name}: stopped at {probe.furthest}, the last entry is {last}"
            for probe in probes
            if not await _reaches(probe, last)
        ]
        await asyncio.sleep(QUIET_S)  # time for duplicates to arrive
    finally:
        end.set()
        await asyncio.to_thread(producer.stop)
        for client in clients:
            await asyncio.to_thread(client.stop)
        await log_probe.stop()
    faults += [f"{client.probe.name}: {client.error}" for client in clients if client.error]
    faults += [f"producer: {reason}" for reason in producer.failures[:1]]
    frames = await asyncio.to_thread(lambda: list(owner.read_all(_any_url(stack), topic)))
    stored = [frame.position for frame in frames]
    outcome = Outcome(len(stored), producer.probe.longest_pause(begin, finish), damaged=damaged, faults=faults)
    if gone := set(producer.probe.positions) - set(stored):
        outcome.faults.append(f"the topic lacks {len(gone)} entries for which the producer has receipts")
    for probe in probes:
        result = judge(probe, stored, producer.receipts, begin, finish)
        outcome.probes[probe.name] = result
        if result.lost or result.disorder or (result.twice and probe.name != CONSUMER):
            outcome.faults.append(
                f"{probe.name}: lost {result.lost}, duplicated {result.twice}, out of order {result.disorder}"
            )
    if scenario.damages:
        await _read_anew(stack, topic, frames, ensemble[number % len(ensemble)], outcome)
    return outcome


def judge(
    probe: Probe, stored: Sequence[Position], receipts: dict[Position, float], begin: float, finish: float
) -> ProbeResult:
    """Compare the entries that a probe received with those of the topic.

    Args:
        probe: the probe.
        stored: the topic's entries, in order.
        receipts: times of the producer's receipts.
        begin: time of the fault's start.
        finish: time of the producer's stop.
    """
    seen = probe.positions
    firsts = list(dict.fromkeys(seen))
    return ProbeResult(
        pause=probe.longest_pause(begin, finish),
        lag=probe.longest_lag(receipts),
        lost=len(set(stored) - set(seen)),
        twice=len(seen) - len(firsts),
        disorder=sum(after <= before for before, after in pairwise(firsts)),
    )


async def _read_anew(
    stack: FaultyStack, topic: str, frames: list[owner.OwnerFrame], damaged: str, outcome: Outcome
) -> None:
    """Read the whole topic with an empty cache: the reader must encounter the damaged replica, and use the other one.

    A range of entries is read from one bookie. The damaged bookie is configured as the nearest one; else no read might reach it.
    """
    counter = _DamageCounter()
    logger = logging.getLogger("readonly_engine")
    logger.addHandler(counter)
    try:
        async with storage.open_floor(stack.endpoints) as floor:
            floor.bookies.replica_order.move(_HERE)
            floor.bookies.replica_order.place({damaged: _HERE})
            log = floor.log(topic)
            try:
                stored = [stored_frame(e, 0, -1) async for e in storage.read_all(log, frames[-1].position)]
            finally:
                log.close()
    finally:
        logger.removeHandler(counter)
    outcome.met = counter.met
    if not counter.met:
        outcome.faults.append("no reader encountered a damaged entry, so the run proves nothing")
    outcome.faults += compare(topic, stored, frames).examples


async def _reaches(probe: Probe, last: Position) -> bool:
    try:
        await _until(lambda: probe.furthest >= last, CATCH_UP_S, "")
    except ScenarioError:
        return False
    return True


async def _until(check: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition without blocking the event loop."""
    await asyncio.to_thread(wait_until, check, seconds, what)


def _any_url(stack: FaultyStack) -> str:
    return stack.endpoints.writer_url


def tell(scenario: Scenario, number: int, outcome: Outcome) -> None:
    """Print the result of a run."""
    pauses = ", ".join(f"{name} {probe.pause:.2f} s" for name, probe in outcome.probes.items())
    say(
        f"{scenario.name} {number + 1}: {outcome.entries:,} entries; longest pause: writer {outcome.writer_pause:.2f} s, "
        f"{pauses}{f'; {outcome.damaged} damaged, {outcome.met} encountered' if outcome.damaged else ''}"
        f"{''.join(f'; FAULT {fault}' for fault in outcome.faults)}"
    )
