"""Redirects of clients, and consumers on the way from one broker of a pool to another."""

import asyncio
import math
import time
from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.broker.pool.pending_redirects import ARRIVAL_TIMEOUT_S, PendingRedirects
from readonly_engine.broker.pool.redirects import (
    MAX_QUIET_WAIT_S,
    MIN_REDIRECT_INTERVAL_S,
    QUIET_S,
    TO_OWNER,
    TO_POOL,
    PendingRedirect,
    RedirectHistory,
    close_consumer,
    close_producer,
)
from readonly_engine.broker.session import requests
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo

NEW, OLD = "Pulsar-Java-v4.0.8", "Pulsar-Java-v2.11.4"


def test_a_client_that_would_not_go_is_not_moved():
    moves = RedirectHistory()
    assert not moves.allow(OLD, "a", 0.0)
    assert moves.redirected == {TO_POOL: 0, TO_OWNER: 0}


def test_a_client_that_comes_back_at_once_is_not_moved_again():
    moves = RedirectHistory()
    assert moves.allow(NEW, "a", 100.0)
    assert not moves.allow(NEW, "a", 100.0 + MIN_REDIRECT_INTERVAL_S - 1)
    assert moves.allow(NEW, "b", 101.0, TO_OWNER)
    assert moves.allow(NEW, "a", 100.0 + MIN_REDIRECT_INTERVAL_S)
    assert moves.redirected == {TO_POOL: 2, TO_OWNER: 1}


def test_a_consumer_is_redirected_when_its_client_asks_for_nothing():
    pending = PendingRedirect(100.0)
    pending.permits = 1000
    assert pending.wait(100.0) == pytest.approx(QUIET_S)
    pending.requested_at = math.inf  # a request has no answer yet
    assert pending.wait(100.3) == pytest.approx(MAX_QUIET_WAIT_S - 0.3)
    pending.requested_at = 100.4
    assert pending.wait(100.401) == pytest.approx(QUIET_S - 0.001)
    assert pending.wait(100.4 + QUIET_S) <= 0


@pytest.mark.parametrize("requested_at", [math.inf, 101.995])
def test_a_client_that_asks_again_and_again_is_redirected_in_the_end(requested_at):
    pending = PendingRedirect(100.0)
    pending.permits = 1000
    pending.requested_at = requested_at
    assert pending.wait(101.99) == pytest.approx(0.01)
    assert pending.wait(100.0 + MAX_QUIET_WAIT_S) <= 0


def test_a_client_that_asks_for_one_message_is_never_redirected():
    pending = PendingRedirect(100.0)
    assert pending.wait(100.0) > 0
    pending.permits = 1
    assert pending.wait(100.1) is None


def test_a_client_that_asks_for_no_message_is_not_redirected():
    pending = PendingRedirect(100.0)
    assert pending.wait(99.9 + MAX_QUIET_WAIT_S) > 0
    assert pending.wait(100.0 + MAX_QUIET_WAIT_S) is None


def test_a_close_of_a_consumer_names_where_to_go():
    command, _ = decode_command(close_consumer(5, "pulsar://a:1", "pulsar+ssl://a:2")[4:])
    close = command.close_consumer
    assert (close.consumer_id, close.assigned_broker_service_url) == (5, "pulsar://a:1")
    assert close.assigned_broker_service_url_tls == "pulsar+ssl://a:2"
    command, _ = decode_command(close_consumer(6)[4:])
    assert command.close_consumer.consumer_id == 6
    assert not command.close_consumer.HasField("assigned_broker_service_url")
    assert not command.close_consumer.HasField("assigned_broker_service_url_tls")


def test_a_close_of_a_producer_names_nowhere_since_producers_are_not_moved():
    command, _ = decode_command(close_producer(5)[4:])
    close = command.close_producer
    assert close.producer_id == 5
    assert not close.HasField("assigned_broker_service_url")
    assert not close.HasField("assigned_broker_service_url_tls")


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
