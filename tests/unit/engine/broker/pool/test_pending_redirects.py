"""Who is on the way from one broker of a pool to another."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.pending_redirects import ARRIVAL_TIMEOUT_S, PendingRedirects
from readonly_engine.broker.session import requests
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo

KEY = ClaimKey(parse_topic_name("orders"), "s")
OTHER = ClaimKey(parse_topic_name("orders"), "t")


def test_who_is_sent_on_is_expected_until_it_comes() -> None:
    arrivals = PendingRedirects()
    for _ in range(2):
        arrivals.expect(KEY, 10.0, 10.1)
    assert arrivals.expected(KEY, 10.2)
    assert not arrivals.expected(OTHER, 10.2)
    arrivals.arrived(KEY)
    assert arrivals.expected(KEY, 10.2)
    arrivals.arrived(KEY)
    assert not arrivals.expected(KEY, 10.2)
    arrivals.arrived(KEY)
    assert not arrivals.expected(KEY, 10.2)


def test_who_does_not_come_is_not_waited_for_for_ever() -> None:
    arrivals = PendingRedirects()
    arrivals.expect(KEY, 10.0, 10.1)
    assert not arrivals.expected(KEY, 10.1 + ARRIVAL_TIMEOUT_S)
    arrivals.expect(OTHER, 30.0, 30.0)
    arrivals.arrived(KEY)
    assert arrivals.expected(OTHER, 30.0)


def test_a_crowd_of_subscriptions_costs_the_same_for_each() -> None:
    arrivals = PendingRedirects()
    crowd = [ClaimKey(KEY.topic, str(number)) for number in range(20_000)]
    begun = time.process_time()
    for number, key in enumerate(crowd):
        arrivals.expect(key, 10.0, 10.0 + number / 10_000)
    assert time.process_time() - begun < 2.0  # 20,000 looks at all of them take longer
    assert all(arrivals.expected(key, 12.0) for key in crowd)
    arrivals.expect(KEY, 20.0, 20.0)
    assert not any(arrivals.expected(key, 20.0) for key in crowd)


def test_one_who_did_not_come_does_not_stand_for_one_who_has() -> None:
    arrivals = PendingRedirects()
    arrivals.expect(KEY, 10.0, 10.0)
    arrivals.expect(KEY, 14.0, 14.0)
    arrivals.expect(OTHER, 10.0 + ARRIVAL_TIMEOUT_S, 10.0 + ARRIVAL_TIMEOUT_S)
    arrivals.arrived(KEY)
    assert not arrivals.expected(KEY, 10.0 + ARRIVAL_TIMEOUT_S)


async def test_a_client_that_keeps_saying_that_it_comes_is_not_waited_for_any_longer_than_one_that_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "ARRIVAL_TIMEOUT_S", 0.1)
    broker = SimpleNamespace(pending_redirects=SimpleNamespace(expected=lambda *_: True))
    consumer = SimpleNamespace(
        connection=SimpleNamespace(services=broker),
        claim=SimpleNamespace(key=KEY, epoch=1),
        unregistered=False,
        topic=KEY.topic,
        info=SubscribeInfo(KEY.subscription, CommandSubscribe.Shared),
    )
    async with asyncio.timeout(5):
        await requests._await_redirects(consumer)
