"""Whether the owner or the pool serves a consumer for less."""

import pytest
from readonly_engine.broker.pool.cheaper import (
    FEW,
    MAX_RECENT,
    MAX_TOPICS,
    RECENT_S,
    SUBSCRIPTIONS,
    Consumers,
    RecentRedirects,
    belongs_at_owner,
    count_consumers,
    goes_back,
)
from readonly_engine.metadata.topic_name import parse_topic_name

ORDERS = parse_topic_name("orders")


def of_pool(pool):
    return {"metadata": {"key": pool}}


def test_consumers_count_by_where_they_are_and_not_those_that_push():
    stats = {
        "subscriptions": {
            "s": {"consumers": [of_pool("p"), of_pool("other"), {"metadata": None}, {}]},
            "t": {"consumers": [{}, of_pool("p")]},
            "none": {},
            "tail-7": {"consumers": [{}]},
        }
    }
    assert count_consumers(stats, "s", "p", "key", "tail-") == Consumers(subscriptions=2, here=1, direct=3)
    assert count_consumers(stats, "new", "p", "key", "tail-") == Consumers(subscriptions=2, here=0, direct=0)
    assert count_consumers(None, "s", "p", "key", "tail-") == Consumers(0, 0, 0)


@pytest.mark.parametrize(
    ("subscriptions", "here", "direct", "recent", "owner"),
    [
        (0, 0, 0, "", True),
        (SUBSCRIPTIONS - 2, 0, 0, "", True),
        (SUBSCRIPTIONS - 1, 0, 0, "", False),
        (SUBSCRIPTIONS - 3, 0, 0, "tu", False),
        (SUBSCRIPTIONS - 2, 0, 0, "t", False),
        (SUBSCRIPTIONS + 7, 0, 1, "", True),  # consumers of one subscription stay together
        (SUBSCRIPTIONS + 7, 1, 0, "ts", True),
        (1, 1, 0, "", False),
        (2, 1, 1, "", True),  # it passes through otherwise
    ],
)
def test_a_new_consumer_goes_where_it_costs_less(subscriptions, here, direct, recent, owner):
    assert belongs_at_owner(Consumers(subscriptions, here, direct), recent, "s") is owner


@pytest.mark.parametrize(
    ("subscriptions", "served", "back"), [(FEW, FEW, True), (FEW + 1, FEW, False), (FEW, 0, False), (0, 1, False)]
)
def test_few_go_back_and_not_at_the_number_that_brought_them(subscriptions, served, back):
    assert goes_back(Consumers(subscriptions, 0, 0), served) is back
    assert not belongs_at_owner(Consumers(FEW + 1, 0, 0), "", "s"), "they stay between both numbers"


def test_recent_redirects_are_counted_for_a_while_and_bounded():
    redirects = RecentRedirects()
    for number in range(MAX_RECENT + 5):
        redirects.add(ORDERS, f"s-{number}", 100.0 + number * 0.1)
    assert redirects.names(ORDERS, 102.0) == [f"s-{number}" for number in range(5, MAX_RECENT + 5)]
    assert redirects.names(ORDERS, 99.95 + (MAX_RECENT + 4) * 0.1 + RECENT_S) == [f"s-{MAX_RECENT + 4}"]
    assert redirects.names(ORDERS, 102.0 + RECENT_S) == []
    for number in range(MAX_TOPICS):
        redirects.add(parse_topic_name(f"t-{number}"), "s", 100.0)
    assert redirects.names(ORDERS, 100.0) == []
    assert redirects.names(parse_topic_name("t-0"), 100.0) == ["s"]
