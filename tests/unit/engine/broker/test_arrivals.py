"""Who is on the way from one broker of a pool to another."""

from __future__ import annotations

from readonly_engine.broker.arrivals import MOVED_WITHIN_S, TRAVEL_S, Arrivals
from readonly_engine.broker.claims import ClaimKey
from readonly_engine.metadata.topic_name import parse_topic_name

KEY = ClaimKey(parse_topic_name("orders"), "s")
OTHER = ClaimKey(parse_topic_name("orders"), "t")


def test_who_is_sent_on_is_expected_until_it_comes() -> None:
    arrivals = Arrivals()
    for _ in range(2):
        arrivals.left(KEY, 10.0, 10.1)
    assert arrivals.expected(KEY, 10.2)
    assert not arrivals.expected(OTHER, 10.2)
    arrivals.came(KEY)
    assert arrivals.expected(KEY, 10.2)
    arrivals.came(KEY)
    assert not arrivals.expected(KEY, 10.2)
    arrivals.came(KEY)
    assert not arrivals.expected(KEY, 10.2)


def test_who_does_not_come_is_not_waited_for_for_ever() -> None:
    arrivals = Arrivals()
    arrivals.left(KEY, 10.0, 10.1)
    assert not arrivals.expected(KEY, 10.1 + TRAVEL_S)
    arrivals.left(OTHER, 30.0, 30.0)
    arrivals.came(KEY)
    assert arrivals.expected(OTHER, 30.0)


def test_who_stayed_for_long_was_closed_and_is_not_expected() -> None:
    arrivals = Arrivals()
    arrivals.left(KEY, 10.0, 10.1 + MOVED_WITHIN_S)
    assert not arrivals.expected(KEY, 10.1 + MOVED_WITHIN_S)
