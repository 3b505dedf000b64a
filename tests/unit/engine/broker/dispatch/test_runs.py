"""Deliveries that go out in one piece."""

import pytest
from readonly_engine.broker.dispatch.consumer_state import ConsumerState, Delivery, split_runs

A, B = ConsumerState(name="a"), ConsumerState(name="b")


def delivered(text):
    """`a`: an entry for consumer a; `a1`: one that comes again; `a-`: one of which a part is left."""
    for word in text.split():
        yield Delivery(A if word[0] == "a" else B, None, int("1" in word), int("-" in word))


@pytest.mark.parametrize(
    ("deliveries", "runs"),
    [
        ("", []),
        ("a", ["a"]),
        ("a a a", ["a a a"]),
        ("a a b b a", ["a a", "b b", "a"]),
        ("a1", ["a1"]),
        ("a a1 a a", ["a", "a1", "a a"]),
        ("a- a a-", ["a-", "a", "a-"]),
        ("a1 a1 b- b-", ["a1", "a1", "b-", "b-"]),
    ],
)
def test_entries_in_a_row_for_one_consumer_go_together_unless_something_is_special_about_them(deliveries, runs):
    assert list(split_runs(list(delivered(deliveries)))) == [list(delivered(run)) for run in runs]
