"""Detection of a cursor that goes back by itself."""

from longtests.chaos.cursors import Cursors
from longtests.churn.history import Id


def test_only_a_position_before_the_last_one_is_one_that_went_back() -> None:
    cursors = Cursors()
    assert cursors.take({"t/a": "7:9", "t/b": "7:-1"}) == {}
    assert cursors.take({"t/a": "8:0", "t/b": "7:-1"}) == {}
    assert cursors.take({}) == {}
    assert cursors.take({"t/a": "7:500", "t/b": "7:3"}) == {"t/a": Id(7, 500)}
    assert cursors.take({"t/a": "7:501", "t/b": "7:4"}) == {}
