import math

import pytest
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
from readonly_engine.wire.commands import decode_command

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
