"""Backlogs of local cursors are those that the owner would count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.cursors.topic_cursors import TopicCursors
from readonly_engine.subscriptions.backlog import TopicEntries
from readonly_engine.topic.position import EARLIEST, Position

P = Position
LEDGERS = [(3, 2), (5, 0), (8, 10), (9, 777)]
"""15 entries: the last ledger has three."""
LAST = P(9, 2)


def cursor(mark_delete, ranges=()):
    cursors = TopicCursors("t")
    made = cursors.create("s", mark_delete, 0, ())
    cursors.reset(made, mark_delete, (), ranges)
    return made


@pytest.mark.parametrize("last", [P(8, 9), P(9, -1)])
def test_an_empty_last_ledger(last):
    assert TopicEntries(LEDGERS, last).backlog(cursor(EARLIEST)) == 12


def test_a_topic_without_ledgers():
    assert TopicEntries([], EARLIEST).backlog(cursor(P(3, 1))) == 0


ENTRIES = [P(ledger, entry) for ledger, count in [(3, 2), (8, 10), (9, 3)] for entry in range(count)]


@given(st.sets(st.sampled_from(ENTRIES)), st.sampled_from([P(3, -1), *ENTRIES]))
def test_each_acked_entry_counts_once(acked, mark_delete):
    acked = {one for one in acked if one > mark_delete}
    ranges = [(P(one.ledger_id, one.entry_id - 1), one) for one in sorted(acked)]
    left = [one for one in ENTRIES if one > mark_delete and one not in acked]
    assert TopicEntries(LEDGERS, LAST).backlog(cursor(mark_delete, ranges)) == len(left)
