"""Runs an attack on one server, beside an innocent client."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandProducer, CommandSubscribe

from tests.support.innocent_client import InnocentClient
from tests.support.pulsar.raw_client import RawClient

if TYPE_CHECKING:
    from longtests.hostile.attacks import Attack

PAUSE_S: Final = 0.02
SETTLED_S: Final = 0.5
SLOWER_S: Final = 1.0
"""Allowed difference of the slowest PINGs of the pool's and the owner's innocent client, because machines are busy."""


class Outcome(NamedTuple):
    """Outcome of an attack on one server.

    Attributes:
        did: reaction of the server.
        slowest: slowest PING of the innocent client, in seconds.
        losses: number of times that the innocent client lost its connection, consumer or producer.
    """

    did: str
    slowest: float
    losses: int


class Innocent(InnocentClient):
    """A client with a consumer and a producer that sends a PING every PAUSE_S."""

    def __init__(self, url: str, topic: str) -> None:
        super().__init__(RawClient(url), PAUSE_S)
        self.client.subscribe(topic, "innocent", sub_type=CommandSubscribe.Exclusive)
        producer = CommandProducer(topic=topic, producer_id=0, request_id=0)
        self.client.request(BaseCommand(type=BaseCommand.PRODUCER, producer=producer))

    @property
    def losses(self) -> int:
        """Number of times that the client lost its connection, consumer or producer."""
        if self.failure is not None:
            return 1
        return sum(self.client.seen.count(name) for name in ("CLOSE_CONSUMER", "CLOSE_PRODUCER"))


def run_attack(attack: Attack, url: str, topics: str) -> Outcome:
    """Attack a server.

    Args:
        attack: the attack.
        url: URL of a broker that serves the topics: the owner, or a broker of the pool.
        topics: prefix of topic names.
    """
    with Innocent(url, make_topic(url, topics)) as innocent:
        did = attack.run(url, make_topic(url, topics))
        time.sleep(SETTLED_S)  # delayed effects show in the innocent client's next PINGs
    return Outcome(did, innocent.slowest, innocent.losses)


def make_topic(url: str, topics: str) -> str:
    """Return the name of a new topic for which a lookup on a broker returns that broker."""
    with RawClient(url) as client:
        while True:
            topic = f"{topics}{uuid.uuid4().hex[:12]}"
            if client.lookup(topic) == url:
                return topic


def worse(owner: Outcome, pool: Outcome) -> list[str]:
    """Return the ways in which the pool is worse than the owner."""
    faults = []
    if pool.losses > owner.losses:
        faults.append(f"an innocent client lost {pool.losses} things, at the owner {owner.losses}")
    if pool.slowest > owner.slowest + SLOWER_S:
        faults.append(f"an innocent client's PING took {pool.slowest:.2f} s, at the owner {owner.slowest:.2f} s")
    if owner.did.endswith("is served") and pool.did != owner.did:
        faults.append(f"the owner: {owner.did}; the pool: {pool.did}")
    return faults
