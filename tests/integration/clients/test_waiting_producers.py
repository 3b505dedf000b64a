"""Producers that wait: for an owner that does not answer, and for exclusive access. Nothing of them stays at the owner."""

import time
from contextlib import suppress
from typing import Final

import pytest
from readonly_engine.owner.connection import CONNECT_TIMEOUT_S
from readonly_engine.owner.requests import REQUEST_TIMEOUT_S
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandCloseProducer, CommandProducer, ProducerAccessMode

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.apart import Apart
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.second_stack]

SLACK_S: Final = 10.0
"""Deadlines are kept to within this, on machines where much else runs."""

LOOKUP_S: Final = REQUEST_TIMEOUT_S + CONNECT_TIMEOUT_S
"""A silent owner may cost this before it is sent PRODUCER at all."""


def exclusive(topic: str, mode: ProducerAccessMode, request_id: int, producer_id: int = 0) -> BaseCommand:
    producer = CommandProducer(topic=topic, producer_id=producer_id, request_id=request_id, producer_access_mode=mode)
    return BaseCommand(type=BaseCommand.PRODUCER, producer=producer)


def refusal(client: RawClient, topic: str, producer_id: int) -> tuple[float, RefusedError]:
    """How long a client waits for a producer that it does not get, in seconds, and the answer."""
    begin = time.monotonic()
    producer = CommandProducer(topic=topic, producer_id=producer_id, request_id=77)
    client.send(BaseCommand(type=BaseCommand.PRODUCER, producer=producer))
    answer, _ = client.wait(lambda command: command.type == BaseCommand.ERROR, LOOKUP_S + REQUEST_TIMEOUT_S + SLACK_S)
    assert answer.error.request_id == 77
    return time.monotonic() - begin, RefusedError("PRODUCER", answer.error.error, answer.error.message)


def test_a_client_waits_30_s_for_an_owner_that_does_not_answer_producer(
    apart: Apart, admin: PulsarAdmin, topic: str
) -> None:
    """The owner answers everything else, PINGs too; and it has created the producer, which must not stay."""
    with RawClient(apart.broker.url) as client:
        apart.dropped.add(BaseCommand.PRODUCER_SUCCESS)
        waited, error = refusal(client, topic, 1)
        assert REQUEST_TIMEOUT_S - 1 < waited < REQUEST_TIMEOUT_S + SLACK_S
        assert error.args[1] == "ServiceNotReady"
        assert "did not answer PRODUCER in 30 s" in error.args[2]
        wait_until(lambda: not admin.stats(topic)["publishers"], what="nothing is left at the owner")
        assert apart.broker.stats()["producers"] == 0
        apart.dropped.clear()
        client.produce(topic, 1)
        client.publish(b"0", 0, producer_id=1)
        assert client.receipt().producer_id == 1


@pytest.mark.slow
def test_a_client_waits_70_s_at_most_for_an_owner_that_is_silent(apart: Apart, topic: str) -> None:
    with RawClient(apart.broker.url) as client:
        client.produce(topic, 0)
        for relay in apart.relays.values():
            relay.silence()
        waited, error = refusal(client, topic, 1)
        assert waited < LOOKUP_S + REQUEST_TIMEOUT_S + SLACK_S
        assert error.args[1] == "ServiceNotReady"


@pytest.mark.parametrize("where", ["owner", "pool"])
@pytest.mark.parametrize("leaving", ["close", "disconnect"])
def test_a_producer_that_waits_for_exclusive_access_and_leaves_is_forgotten(
    pool: Pool, pulsar: Endpoints, admin: PulsarAdmin, topic: str, where: str, leaving: str
) -> None:
    admin.create_topic(topic)
    with RawClient(pulsar.writer_url) as entrance:
        owner = entrance.lookup(topic)
    url = owner if where == "owner" else pool.brokers[0].url
    with RawClient(owner) as holder, RawClient(url) as waiter, RawClient(owner) as next_one:
        name = holder.produce(topic, producer_access_mode=ProducerAccessMode.AccessExclusive).producer_name
        waiter.send(exclusive(topic, ProducerAccessMode.AccessWaitForExclusive, 5))
        first, _ = waiter.wait(lambda command: command.type == BaseCommand.PRODUCER_SUCCESS)
        assert not first.producer_success.producer_ready
        if leaving == "close":
            close = CommandCloseProducer(producer_id=0)
            waiter.request(BaseCommand(type=BaseCommand.CLOSE_PRODUCER, close_producer=close))
        else:
            waiter.close()
        if where == "pool":
            wait_until(lambda: pool.brokers[0].stats()["producers"] == 0)
        assert [one["producerName"] for one in admin.stats(topic)["publishers"]] == [name]
        holder.close()
        wait_until(lambda: not admin.stats(topic)["publishers"], what="the topic is free")

        def let_in() -> bool:
            """Whether the topic is free: the owner gives one that is gone its turn, for some ms."""
            with suppress(RefusedError):
                return next_one.produce(topic, producer_access_mode=ProducerAccessMode.AccessExclusive).producer_ready
            return False

        wait_until(let_in, SLACK_S, "another producer gets exclusive access")
        next_one.publish(b"0", 0)
        assert next_one.receipt().producer_id == 0


def test_a_producer_gets_exclusive_access_through_the_pool_after_those_before_it_have_left(
    pool: Pool, pulsar: Endpoints, topic: str
) -> None:
    """It waits for longer than any other request may; of two that wait, the first has left meanwhile."""
    url = pool.brokers[0].url
    with RawClient(pulsar.writer_url) as entrance:
        owner = entrance.lookup(topic)
    with RawClient(owner) as holder, RawClient(url) as first, RawClient(url) as second:
        holder.produce(topic, producer_access_mode=ProducerAccessMode.AccessExclusive)
        for waiter in (first, second):
            waiter.send(exclusive(topic, ProducerAccessMode.AccessWaitForExclusive, 5))
            waiter.wait(lambda command: command.type == BaseCommand.PRODUCER_SUCCESS)
        first.close()
        with pytest.raises(TimeoutError):
            second.wait(lambda command: command.type != BaseCommand.PING, REQUEST_TIMEOUT_S + 2)
        holder.close()
        answer, _ = second.wait(lambda command: command.type == BaseCommand.PRODUCER_SUCCESS)
        assert answer.producer_success.producer_ready
        second.publish(b"0", 0)
        assert second.receipt().producer_id == 0
