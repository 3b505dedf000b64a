import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.cursors.coverage import Ledgers, covers, up_to
from readonly_engine.topic.position import EARLIEST, Position

LEDGERS = [(3, 4), (5, 0), (8, 2), (9, 0)]
"""Ledger 5 is empty, 9 is open."""
OPEN_ENTRIES = 3
ENTRIES = [
    *(Position(3, entry) for entry in range(4)),
    *(Position(8, entry) for entry in range(2)),
    *(Position(9, entry) for entry in range(OPEN_ENTRIES)),
]


def p(text):
    return Position(*map(int, text.split(":")))


@pytest.mark.parametrize(
    ("position", "latest"),
    [
        ("3:2", "3:2"), ("3:3", "8:-1"), ("5:-1", "8:-1"), ("8:1", "9:-1"), ("9:-1", "9:-1"), ("9:2", "9:2"),
        ("-1:-1", "-1:-1"), ("1:7", "1:7"),
    ],
)  # fmt: skip
def test_the_end_of_a_ledger_is_the_begin_of_the_next_one(position, latest):
    assert Ledgers(LEDGERS).latest_form(p(position)) == p(latest)


@pytest.mark.parametrize(
    ("position", "held"), [("-1:-1", "3:-1"), ("1:7", "3:-1"), ("3:2", "3:2"), ("3:3", "8:-1"), ("9:2", "9:2")]
)
def test_what_the_topic_has_deleted_is_before_its_first_ledger(position, held):
    assert Ledgers(LEDGERS).held_form(p(position)) == p(held)
    assert Ledgers([]).held_form(p(position)) == p(position)


@pytest.mark.parametrize(
    ("position", "last"),
    [("3:2", "3:2"), ("8:-1", "3:3"), ("5:-1", "3:3"), ("3:-1", None), ("-1:-1", None), ("9:-1", "8:1")],
)
def test_the_last_entry_up_to_a_position(position, last):
    assert Ledgers(LEDGERS).last_entry(p(position)) == (None if last is None else p(last))


@pytest.mark.parametrize(
    ("lower", "upper", "count"),
    [("3:0", "3:2", 2), ("3:2", "8:0", 2), ("3:3", "8:-1", 0), ("1:5", "9:1", 8), ("1:5", "2:7", 0)],
)
def test_the_entries_of_a_range(lower, upper, count):
    found = list(Ledgers(LEDGERS).entries_in(p(lower), p(upper)))
    assert found == [entry for entry in ENTRIES if p(lower) < entry <= p(upper)]
    assert len(found) == count
    assert Ledgers(LEDGERS).count_in([(p(lower), p(upper))]) >= count


POSITIONS = st.sampled_from([EARLIEST, p("3:-1"), p("5:-1"), p("8:-1"), p("9:-1"), *ENTRIES])
RANGES = st.lists(st.tuples(POSITIONS, POSITIONS).map(lambda pair: (min(pair), max(pair))), max_size=4)


@given(POSITIONS, RANGES, POSITIONS, RANGES)
def test_a_cursor_covers_another_one_if_it_has_acked_its_entries(first, firsts, second, seconds):
    covering, covered = [up_to(first), *firsts], [up_to(second), *seconds]

    def acked(ranges):
        return {entry for entry in ENTRIES if any(lower < entry <= upper for lower, upper in ranges)}

    assert covers(Ledgers(LEDGERS), covering, covered) == (acked(covered) <= acked(covering))
