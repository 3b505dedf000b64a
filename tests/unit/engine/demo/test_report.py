from dataclasses import replace

import pytest
from readonly_engine.demo.report import SubscriptionResult

GOOD = SubscriptionResult(
    name="shared",
    kind="Shared",
    consumers=3,
    produced=4,
    received=[0, 2, 1, 3],
    acked=4,
    owner_backlog=0,
    owner_dispatched=0,
    mark_delete=["5:3"],
    pool_dispatched={"demo-0": 3, "demo-1": 1},
)


def test_exactly_once_is_no_problem_nor_are_messages_that_were_dispatched_and_not_received_before_the_end():
    assert GOOD.problems == []
    assert replace(GOOD, pool_dispatched={"demo-0": 4, "demo-1": 1}).problems == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"received": [0, 1, 2, 2]}, "shared: 1 messages were lost"),
        ({"received": [0, 1, 2, 3, 3], "acked": 5}, "shared: 1 messages arrived twice"),
        ({"acked": 3}, "shared: 4 messages were received, and 3 acked"),
        ({"owner_backlog": 2}, "shared: the owner still has a backlog of 2"),
        ({"owner_dispatched": 1}, "shared: the owner dispatched 1 messages itself"),
        ({"pool_dispatched": {"demo-0": 3}}, "shared: the pool dispatched 3 of the 4 received messages"),
    ],
)
def test_each_deviation_is_named(changed, problem):
    assert problem in replace(GOOD, **changed).problems
