"""What a consumer holds is given back once, and the claim only after the owner has processed its acks."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from readonly_engine.broker.consumer.admission_lease import AdmissionLease
from readonly_engine.broker.pool.claim_store import ClaimHandle
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

TOPIC = parse_topic_name("orders")
KEY = ClaimKey(TOPIC, "s")


class Services:
    """Parts of a broker that record what is given back."""

    def __init__(self, refusal: str = "") -> None:
        self.calls: list[str] = []
        self.limits = SimpleNamespace(subscribe=lambda *_: refusal, leave=lambda *_: self.calls.append("place"))
        self.claim_store = SimpleNamespace(acquire=self.acquire, release=lambda _: self.calls.append("claim"))
        self.pending_redirects = SimpleNamespace(
            expect=lambda *_: self.calls.append("expect"), arrived=lambda _: self.calls.append("arrived")
        )
        self.closing: list[Any] = []
        self.spawn = self.closing.append

    async def acquire(self, key: ClaimKey) -> ClaimHandle:
        return ClaimHandle(key, 1, "pulsar://peer:6650")


def lease(services: Any, *, claimed: bool = True) -> AdmissionLease:
    made = AdmissionLease(services, TOPIC, "s")
    if claimed:
        assert asyncio.run(made.acquire(KEY)) == "pulsar://peer:6650"
    return made


@pytest.mark.parametrize("steps", sorted(set(itertools.permutations(["leave", "closed", "closed", "last"]))))
def test_the_claim_follows_the_last_acks_in_any_order(steps):
    services = Services()
    held = lease(services)
    for number, step in enumerate(steps):
        if step == "leave":
            held.leave()
        elif step == "closed":
            held.on_closed()
        else:
            held.call_at_end(lambda: services.calls.append("last"))
        over = {"leave", "closed"} <= set(steps[: number + 1])
        assert services.calls.count("claim") == over
        assert (held.claim is None) == over
        assert services.calls.count("place") == ("leave" in steps[: number + 1])
    assert sorted(services.calls) == ["claim", "last", "place"]


@pytest.mark.parametrize(
    ("relayed", "claimed", "expected"), [(1, 1, True), (1, 0, False), (0, 1, False), (0, 0, False)]
)
def test_a_relayed_consumer_that_leaves_is_expected(relayed, claimed, expected):
    services = Services()
    held = lease(services, claimed=bool(claimed))
    if relayed:
        held.on_relayed()
    held.on_arrived()
    assert services.calls == ["arrived"] * claimed
    held.leave()
    assert ("expect" in services.calls) == expected


def test_an_admission_that_fails_gives_everything_back():
    for consumer in (False, True):
        services = Services()
        held = lease(services)
        made = SimpleNamespace(unregister=held.leave, close=lambda: "its close")
        held.end_admission(made if consumer else None, admitted=True)
        assert not services.calls
        held.end_admission(made if consumer else None, admitted=False)
        assert services.calls == (["place"] if consumer else ["place", "claim"])
        assert services.closing == (["its close"] if consumer else [])


def test_a_limit_refuses_a_consumer_that_then_holds_nothing():
    services: Any = Services("Topic reached max consumers limit")
    with pytest.raises(OwnerRefusedError, match="max consumers") as refused:
        AdmissionLease(services, TOPIC, "s")
    assert refused.value.code == ServerError.ConsumerBusy
    assert not services.calls
