"""Statistics as JSON: made in slices, whole, and without keeping clients that have gone."""

import asyncio
import gc
import itertools
import json
import weakref
from types import SimpleNamespace

import pytest
from readonly_engine.broker.passthrough.policy import PassedThrough
from readonly_engine.broker.pool.claims import ClaimKey
from readonly_engine.http.stats import Statistics
from readonly_engine.http.status.slices import STEPS, Slices
from readonly_engine.metadata.topic_name import parse_topic_name

from tests.support.played_broker import PlayedBroker, PlayedSubscription, played_consumer, played_topic

P = "persistent://public/default/"
TOPIC = parse_topic_name(P + "a")


def consumer(topic=TOPIC, name="s", **given):
    return played_consumer(topic, name, **given)


def played(subscriptions, relayed=(), claims=()):
    for name, one in subscriptions.items():
        one.name = name
    topic = played_topic(subscriptions, pushed=True)
    topic.tail.changes, topic.log.limit = 3, None
    broker = PlayedBroker({str(TOPIC): topic}, list(relayed))
    for connection in broker.connections:
        connection.buffered, connection.producers = 10, [1, 2]
    broker.local_cursors = SimpleNamespace(held={})
    broker.claim_store.held = list(claims)
    return broker


def document(broker, slices=None):
    return json.loads(asyncio.run(Statistics(broker).document(slices or Slices(), 5)))


def test_the_whole_document():
    served = PlayedSubscription(messages=4, size=40, backlog=7)
    served.consumers = [consumer()]
    relayed = [
        consumer(name="there", relayed=True, peer="pulsar://b:1"),
        consumer(name="owner's", relayed=True, address="10.0.0.8:1"),
        consumer(name="owner's", relayed=True, address="10.0.0.9:1"),
        consumer(parse_topic_name(P + "b"), "unbound", relayed=True, bound=False),
    ]
    broker = played({"s": served, 't"\n': PlayedSubscription()}, relayed, [ClaimKey(TOPIC, "s")])
    broker.passthrough.passed_through = [PassedThrough(TOPIC, "owner's", "storage", "broken", 2)]
    found = document(broker)
    assert found["claims"] == [{"topic": str(TOPIC), "subscription": "s"}]
    assert found["passedThrough"] == [
        {"topic": str(TOPIC), "subscription": "owner's", "reason": "storage", "text": "broken", "consumers": 2}
    ]
    assert (found["tasks"], found["connections"], found["bufferedBytes"], found["producers"]) == (5, 4, 40, 8)
    topic = found["topics"][str(TOPIC)]
    assert topic["tail"] == {"source": "owner", "changes": 3}
    assert topic["msgOutCounter"] == 4 + 3 * 5000
    assert set(topic["subscriptions"]) == {"s", 't"\n', "there", "owner's"}
    own = topic["subscriptions"]["s"]
    assert (own["msgBacklog"], own["unackedMessages"], own["claimed"], len(own["consumers"])) == (7, 100, True, 1)
    assert topic["subscriptions"]['t"\n']["consumers"] == []
    assert topic["subscriptions"]["there"]["servedBy"] == "pulsar://b:1"
    passed = topic["subscriptions"]["owner's"]
    assert (passed["servedBy"], passed["passedThrough"], passed["unackedMessages"]) == ("owner", "broken", 4)
    unbound = found["topics"][P + "b"]["subscriptions"]["unbound"]
    assert unbound["passedThrough"] == "no binding names it"


async def test_one_topic_has_the_same_statistics_as_in_the_whole():
    broker = played({"s": PlayedSubscription(messages=4)}, [consumer(relayed=True, name="x")])
    statistics = Statistics(broker)
    assert await statistics.topic(parse_topic_name(P + "none"), Slices()) is None
    one = json.loads(await statistics.topic(TOPIC, Slices()))
    assert one == json.loads(await statistics.document(Slices(), 0))["topics"][str(TOPIC)]


@pytest.mark.parametrize("shape", ["subscriptions", "consumers", "claims", "relayed", "passing"])
def test_no_slice_of_the_event_loop_grows_with_what_is_listed(shape):
    many = 1000
    served = {f"s{number}": PlayedSubscription() for number in range(many if shape == "subscriptions" else 1)}
    if shape == "consumers":
        served["s0"].consumers = [consumer()] * many
    relayed = [consumer(relayed=True, name=f"r{number}") for number in range(many if shape == "relayed" else 0)]
    claims = [ClaimKey(TOPIC, str(number)) for number in range(many if shape == "claims" else 0)]
    broker = played(served, relayed, claims)
    if shape == "passing":
        broker.passthrough.passed_through = [PassedThrough(TOPIC, str(one), "storage", "", 1) for one in range(many)]
    slices, counts = Slices(), [0]
    slices.pause = lambda: counts.append(slices.steps) or Slices.pause(slices)
    assert document(broker, slices)["topics"]
    assert slices.steps > 5 * many
    longest = max(later - earlier for earlier, later in itertools.pairwise([*counts, slices.steps]))
    assert longest <= STEPS + 20


async def test_clients_that_have_gone_are_not_kept():
    """Statistics of one topic may be all that anybody reads."""

    class Connection:
        pass

    statistics, one = Statistics(played({})), consumer(relayed=True)
    link = one.connection = Connection()
    link.peer, link.client_version = "10.0.0.7:1", "v"
    statistics._broker.connections = [SimpleNamespace(consumers=[one])]
    assert await statistics.topic(TOPIC, Slices())
    statistics._broker.connections = []
    watched = weakref.ref(link)
    del link, one
    gc.collect()
    assert watched() is None
