"""When topics begin to poll bookies whose owner was lost."""

import pytest
from readonly_engine.broker.tail.poll_starts import AT_ONCE, STARTS_PER_S, PollStarts


def test_few_topics_poll_at_once_and_very_many_one_after_the_other():
    starts, now = PollStarts(), 1000.0
    delays = [starts.delay(now) for _ in range(AT_ONCE + 1000)]
    assert delays[:AT_ONCE] == pytest.approx([0.0] * AT_ONCE, abs=1e-9)
    assert delays[AT_ONCE:] == pytest.approx([number / STARTS_PER_S for number in range(1, 1001)])
    assert starts.delay(now + 500) == 0.0, "it is long ago"
