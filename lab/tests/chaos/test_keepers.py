"""Backlogs of local cursors, by the statistics of brokers that split a subscription."""

from types import SimpleNamespace
from typing import Any

import pytest

from longtests.chaos.keepers import LocalKeeper


def broker(**subscription: Any) -> SimpleNamespace:
    """Return a broker with statistics of one subscription."""
    stats = {"topics": {"persistent://public/chaos-plain/plain": {"subscriptions": {"shared": subscription}}}}
    return SimpleNamespace(stats=lambda: stats)


@pytest.mark.parametrize(
    ("brokers", "backlog"),
    [
        pytest.param([broker(msgBacklog=3, consumers=["a"])], 3, id="one broker serves it"),
        pytest.param([broker(msgBacklog=3, consumers=[])], None, id="nobody consumes"),
        pytest.param(
            [
                broker(msgBacklog=0, consumers=[], split={"state": "coordinating"}),
                broker(msgBacklog=7, consumers=["a"], split={"state": "following"}),
            ],
            0,
            id="the holder of the cursor knows it, without consumers of its own",
        ),
        pytest.param([broker(msgBacklog=0, consumers=["a"], split={"state": "claiming"})], None, id="not begun"),
    ],
)
def test_the_backlog_is_that_of_the_broker_that_has_the_cursor(brokers: list[Any], backlog: int | None) -> None:
    stack: Any = SimpleNamespace(read_only=dict(enumerate(brokers)))
    keeper = LocalKeeper(lambda: pytest.fail("no owner is asked"), stack)
    assert keeper.connected() == (set() if backlog is None else {"plain/shared"})
    expected = [] if backlog == 0 else [f"plain/shared: {backlog or 'unknown number of messages'} not acked"]
    assert [text for text in keeper.behind(readable=False) if text.startswith("plain/shared:")] == expected
