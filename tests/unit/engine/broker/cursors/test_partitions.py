"""Where local cursors are stored, and which broker has them."""

from collections import Counter
from random import Random

import pytest
from readonly_engine.broker.cursors.partitions import (
    assign_partitions,
    check_cursor_topic,
    cursor_topic,
    guard_name,
    partition_of,
    topic_properties,
)
from readonly_engine.config.topic_patterns import is_system_topic
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.cursor_admin import PartitionedTopic
from readonly_engine.owner.errors import OwnerRefusedError

TOPIC = parse_topic_name("persistent://tenant/space/orders")
BROKERS = [f"pulsar://broker-{number}:6650" for number in range(20)]


def test_each_pool_has_one_topic_for_each_namespace() -> None:
    name = cursor_topic(TOPIC, "pool@uid")
    assert str(name) == "persistent://tenant/space/__readonly_cursors-pool@uid"
    assert parse_topic_name(str(name)) == name
    assert cursor_topic(parse_topic_name("persistent://tenant/space/a/b-partition-3"), "pool@uid") == name
    assert cursor_topic(TOPIC, "other") != name
    assert "/" not in cursor_topic(TOPIC, "a/b").local_name
    assert is_system_topic(str(name)), "a binding of the whole namespace would serve it"
    assert guard_name("pool@uid", 3) == "pulsar-readonly-guard-pool@uid-3"


def test_partitions_that_are_added_later_do_not_count() -> None:
    name, properties = cursor_topic(TOPIC, "pool"), topic_properties("pool", 16)
    for partitions in (16, 32, 1024):
        assert check_cursor_topic(name, PartitionedTopic(partitions, properties), "pool") == 16


@pytest.mark.parametrize(
    ("partitions", "properties"),
    [
        (16, {}),
        (16, {"pulsar-readonly.pool": "pool"}),
        (16, topic_properties("other", 16)),
        (16, topic_properties("pool", 17)),  # some were lost
        (0, topic_properties("pool", 0)),
        (2048, topic_properties("pool", 2048)),
        (16, {**topic_properties("pool", 16), "pulsar-readonly.partitions": "-1"}),
        (16, {**topic_properties("pool", 16), "pulsar-readonly.partitions": "9" * 5000}),
    ],
)
def test_a_topic_of_somebody_else_is_refused(partitions: int, properties: dict[str, str]) -> None:
    with pytest.raises(OwnerRefusedError, match="is no topic of this pool's cursors") as error:
        check_cursor_topic(cursor_topic(TOPIC, "pool"), PartitionedTopic(partitions, properties), "pool")
    assert len(str(error.value)) < 500


def test_subscriptions_are_spread_evenly() -> None:
    counts = Counter(partition_of(TOPIC, f"s{number}", 16) for number in range(16_000))
    assert len(counts) == 16
    assert 850 < min(counts.values()) <= max(counts.values()) < 1150


def _moved(before: tuple[str, ...], after: tuple[str, ...]) -> Counter[str]:
    """Return how many partitions each broker has lost."""
    return Counter(one for one, other in zip(before, after, strict=True) if one != other)


@pytest.mark.parametrize(
    ("count", "brokers"), [(16, 2), (16, 3), (64, 8), (64, 20), (128, 10), (1, 5), (200, 20), (7, 1), (1024, 20)]
)
def test_only_partitions_of_a_dead_broker_move_and_shares_are_equal(count: int, brokers: int) -> None:
    """Brokers die one after another and come back: the others lose nothing to a death, and no more than its share to a return."""
    choice = Random(count * brokers)
    members = set(BROKERS[:brokers])
    at = assign_partitions(TOPIC, count, frozenset(members), [""] * count)
    for _ in range(20 if count < 1024 else 3):
        gone = choice.sample(sorted(members), choice.randint(1, max(1, len(members) - 1)) if len(members) > 1 else 0)
        for url in gone:
            members.discard(url)
            before, at = at, assign_partitions(TOPIC, count, frozenset(members), at)
            assert set(_moved(before, at)) <= {url}
            _check_shares(at, members)
        for url in gone:
            members.add(url)
            before, at = at, assign_partitions(TOPIC, count, frozenset(members), at)
            assert sum(_moved(before, at).values()) == at.count(url) == count // len(members)
            _check_shares(at, members)
    assert assign_partitions(TOPIC, count, frozenset(), at) == ()


def _check_shares(at: tuple[str, ...], members: set[str]) -> None:
    shares = Counter(at)
    assert set(shares) <= members
    assert max(shares.values()) - min(shares[url] for url in members) <= 1
