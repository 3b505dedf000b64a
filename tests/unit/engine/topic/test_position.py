from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from readonly_engine.topic.position import EARLIEST, Position, PositionRanges

LEDGERS, ENTRIES = 3, 6
ALL = [Position(ledger, entry) for ledger in range(LEDGERS) for entry in range(ENTRIES)]
ENTRY = st.sampled_from(ALL)
BORDER = st.builds(Position, st.integers(0, LEDGERS - 1), st.integers(-1, ENTRIES))


class RangesAgainstASet(RuleBasedStateMachine):
    """The same operations on PositionRanges and on a plain set of positions."""

    def __init__(self):
        super().__init__()
        self.ranges, self.model = PositionRanges(), set()

    @rule(position=ENTRY)
    def add(self, position):
        self.ranges.add(position)
        self.model.add(position)

    @rule(lower=BORDER, upper=BORDER)
    def add_range(self, lower, upper):
        self.ranges.add_range(lower, upper)
        self.model |= {position for position in ALL if lower < position <= upper}

    @rule(position=BORDER)
    def remove_up_to(self, position):
        self.ranges.remove_up_to(position)
        self.model = {kept for kept in self.model if kept > position}

    @invariant()
    def a_copy_after_a_position_is_the_rest(self):
        for position in ALL:
            assert self.ranges.copy_after(position) == tuple(self.ranges.after(position))

    @invariant()
    def same_members(self):
        assert {position for position in ALL if position in self.ranges} == self.model

    @invariant()
    def ranges_are_in_order_and_apart(self):
        borders = [border for pair in self.ranges for border in pair]
        assert borders == sorted(set(borders)), "ranges that touch are one range"
        assert len(self.ranges) == len(borders) // 2

    @invariant()
    def ends_of_ranges(self):
        for position in ALL:
            upper = self.ranges.upper_of(position)
            assert (upper is None) == (position not in self.model)
            if upper is not None:
                assert all(other in self.model for other in ALL if position <= other <= upper)


TestRangesAgainstASet = RangesAgainstASet.TestCase


def test_positions_are_ordered_as_the_log_is():
    assert EARLIEST < Position(0, -1) < Position(0, 0) < Position(0, 10) < Position(2, -1) < Position(2, 0)
    assert str(Position(12, 3)) == "12:3"


def spans(pairs):
    return [(Position(1, lower), Position(1, upper)) for lower, upper in pairs]


def members(ranges):
    return {entry for entry in range(-1, 45) if Position(1, entry) in ranges}


@given(*[st.lists(st.tuples(st.integers(-1, 40), st.integers(-1, 40)), max_size=12)] * 3)
def test_many_at_once_and_differences_are_those_of_sets(first, more, others):
    mine, theirs = PositionRanges(), PositionRanges()
    mine.add_ranges(spans(first))
    mine.add_ranges(spans(more))
    one_by_one = PositionRanges()
    for lower, upper in spans([*first, *more]):
        one_by_one.add_range(lower, upper)
    assert list(mine) == list(one_by_one)
    theirs.add_ranges(spans(others))
    left = mine.without(theirs)
    assert members(left) == members(mine) - members(theirs)
    assert list(left) == sorted(left)
    assert all(lower < upper for lower, upper in left)
    both = mine.common(theirs)
    assert list(both) == list(theirs.common(mine)) == list(mine.without(left))
    for lower, upper in spans(others):
        assert lower >= upper or mine.any_between(lower, upper) == bool(
            members(mine) & set(range(lower.entry_id + 1, upper.entry_id + 1))
        )
    for entry in (-1, 7, 40):
        behind = PositionRanges()
        behind.add_ranges(mine.after(Position(1, entry)))
        assert members(behind) == {one for one in members(mine) if one > entry}
