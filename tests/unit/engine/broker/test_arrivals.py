"""Who is on the way from one broker of a pool to another."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from readonly_engine.broker import requests
from readonly_engine.broker.arrivals import MOVED_WITHIN_S, TRAVEL_S, Arrivals
from readonly_engine.broker.claims import ClaimKey
from readonly_engine.metadata.topic_name import parse_topic_name

if TYPE_CHECKING:
    import pytest
    from readonly_engine.broker.consumer import Consumer

KEY = ClaimKey(parse_topic_name("orders"), "s")
OTHER = ClaimKey(parse_topic_name("orders"), "t")


def test_who_is_sent_on_is_expected_until_it_comes() -> None:
    arrivals = Arrivals()
    for _ in range(2):
        arrivals.left(KEY, 10.0, 10.1)
    assert arrivals.expected(KEY, 10.2)
    assert not arrivals.expected(OTHER, 10.2)
    arrivals.came(KEY)
    assert arrivals.expected(KEY, 10.2)
    arrivals.came(KEY)
    assert not arrivals.expected(KEY, 10.2)
    arrivals.came(KEY)
    assert not arrivals.expected(KEY, 10.2)


def test_who_does_not_come_is_not_waited_for_for_ever() -> None:
    arrivals = Arrivals()
    arrivals.left(KEY, 10.0, 10.1)
    assert not arrivals.expected(KEY, 10.1 + TRAVEL_S)
    arrivals.left(OTHER, 30.0, 30.0)
    arrivals.came(KEY)
    assert arrivals.expected(OTHER, 30.0)


def test_who_stayed_for_long_was_closed_and_is_not_expected() -> None:
    arrivals = Arrivals()
    arrivals.left(KEY, 10.0, 10.1 + MOVED_WITHIN_S)
    assert not arrivals.expected(KEY, 10.1 + MOVED_WITHIN_S)


def test_a_crowd_of_subscriptions_costs_the_same_for_each() -> None:
    arrivals = Arrivals()
    crowd = [ClaimKey(KEY.topic, str(number)) for number in range(20_000)]
    begun = time.process_time()
    for number, key in enumerate(crowd):
        arrivals.left(key, 10.0, 10.0 + number / 10_000)
    assert time.process_time() - begun < 2.0  # 20,000 looks at all of them take longer
    assert all(arrivals.expected(key, 12.0) for key in crowd)
    arrivals.left(KEY, 20.0, 20.0)
    assert not any(arrivals.expected(key, 20.0) for key in crowd)


def test_one_who_did_not_come_does_not_stand_for_one_who_has() -> None:
    arrivals = Arrivals()
    arrivals.left(KEY, 10.0, 10.0)
    arrivals.left(KEY, 14.0, 14.0)
    arrivals.left(OTHER, 10.0 + TRAVEL_S, 10.0 + TRAVEL_S)
    arrivals.came(KEY)
    assert not arrivals.expected(KEY, 10.0 + TRAVEL_S)


def test_a_client_that_keeps_saying_that_it_comes_is_not_waited_for_any_longer_than_one_that_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "TRAVEL_S", 0.1)
    broker = SimpleNamespace(arrivals=SimpleNamespace(expected=lambda *_: True))
    consumer = SimpleNamespace(
        connection=SimpleNamespace(broker=broker), hold=SimpleNamespace(key=KEY, epoch=1), left=False
    )

    async def run() -> None:
        async with asyncio.timeout(5):
            await requests._arrived(cast("Consumer", consumer))

    asyncio.run(run())
