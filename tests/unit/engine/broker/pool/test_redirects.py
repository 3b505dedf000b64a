from __future__ import annotations

from readonly_engine.broker.pool.redirects import (
    MIN_REDIRECT_INTERVAL_S,
    RedirectHistory,
    close_consumer,
    close_producer,
)
from readonly_engine.wire.commands import decode_command

NEW, OLD = "Pulsar-Java-v4.0.8", "Pulsar-Java-v2.11.4"


def test_a_client_that_would_not_go_is_not_moved():
    moves = RedirectHistory()
    assert not moves.allow(OLD, "a", 0.0)
    assert moves.redirected == 0


def test_a_client_that_comes_back_at_once_is_not_moved_again():
    moves = RedirectHistory()
    assert moves.allow(NEW, "a", 100.0)
    assert not moves.allow(NEW, "a", 100.0 + MIN_REDIRECT_INTERVAL_S - 1)
    assert moves.allow(NEW, "b", 101.0)
    assert moves.allow(NEW, "a", 100.0 + MIN_REDIRECT_INTERVAL_S)
    assert moves.redirected == 3


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
