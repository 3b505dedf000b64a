"""Trying explicit LAC: what counts as an answer."""

from dataclasses import replace

import pytest
from readonly_operator.cluster.explicit_lac.probe import Tail
from readonly_operator.cluster.fetch import FetchError

TOPIC = "persistent://t/n/probe"
BEFORE = Tail(TOPIC, ledger=7, last_entry=3, lac=3, explicit=True)


@pytest.mark.parametrize(
    ("after", "tells"),
    [
        (BEFORE, False),  # the message is not there yet
        (replace(BEFORE, last_entry=4), False),  # it is there, and not confirmed
        (replace(BEFORE, last_entry=4, lac=4), True),
        (replace(BEFORE, last_entry=5, lac=4), False),
        (replace(BEFORE, ledger=9, last_entry=0, lac=0), True),  # in a new ledger
        (replace(BEFORE, ledger=9, last_entry=0, lac=0, explicit=False), False),  # that was closed at once
    ],
)
def test_the_place_of_a_new_entry_must_be_told_by_itself(after, tells):
    assert after.tells(BEFORE) is tells


def test_a_first_message():
    nothing = Tail.read({"topic": TOPIC, "ledger": None, "open": False, "lastEntry": -1, "lac": -1, "explicit": False})
    assert Tail(TOPIC, 5, 0, 0, explicit=True).tells(nothing)


@pytest.mark.parametrize("answer", [None, [], {"topic": TOPIC}, {"topic": TOPIC, "ledger": "x", "lastEntry": 0}])
def test_an_answer_that_is_none(answer):
    with pytest.raises(FetchError, match="not a broker's"):
        Tail.read(answer)
