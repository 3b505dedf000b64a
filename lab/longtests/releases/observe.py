"""What a consumer sees of the owner brokers of one release at their own defaults: one short text for each subject."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import pulsar
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandLookupTopic, MessageIdData

from tests.support.messages import publish_numbers
from tests.support.pulsar.raw_client import RawClient, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from devstack.pulsar.cluster import PulsarCluster

RECEIVE_MS: Final = 20_000
QUIET_MS: Final = 5_000
"""A message that does not come within this time does not come."""

WAIT_S: Final = 30.0
BATCH: Final = 10
ACKED: Final = 4
LOOK_AHEAD: Final = 10_000
"""Messages for each of two Key_Shared consumers: more than the limits of all releases."""

LIMIT: Final = 20
NOT_THERE: Final = 1_000
"""Distance of an entry that does not exist from the last one."""


def _topic(stack: PulsarCluster, word: str) -> str:
    topic = f"persistent://public/default/{word}-{uuid.uuid4().hex[:8]}"
    stack.admin().create_topic(topic)
    return topic


def _client(stack: PulsarCluster) -> pulsar.Client:
    return pulsar.Client(stack.endpoints.writer_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def load_manager(stack: PulsarCluster) -> str:
    """Return the classes that assign topics to brokers, and that move them."""
    configuration = stack.admin().runtime_configuration()
    names = ("loadManagerClassName", "loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy")
    return ", ".join(configuration[name].rsplit(".", 1)[-1] for name in names)


def lookup_at_another_broker(stack: PulsarCluster) -> str:
    """Ask the broker that does not own a topic for its owner, by the binary protocol."""
    topic = _topic(stack, "lookup")
    owner = stack.admin().lookup(topic)
    others = [url for url in _brokers(stack) if url != owner]
    with RawClient(others[0]) as client:
        lookup = CommandLookupTopic(topic=topic)
        answer = client.request(BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=lookup)).lookup_topic_response
    where = "the owner" if answer.broker_service_url == owner else "another address"
    kind = CommandLookupTopic.DESCRIPTOR.file.message_types_by_name["CommandLookupTopicResponse"].enum_types_by_name[
        "LookupType"
    ]
    sure = "authoritative" if answer.authoritative else "not authoritative"
    return f"{kind.values_by_number[answer.response].name} to {where}, {sure}"


def _brokers(stack: PulsarCluster) -> list[str]:
    spec = stack.spec
    return [f"pulsar://127.0.0.1:{spec.broker_port(index)}" for index in range(spec.brokers)]


def close_at_an_unload(stack: PulsarCluster) -> str:
    """Unload a topic under a consumer of protocol 21; return whether CLOSE_CONSUMER names the next owner (PIP-307)."""
    topic = _topic(stack, "unload")
    with RawClient(stack.admin().lookup(topic)) as client:
        client.subscribe(topic, "s")
        stack.admin().unload(topic)
        close, _ = client.wait(lambda command: command.type == BaseCommand.CLOSE_CONSUMER, WAIT_S)
    named = close.close_consumer.assigned_broker_service_url
    return "CLOSE_CONSUMER with the next owner" if named else "CLOSE_CONSUMER without an address"


def batch_index_acks(stack: PulsarCluster) -> str:
    """Ack some messages of a batch with either setting of the client; return what comes again."""
    seen = []
    for enabled in (False, True):
        topic = _topic(stack, "batch")
        client = _client(stack)
        try:
            options = {"consumer_type": pulsar.ConsumerType.Shared, "batch_index_ack_enabled": enabled}
            consumer = client.subscribe(topic, "s", **options)
            batch = {"batching_enabled": True, "batching_max_messages": BATCH, "batching_max_publish_delay_ms": 60_000}
            publish_numbers(client, topic, range(BATCH), **batch)
            messages = [consumer.receive(RECEIVE_MS) for _ in range(BATCH)]
            for message in messages[:ACKED]:
                consumer.acknowledge(message)
            consumer.close()
            consumer = client.subscribe(topic, "s", **options)
            again = len(_received(consumer))
            seen.append(f"{again} with the client's option {'on' if enabled else 'off'}")
        finally:
            client.close()
    return f"{ACKED} of {BATCH} acked, then come again: {', '.join(seen)}"


def _received(consumer: pulsar.Consumer, *, ack: bool = False) -> list[pulsar.Message]:
    found = []
    while True:
        try:
            found.append(consumer.receive(QUIET_MS if found else RECEIVE_MS))
        except pulsar.Timeout:
            return found
        if ack:
            consumer.acknowledge(found[-1])


def key_shared_look_ahead(stack: PulsarCluster) -> str:
    """Let one of two Key_Shared consumers stop; return how many messages the other one gets past it."""
    topic = _topic(stack, "keys")
    client = _client(stack)
    try:
        kind = pulsar.ConsumerType.KeyShared
        slow = client.subscribe(topic, "s", kind, receiver_queue_size=1, consumer_name="slow")
        quick = client.subscribe(topic, "s", kind, consumer_name="quick")
        publish_numbers(client, topic, range(100), key=str, batching_enabled=False)
        slow_key = slow.receive(RECEIVE_MS).partition_key()
        quick_key = _received(quick, ack=True)[0].partition_key()
        # Single messages of both keys in turn.
        numbers = range(100, 100 + 2 * LOOK_AHEAD)
        publish_numbers(
            client, topic, numbers, key=lambda number: (slow_key, quick_key)[number % 2], batching_enabled=False
        )
        got = len(_received(quick, ack=True))
    finally:
        client.close()
    return f"{got:,} of {LOOK_AHEAD:,} messages of the other consumer"


def topic_policies(stack: PulsarCluster) -> str:
    """Set a policy of a topic; return where it is stored and whether a consumer meets it."""
    topic = _topic(stack, "policy")
    admin, client = stack.admin(), _client(stack)
    try:
        admin.set_max_unacked_on_consumer(topic, LIMIT)
        publish_numbers(client, topic, range(3 * LIMIT), batching_enabled=False)
        options = {
            "consumer_type": pulsar.ConsumerType.Shared,
            "initial_position": pulsar.InitialPosition.Earliest,
        }
        limited = len(_received(client.subscribe(topic, "s", **options))) == LIMIT
    finally:
        client.close()
    stored = any("/__change_events" in name for name in admin.topics(system=True))
    where = "in the system topic of the namespace" if stored else "in the metadata store"
    return f"{where}; {'' if limited else 'not '}applied"


def acks_of_missing_entries(stack: PulsarCluster) -> str:
    """Ack an entry that does not exist, and ask for an answer."""
    topic = _topic(stack, "missing")
    client = _client(stack)
    try:
        (last,) = publish_numbers(client, topic, range(1), batching_enabled=False)
    finally:
        client.close()
    with RawClient(stack.admin().lookup(topic)) as raw:
        raw.subscribe(topic, "s", sub_type=1)
        missing = MessageIdData(ledger_id=last.ledger_id(), entry_id=last.entry_id() + NOT_THERE)
        ack = CommandAck(consumer_id=0, ack_type=CommandAck.Individual, message_id=[missing])
        try:
            raw.request(BaseCommand(type=BaseCommand.ACK, ack=ack))
        except RefusedError as error:
            return f"refused: {error.args[1]}"
    return "accepted"


def connected(stack: PulsarCluster) -> str:
    """Return the protocol version and the features that a broker offers."""
    with RawClient(stack.endpoints.writer_url) as client:
        answer = client.connected
    flags = [field.name for field, value in answer.feature_flags.ListFields() if value]
    return f"version {answer.protocol_version}, {len(flags)} features: {', '.join(flags)}"


def scalable_names(stack: PulsarCluster) -> str:
    """Look up and subscribe to a scalable topic's name as a client that does not know them."""
    topic = "topic://public/default/orders"
    with RawClient(stack.endpoints.writer_url) as client:
        try:
            url = client.lookup(topic)
        except RefusedError as error:
            return f"LOOKUP refused: {error.args[1]}"
    with RawClient(url) as client:
        try:
            client.subscribe(topic, "s")
        except RefusedError as error:
            return f"LOOKUP accepted, SUBSCRIBE refused: {error.args[1]}"
    return "LOOKUP and SUBSCRIBE accepted"


SUBJECTS: Final[dict[str, Callable[[PulsarCluster], str]]] = {
    "answer to CONNECT": connected,
    "load manager": load_manager,
    "lookup at a broker that is not the owner": lookup_at_another_broker,
    "unload under a consumer": close_at_an_unload,
    "acks of single messages of a batch": batch_index_acks,
    "Key_Shared, one of two consumers stops": key_shared_look_ahead,
    "policy of a topic": topic_policies,
    "ack of an entry that does not exist": acks_of_missing_entries,
    "`topic://` of a client of protocol 21": scalable_names,
}
"""Subjects of the table, in its order, with the load manager that is the default."""

EXTENSIBLE: Final[dict[str, Callable[[PulsarCluster], str]]] = {
    "lookup at a broker that is not the owner, ExtensibleLoadManagerImpl": lookup_at_another_broker,
    "unload under a consumer, ExtensibleLoadManagerImpl": close_at_an_unload,
}
"""Subjects with the other load manager."""
