"""When a run of `make -C lab churn` has passed: the owner sends nothing but what brokers ask of it when they begin to serve."""

from collections import Counter

import pytest

from longtests.churn.check import Verdict
from longtests.churn.plan import make_plan
from longtests.churn.run import PER_OPENING, Outcome

NAME = "topic-0/shared"
ALLOWED = PER_OPENING * (3 + 2 + 4)


def outcome(by_owner: int, *, batch_acks: bool, excused: bool = False, direct: bool = False) -> Outcome:
    return Outcome(
        make_plan(7, 60, topics=1, brokers=3),
        direct,
        Verdict(counts={NAME: Counter(opened=3)}),
        done={"kill": 2, "unload": 4},
        by_owner={NAME: by_owner},
        excused={NAME: "a reason"} if excused else {},
        batch_acks=batch_acks,
    )


@pytest.mark.parametrize("by_owner", [0, 1, ALLOWED])
def test_an_owner_without_acks_of_single_messages_sends_nothing(by_owner):
    assert outcome(by_owner, batch_acks=False).passed == (by_owner == 0)


@pytest.mark.parametrize("by_owner", [0, ALLOWED, ALLOWED + 1])
def test_a_broker_that_begins_to_serve_may_ask_for_a_few(by_owner):
    assert outcome(by_owner, batch_acks=True).passed == (by_owner <= ALLOWED)


def test_clients_of_the_owner_and_passthrough_are_free():
    assert outcome(10 * ALLOWED, batch_acks=True, excused=True).passed
    assert outcome(10 * ALLOWED, batch_acks=False, direct=True).passed
