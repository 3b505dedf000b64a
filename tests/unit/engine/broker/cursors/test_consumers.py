import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.cursors.consumers import (
    ConsumerAssignError,
    ConsumerBusyError,
    LocalConsumer,
    LocalConsumers,
)
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, KeySharedMeta, KeySharedMode
from readonly_engine.wire.sticky_key import key_hash

TOPIC = "persistent://public/default/t"
EXCLUSIVE, SHARED = CommandSubscribe.Exclusive, CommandSubscribe.Shared
FAILOVER, KEY_SHARED = CommandSubscribe.Failover, CommandSubscribe.Key_Shared


def consumer(number, kind, name="", priority=0, key_shared=(0, False)):
    return LocalConsumer(number, name or f"c{number}", priority, kind, key_shared, ((0, 1),) * (key_shared[0] == 1))


def test_an_exclusive_subscription_has_one_consumer():
    consumers = LocalConsumers(TOPIC, -1)
    consumers.add(consumer(1, EXCLUSIVE))
    assert consumers.active == 1
    with pytest.raises(ConsumerBusyError, match="Exclusive consumer is already connected"):
        consumers.add(consumer(2, EXCLUSIVE))
    consumers.remove(2)  # was never there
    assert consumers.active == 1
    consumers.remove(1)
    assert (consumers.active, consumers.kind, len(consumers)) == (None, None, 0)
    consumers.add(consumer(2, SHARED))
    assert (consumers.active, consumers.kind) == (None, SHARED)


def test_types_do_not_mix():
    consumers = LocalConsumers(TOPIC, -1)
    consumers.add(consumer(1, SHARED))
    with pytest.raises(
        ConsumerBusyError, match="type of 'Shared' is different than the connecting consumer's type 'Failover'"
    ):
        consumers.add(consumer(2, FAILOVER))
    assert len(consumers) == 1


@pytest.mark.parametrize("policy", [(1, False), (0, True)])
def test_key_shared_policies_do_not_mix(policy):
    consumers = LocalConsumers(TOPIC, -1)
    consumers.add(consumer(1, KEY_SHARED))
    consumers.add(consumer(2, KEY_SHARED))
    with pytest.raises(ConsumerBusyError, match="key_shared"):
        consumers.add(consumer(3, KEY_SHARED, key_shared=policy))


def sticky(number, *ranges):
    meta = KeySharedMeta(key_shared_mode=KeySharedMode.STICKY)
    for first, last in ranges:
        meta.hash_ranges.add(start=first, end=last)
    subscribe = CommandSubscribe(
        topic=TOPIC, subscription="s", consumer_name=f"c{number}", sub_type=KEY_SHARED, key_shared_meta=meta
    )
    return LocalConsumer.of(number, subscribe)


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ([], "must not be empty"),
        ([(9, 8)], r"start > end for range: \[9,8\]"),
        ([(0, 10), (10, 20)], "own ranges conflict"),
        ([(1_000, 1_999), (40, 60)], "Range conflict with consumer c1"),
        ([(99, 99)], "Range conflict with consumer c1"),
        ([(150, 151), (0, 200)], "own ranges conflict"),
    ],
)
def test_ranges_of_hashes_are_valid_and_nobody_elses(ranges, why):
    consumers = LocalConsumers(TOPIC, -1)
    consumers.add(sticky(1, (50, 99), (200, 300)))
    with pytest.raises(ConsumerAssignError, match=why):
        consumers.add(sticky(2, *ranges))
    consumers.add(sticky(3, (100, 199), (0, 49)))
    consumers.remove(1)
    consumers.add(sticky(4, (50, 50)))
    assert len(consumers) == 2


def test_the_limit_of_consumers():
    consumers = LocalConsumers(TOPIC, -1, limit=2)
    consumers.add(consumer(1, SHARED))
    consumers.add(consumer(2, SHARED))
    with pytest.raises(ConsumerBusyError, match="max consumers limit"):
        consumers.add(consumer(3, SHARED))


@given(st.lists(st.text(max_size=3), min_size=1, max_size=8, unique=True), st.text(max_size=5))
def test_the_active_consumer_is_the_one_on_the_owners_hash_ring(names, topic):
    """As AbstractDispatcherSingleActiveConsumer.makeHashRing and peekConsumerIndexFromHashRing."""
    consumers = LocalConsumers(topic, -1)
    for number, name in enumerate(names):
        consumers.add(LocalConsumer(number, name, 0, FAILOVER))
    ring = {key_hash(f"{name}{replica}".encode()): name for name in sorted(names) for replica in range(100)}
    point = min((point for point in ring if point >= key_hash(topic.encode())), default=min(ring))
    assert names[consumers.active] == ring[point]


def test_only_the_last_consumer_may_unsubscribe():
    consumers = LocalConsumers(TOPIC, -1)
    consumers.add(consumer(1, SHARED))
    assert consumers.may_unsubscribe(1)
    consumers.add(consumer(2, SHARED))
    assert not consumers.may_unsubscribe(1)
    consumers.remove(1)
    assert not consumers.may_unsubscribe(1)
    assert consumers.may_unsubscribe(2)
