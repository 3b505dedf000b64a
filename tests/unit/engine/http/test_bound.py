import asyncio
import itertools
from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.bindings import Binding, Bindings, from_patterns
from readonly_engine.http import bound
from readonly_engine.http.bound import CACHE_TTL_S, MAX_LAGGING, BoundTopics, Lag, Matched, match, namespaces_of, worst
from readonly_engine.http.status.slices import STEPS, Slices
from readonly_engine.metadata.topic_name import parse_topic_name

from tests.support.played_broker import PlayedSubscription

P = "persistent://public/default/"


def topics(*names):
    return [parse_topic_name(P + name) for name in names]


LISTED = {"public/default": topics("a", "b-partition-0", "b-partition-1", "c", "__change_events"), "shop/eu": []}


def matched(binding):
    return asyncio.run(match(binding, LISTED))


def test_one_partition_can_be_bound():
    assert matched(from_patterns("x", [P + "b-partition-1"])) == Matched((P + "b",), 1)


def test_an_expression_over_namespaces_is_not_counted():
    assert matched(from_patterns("x", [P + "a", "persistent://public/.*/a"])) is None
    assert namespaces_of(from_patterns("x", ["orders", "persistent://t/n/a.*", P + "b"])) == ["public/default", "t/n"]


def test_the_lag_of_a_topic_is_that_of_its_slowest_subscription_over_all_partitions():
    bindings = Bindings((Binding("x", namespaces=("public/default",)),))
    backlogs = zip(LISTED["public/default"], [{"s": 5, "t": 7}, {"s": 4}, {"s": 4, "t": 7}, {"s": 0}], strict=False)
    served = [
        (
            topic,
            SimpleNamespace(subscriptions={name: PlayedSubscription(backlog=count) for name, count in found.items()}),
        )
        for topic, found in backlogs
    ]
    broker = SimpleNamespace(bindings=bindings, topics=SimpleNamespace(all=served))
    (document,) = asyncio.run(BoundTopics(broker, Cluster()).documents())
    found = [Lag(**one) for one in document["lag"]]
    assert found[:2] == [Lag(8, P + "b", "s"), Lag(7, P + "a", "t")]


def test_the_topics_with_the_most_lag_are_few_and_are_found_in_slices():
    many = {(f"{P}t-{number:05}", "s"): number % 5000 for number in range(10 * STEPS)}
    slices = Slices()
    pauses = []
    slices.pause = lambda: pauses.append(slices.steps) or Slices.pause(slices)
    found = asyncio.run(worst(many, slices))
    assert found == [Lag(4999 - rank, f"{P}t-{4999 - rank:05}", "s") for rank in range(MAX_LAGGING)]
    assert max(later - earlier for earlier, later in itertools.pairwise([0, *pauses])) <= STEPS


class Cluster:
    """A namespace whose topics are given; `answers` lets its lists through."""

    def __init__(self):
        self.names = topics("a")
        self.lists = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def topics(self, _tenant, _namespace):
        self.lists += 1
        await self.answers.wait()
        return list(self.names)


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(bound, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def bound_topics(cluster):
    bindings = Bindings((Binding("x", namespaces=("public/default",)),))
    return BoundTopics(SimpleNamespace(bindings=bindings), cluster)


async def test_a_topic_that_is_newer_than_the_last_list_counts_in_the_next_one(clock):
    cluster = Cluster()
    found = bound_topics(cluster)
    assert await found.topics("x") == [P + "a"]
    cluster.names = topics("a", "b")
    clock.now = CACHE_TTL_S
    assert await found.topics("x") == [P + "a"]
    clock.now = 30.0
    assert await found.topics("x") == [P + "a", P + "b"]
    assert cluster.lists == 2


async def test_a_slow_list_holds_up_requests_for_a_bounded_time_and_is_made_once(clock, monkeypatch):
    monkeypatch.setattr(bound, "LIST_TIMEOUT_S", 0.01)
    cluster = Cluster()
    found = bound_topics(cluster)
    assert await found.topics("x") == [P + "a"]
    cluster.names = topics("b")
    cluster.answers.clear()
    clock.now = 30.0
    assert await asyncio.gather(found.topics("x"), found.topics("x")) == [[P + "a"], [P + "a"]]
    assert cluster.lists == 2
    cluster.answers.set()
    assert await found.topics("x") == [P + "b"]
    assert cluster.lists == 2


async def test_bindings_that_change_during_a_list_are_listed_for_the_same_request(clock):
    cluster = Cluster()
    cluster.answers.clear()
    broker = SimpleNamespace(bindings=Bindings((Binding("x", namespaces=("public/default",)),)))
    found = BoundTopics(broker, cluster)
    before = asyncio.create_task(found.topics("x"))
    await asyncio.sleep(0)
    broker.bindings = Bindings((Binding("y", namespaces=("public/default",)),))
    after = [asyncio.create_task(found.topics("y")) for _ in range(2)]
    await asyncio.sleep(0)
    cluster.answers.set()
    assert await asyncio.gather(*after) == [[P + "a"], [P + "a"]]
    assert await before is None
    assert cluster.lists == 2
