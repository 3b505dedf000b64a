"""Acks of entries that a client cannot have got: the owner ignores them, and so must a read-only broker.

From Pulsar 5.0 on an owner says so if a receipt is asked for.
"""

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandGetLastMessageId, CommandSubscribe

from devstack.pool import Pool
from devstack.pulsar.spec import DEFAULT_VERSION
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.raw_client import RawClient, RefusedError

pytestmark = pytest.mark.second_stack

LATER = 9
"""Messages that are published after they were acked."""


def ack(client: RawClient, kind: CommandAck.AckType, ids: list[tuple[int, int]], *, receipt: bool) -> None:
    command = CommandAck(consumer_id=0, ack_type=kind)
    for ledger_id, entry_id in ids:
        command.message_id.add(ledger_id=ledger_id, entry_id=entry_id)
    if receipt:
        try:
            client.request(BaseCommand(type=BaseCommand.ACK, ack=command))
        except RefusedError as error:
            if DEFAULT_VERSION.startswith("4.") or "Invalid mark deleted position" not in str(error):
                raise
        return
    client.send(BaseCommand(type=BaseCommand.ACK, ack=command))
    # Answered behind the ack, as commands of one consumer are taken in their order.
    request = CommandGetLastMessageId(consumer_id=0)
    client.request(BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID, get_last_message_id=request))


def play(
    url: str, publisher: pulsar.Client, topic: str, sub_type: CommandSubscribe.SubType, *, receipt: bool
) -> list[int]:
    """Ack entries before they exist, publish them, and return the entries that come, counted from the first one."""
    producer = publisher.create_producer(topic, batching_enabled=False)
    with RawClient(url) as any_broker:
        serving = any_broker.lookup(topic)
    with RawClient(serving) as client:
        client.subscribe(topic, "s", sub_type=sub_type, initial_position=CommandSubscribe.Earliest)
        first = producer.send(b"0")
        ledger_id, entry_id = first.ledger_id(), first.entry_id()
        client.flow(1)
        client.receive()
        for number in range(1, LATER + 1):
            ack(client, CommandAck.Individual, [(ledger_id, entry_id + number)], receipt=receipt)
        ack(client, CommandAck.Individual, [(2**62, 2**62), (ledger_id + 1, 0)], receipt=receipt)
        if sub_type in {CommandSubscribe.Exclusive, CommandSubscribe.Failover}:
            ack(client, CommandAck.Cumulative, [(ledger_id, entry_id + LATER)], receipt=receipt)
            ack(client, CommandAck.Cumulative, [(2**62, 2**62)], receipt=receipt)
        for number in range(1, LATER + 1):
            producer.send(b"%d" % number)
        client.flow(100)
        came = []
        for _ in range(LATER):
            command, _ = client.wait(lambda command: command.type == BaseCommand.MESSAGE)
            came.append(command.message.message_id.entry_id - entry_id)
    producer.close()
    return came


@pytest.mark.parametrize("receipt", [False, True])
@pytest.mark.parametrize("name", ["Exclusive", "Failover", "Shared", "Key_Shared"])
@pytest.mark.parametrize("where", ["owner", "pool"])
def test_what_was_acked_before_it_was_published_is_delivered(
    pool: Pool, pulsar: Endpoints, pulsar_client: pulsar.Client, topic: str, where: str, name: str, receipt: bool
) -> None:
    url = pool.brokers[0].url if where == "pool" else pulsar.writer_url
    sub_type = CommandSubscribe.SubType.Value(name)
    assert play(url, pulsar_client, topic, sub_type, receipt=receipt) == list(range(1, LATER + 1))
