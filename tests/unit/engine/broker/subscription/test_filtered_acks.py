"""Markers and aborted messages are acked at the owner, whatever becomes of the consumer that reads them."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from readonly_engine.broker.consumer.served import ServedConsumer
from readonly_engine.broker.dispatch.make import make_consumer_state
from readonly_engine.broker.subscription.subscription import Subscription
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.grouped_acks import GroupedAckSender
from readonly_engine.owner.lease import OwnerLease
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MarkerType, MessageMetadata
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandAckResponse, CommandSubscribe

from tests.support.ledgers import chain_of
from tests.support.subscription_parts import subscription_parts
from tests.support.waiting import until

TOPIC = parse_topic_name("persistent://public/default/orders")


def entry(number: int, marker: int | None = None) -> TopicEntry:
    metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
    if marker is not None:
        metadata.marker_type = marker
    encoded = metadata.SerializeToString()
    return TopicEntry(Entry(0, number, 0, 0, len(encoded).to_bytes(4, "big") + encoded))


class Log:
    """A topic of a message between two markers."""

    topic = TOPIC
    latest_batch = None

    def __init__(self) -> None:
        self.entries = [entry(0, MarkerType.TXN_ABORT), entry(1), entry(2, MarkerType.TXN_COMMIT)]
        self.chain = chain_of(0, lac=2)

    def listen(self, *_: object, **__: object) -> None: ...

    def unlisten(self, *_: object) -> None: ...

    def defer_to_notification(self, _: Position) -> bool:
        return False

    def cached(self, first: Position, count: int) -> list[TopicEntry]:
        return [one for one in self.entries if one.position >= first][:count]


class OwnerConsumer:
    """A consumer at the owner whose acks the test answers."""

    def __init__(self, *, attached: bool) -> None:
        self.attached = attached
        self.acks: list[int] = []
        self.answers: list[Callable[[BaseCommand | None], None]] = []
        self.sender: GroupedAckSender | None = None

    def share_acks(self, sender: GroupedAckSender) -> None:
        self.sender = sender
        if self.attached:
            sender.channel_opened(self, self)

    def send_acks(self, ids: bytes, on_response: Callable[[BaseCommand | None], None]) -> None:
        ack = CommandAck()
        ack.MergeFromString(ids)
        self.acks += [one.entry_id for one in ack.message_id]
        self.answers.append(on_response)

    def ack(self, ack: CommandAck) -> None:
        """An ack of this consumer alone: without a place at the owner it goes nowhere."""
        if self.attached:
            self.acks += [one.entry_id for one in ack.message_id]

    def answer(self) -> None:
        for answered in self.answers:
            answered(BaseCommand(type=BaseCommand.ACK_RESPONSE, ack_response=CommandAckResponse()))
        self.answers.clear()

    def leave(self) -> None:
        self.attached = False
        if self.sender is not None:
            self.sender.channel_closed(self)


def consumer(subscribe: CommandSubscribe, owner: OwnerConsumer, delivered: list[bytes]) -> ServedConsumer:
    made = SimpleNamespace(
        dispatch_state=make_consumer_state(subscribe, writable=True),
        owner_consumer=owner,
        consumer_id=1,
        lease=OwnerLease(),
        lease_valid=True,
        deliver=lambda frames, _: delivered.append(frames),
    )
    made.dispatch_state.permits = 10
    return made


def subscription(subscribe: CommandSubscribe) -> Subscription:
    transactions = SimpleNamespace(
        call_on_move=lambda _: None, forget=lambda _: None, allows=lambda _: True, permitted=lambda entries: entries
    )
    parts = subscription_parts(Log(), subscribe, transactions, Position(0, -1), Position(0, 2))
    made = Subscription(parts, lambda *_: None)
    made.start()
    return made


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Shared])
async def test_acks_of_markers_survive_a_consumer_that_has_lost_its_place(kind: CommandSubscribe.SubType) -> None:
    """The first consumer reads them; a client of it went silent, and its consumer is not at the owner any more."""
    subscribe = CommandSubscribe(topic=str(TOPIC), subscription="s", sub_type=kind, durable=True)
    made = subscription(subscribe)
    lost, there = OwnerConsumer(attached=False), OwnerConsumer(attached=True)
    delivered: list[bytes] = []
    first = consumer(subscribe, lost, delivered)
    made.add(first)
    await until(lambda: bool(delivered))
    made.add(consumer(subscribe, there, delivered))
    made.remove(first)
    lost.leave()
    await until(lambda: sorted(there.acks) == [0, 2])
    assert lost.acks == []
    made.close()


async def test_acks_of_markers_are_sent_again_when_their_consumer_leaves_without_an_answer() -> None:
    subscribe = CommandSubscribe(topic=str(TOPIC), subscription="s", sub_type=CommandSubscribe.Exclusive, durable=True)
    made = subscription(subscribe)
    frozen, there = OwnerConsumer(attached=True), OwnerConsumer(attached=True)
    first = consumer(subscribe, frozen, [])
    made.add(first)
    await until(lambda: sorted(frozen.acks) == [0, 2])
    made.add(consumer(subscribe, there, []))
    made.remove(first)
    frozen.leave()
    await until(lambda: sorted(there.acks) == [0, 2])
    there.answer()
    there.leave()
    assert made._grouped_acks is not None
    assert not made._grouped_acks.unanswered.message_id
    made.close()
