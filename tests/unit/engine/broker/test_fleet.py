from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.fleet import choose_broker

BROKERS = [f"pulsar://pool-{number}.pool-headless.team.svc:6650" for number in range(5)]
TOPICS = [f"persistent://public/default/orders-partition-{number}" for number in range(1000)]


@given(st.permutations(BROKERS), st.sampled_from(TOPICS))
def test_all_agree_whatever_order_they_know_each_other_in(order, topic):
    assert choose_broker(topic, order) == choose_broker(topic, BROKERS) == choose_broker(topic, frozenset(order))


def test_in_an_empty_pool_nobody_serves():
    assert choose_broker(TOPICS[0], []) is None


def test_when_a_broker_leaves_only_its_topics_move():
    for leaver in BROKERS:
        left = [broker for broker in BROKERS if broker != leaver]
        for topic in TOPICS:
            before, after = choose_broker(topic, BROKERS), choose_broker(topic, left)
            assert after != leaver
            assert before in {after, leaver}


def test_topics_are_spread():
    """1,000 topics over 5 brokers: 200 each, give or take four standard deviations of about 13."""
    counts = Counter(choose_broker(topic, BROKERS) for topic in TOPICS)
    assert set(counts) == set(BROKERS)
    assert all(150 <= count <= 250 for count in counts.values()), counts


def test_the_topics_of_a_broker_that_leaves_are_spread_over_all_others():
    moved = Counter(choose_broker(t, BROKERS[1:]) for t in TOPICS if choose_broker(t, BROKERS) == BROKERS[0])
    assert set(moved) == set(BROKERS[1:])
    assert all(count >= 25 for count in moved.values()), moved


def test_the_choice_is_the_same_in_every_version():
    """Brokers of two versions are in a pool at once while it is rolled: a change here would split subscriptions."""
    found = [BROKERS.index(choose_broker(topic, BROKERS)) for topic in TOPICS[:12]]
    assert found == [4, 1, 0, 4, 2, 3, 1, 4, 3, 1, 2, 4]
