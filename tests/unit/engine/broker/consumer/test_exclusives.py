"""Who keeps whom out of a subscription."""

import pytest
from readonly_engine.broker.consumer.exclusives import ExclusiveConsumers, excludes, is_exclusive
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, IntRange, KeySharedMeta, KeySharedMode
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
