"""A broker of which only the state is played, for tests of statistics and pages."""

from types import SimpleNamespace
from typing import Any

from readonly_engine.broker.consumer.client_consumer import ClientConsumer
from readonly_engine.broker.consumer.local import LocallyKeptConsumer
from readonly_engine.broker.consumer.passed_through import PassedThroughConsumer
from readonly_engine.broker.consumer.proxied import ProxiedConsumer
from readonly_engine.broker.consumer.served import OwnerKeptConsumer
from readonly_engine.broker.dispatch.counters import Counters
from readonly_engine.broker.pool.membership import Member
from readonly_engine.broker.tail.budget import PushTotals
from readonly_engine.metadata.topic_name import TopicName, parse_topic_name
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe
from readonly_engine.wire.subscribe_info import SubscribeInfo


class PlayedSubscription:
    """One whose figures are given; it counts how often they are read.

    Attributes:
        reads: number of reads of its backlog, of all subscriptions.
    """

    reads = 0

    def __init__(self, *, messages: int = 0, size: int = 0, backlog: int = 0, ranges: int = 0) -> None:
        self.counters = Counters(messages=messages, bytes=size)
        self.consumers: list[ClientConsumer] = []
        self.kind = CommandSubscribe.Shared
        self.mark_delete = Position(7, 41)
        self.backlog_steps = 1 + ranges
        self.flushed = 0
        self._backlog = backlog

    @property
    def backlog(self) -> int:
        PlayedSubscription.reads += 1
        return self._backlog

    def flush_accounting(self) -> None:
        self.flushed += 1


def played_topic(
    subscriptions: dict[str, PlayedSubscription], *, pushed: bool | None = None, explicit: bool | None = None
) -> SimpleNamespace:
    """Return a topic that is served. `pushed` is None where the owner may not push."""
    tail = None if pushed is None else SimpleNamespace(pushed=pushed)
    return SimpleNamespace(subscriptions=subscriptions, tail=tail, log=SimpleNamespace(explicit_lac=explicit))


def played_consumer(topic: TopicName, name: str = "s", **given: Any) -> Any:
    """Return a consumer; `peer`, `relayed`, `version`, `address`, `consumer_name` and `bound` may be given."""
    relayed, peer = bool(given.get("relayed")), given.get("peer", "")
    kind = (ProxiedConsumer if peer else PassedThroughConsumer) if relayed else OwnerKeptConsumer
    consumer: Any = kind.__new__(kind)
    subscribe = CommandSubscribe(
        topic=str(topic), subscription=name, sub_type=CommandSubscribe.Shared, consumer_id=1, request_id=1,
        consumer_name=given.get("consumer_name", "c-1"),
    )  # fmt: skip
    consumer.owner_consumer = SimpleNamespace(subscribe_command=subscribe)
    consumer.topic, consumer.consumer_id, consumer.info = topic, 1, SubscribeInfo.of(subscribe)
    consumer.connection = SimpleNamespace(
        peer=given.get("address", "10.0.0.7:40001"), client_version=given.get("version", "Pulsar-Java-v4.0.8")
    )
    if not relayed:
        consumer.dispatch_state = SimpleNamespace(name=subscribe.consumer_name, permits=900, unacked=100, blocked=False)
    else:
        consumer.flow_window = SimpleNamespace(permits=5, pending={1: 1, 2: 1})
    if peer:
        consumer._peer = peer
    consumer.bound = given.get("bound", True)
    consumer.messages, consumer.bytes = 5000, 1 << 20
    return consumer


def bound_consumer(
    topic: str, subscription: str, *, bound: bool, via: str = "", kept_here: bool = False, durable: bool = True
) -> Any:
    """Return a consumer with what a change of bindings uses. Its `closed_for` is the reason of its close, or empty."""
    kept: type[ClientConsumer] = LocallyKeptConsumer if kept_here else OwnerKeptConsumer
    way = ProxiedConsumer if via else kept if bound else PassedThroughConsumer

    class BoundConsumer(way):  # type: ignore[valid-type, misc]
        closed_for = ""

        def close_for_resubscribe(self, reason: str) -> None:
            self.closed_for = reason

    consumer: Any = BoundConsumer.__new__(BoundConsumer)
    consumer.topic, consumer.bound, consumer.consumer_id = parse_topic_name(topic), bound, 1
    consumer.info = SubscribeInfo(subscription, CommandSubscribe.Exclusive, durable)
    return consumer


class PlayedBroker:
    """A broker with topics by name, and connections with consumers that are relayed."""

    def __init__(self, topics: dict[str, SimpleNamespace], relayed: list[ClientConsumer] | None = None) -> None:
        served = {parse_topic_name(name): one for name, one in topics.items()}
        counters = {
            (topic, name): subscription.counters
            for topic, one in served.items()
            for name, subscription in one.subscriptions.items()
        }
        self.topics = SimpleNamespace(
            all=list(served.items()),
            counters=counters,
            dropped_counters=Counters(messages=1, bytes=10),
            pushed=[PushTotals(1, 10), PushTotals(1, 10)],
        )
        self.connections = [SimpleNamespace(consumers=[one]) for one in relayed or []]
        self.passthrough = SimpleNamespace(passed_through=[])
        self.limits = SimpleNamespace(consumers=12)
        self.claim_store = SimpleNamespace(held=[1], suspended=False)
        self.bindings_error = None
        self.draining = False
        self.replay: Any = None
        members = [Member("pulsar://b-0:1", consumers=3, http_port=8080), Member("pulsar://a-1:1", consumers=9)]
        self.pool = SimpleNamespace(
            url="pulsar://b-0:1", name="orders", uid="7c1e", locality="/eu/a", members={one.url: one for one in members}
        )


STORES = SimpleNamespace(connected=True, denied=0)
