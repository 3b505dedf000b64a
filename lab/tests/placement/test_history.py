"""The verdict on what a consumer saw."""

from __future__ import annotations

import pytest

from longtests.placement.history import History


@pytest.mark.parametrize(
    ("numbers", "repeated", "disordered", "lost"),
    [
        ([3, 4, 5], 0, 0, 0),
        ([3, 4, 3, 4, 5], 2, 0, 0),
        ([3, 5, 4], 0, 1, 0),
        ([3, 5], 0, 0, 1),
        ([3, 4], 0, 0, 1),
        ([], 0, 0, 6),
    ],
)
def test_messages(numbers, repeated, disordered, lost):
    history = History(numbers=numbers)
    assert (history.repeated(), history.disordered(), history.lost(5)) == (repeated, disordered, lost)


def test_a_message_may_come_again_to_a_consumer_that_is_made_again():
    assert History(numbers=[3, 4, 4, 4, 5], begins=[2]).repeated() == 1


def test_a_pause_is_the_longest_gap_near_a_move():
    history = History(times=[0.0, 1.0, 9.0, 9.1, 9.6, 9.7, 19.0], moves=[10.0, 30.0])
    assert history.pauses(1.0) == [pytest.approx(0.5), 2.0]
