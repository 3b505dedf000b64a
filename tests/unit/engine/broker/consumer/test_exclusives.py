"""Who keeps whom out of a subscription."""

import pytest
from readonly_engine.broker.consumer.exclusives import ExclusiveConsumers, excludes, is_exclusive, subscribe_at_owner
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    KeySharedMode,
    ServerError,
)
from readonly_engine.wire.subscribe_info import SubscribeInfo

TOPIC = parse_topic_name("orders")


def exclusive():
    return CommandSubscribe(subscription="s", sub_type=CommandSubscribe.Exclusive)


def sticky(*ranges, mode=KeySharedMode.STICKY):
    meta = KeySharedMeta(key_shared_mode=mode, hash_ranges=[IntRange(start=first, end=last) for first, last in ranges])
    return CommandSubscribe(subscription="s", sub_type=CommandSubscribe.Key_Shared, key_shared_meta=meta)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (exclusive(), True),
        (sticky((0, 9)), True),
        (sticky(mode=KeySharedMode.AUTO_SPLIT), False),
        (CommandSubscribe(sub_type=CommandSubscribe.Shared), False),
        (CommandSubscribe(sub_type=CommandSubscribe.Failover), False),
    ],
)
def test_consumers_that_keep_others_out(command, expected):
    assert is_exclusive(command) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (exclusive(), exclusive(), True),
        (exclusive(), sticky((0, 9)), True),
        (sticky((0, 9)), sticky((10, 19)), False),
        (sticky((0, 9)), sticky((9, 19)), True),
        (sticky((0, 1), (20, 30)), sticky((5, 9), (25, 26)), True),
        (sticky(), sticky((0, 9)), False),
    ],
)
def test_ranges_that_overlap_keep_each_other_out(one, other, expected):
    assert excludes(one, other) is excludes(other, one) is expected


class Consumer:
    topic = TOPIC
    owner_consumer = None
    exclusive = True

    def __init__(self, command, connection):
        self.subscribe_command, self.info, self.connection = command, SubscribeInfo.of(command), connection


def test_only_other_clients_are_in_the_way_until_they_leave():
    consumers = ExclusiveConsumers()
    first, second = Consumer(sticky((0, 9)), "a"), Consumer(sticky((10, 19)), "b")
    consumers.add(first)
    consumers.add(second)
    assert consumers.others(Consumer(sticky((5, 15)), "c")) == [first, second]
    assert consumers.others(Consumer(sticky((5, 15)), "a")) == [second]
    assert consumers.others(Consumer(sticky((20, 29)), "c")) == []
    consumers.remove(first)
    consumers.remove(first)
    assert consumers.others(Consumer(sticky((5, 15)), "c")) == [second]
    consumers.remove(second)
    assert not consumers._first
    assert not consumers._more


def test_subscriptions_of_a_topic_have_consumers_of_their_own():
    consumers = ExclusiveConsumers()
    commands = [CommandSubscribe(subscription=name, sub_type=CommandSubscribe.Exclusive) for name in "abc"]
    present = [Consumer(command, "one") for command in commands]
    for one in present:
        consumers.add(one)
    while present:
        consumers.remove(present.pop(0))
        found = [consumers.others(Consumer(command, "two")) for command in commands]
        assert found == [[], [], []][: 3 - len(present)] + [[one] for one in present]


@pytest.mark.parametrize("alive", [False, True])
async def test_the_consumer_of_a_lost_client_is_closed_before_others_of_that_client(alive):
    """The other ones may be thousands, which are closed one after the other."""

    class Client:
        async def is_alive(self):
            return alive

    class AtOwner:
        taken = True

        async def subscribe(self):
            if self.taken:
                raise OwnerRefusedError(ServerError.ConsumerBusy, "Exclusive consumer is already connected")
            return BaseCommand()

    class Leaving(Consumer):
        async def detach(self):
            AtOwner.taken = False

    consumers, consumer = ExclusiveConsumers(), Consumer(exclusive(), "b")
    consumer.owner_consumer = AtOwner()
    consumers.add(Leaving(exclusive(), Client()))
    if alive:
        with pytest.raises(OwnerRefusedError):
            await subscribe_at_owner(consumer, consumers)
    else:
        assert await subscribe_at_owner(consumer, consumers) == BaseCommand()
