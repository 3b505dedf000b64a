"""The ledgers of a topic up to the last released entry, against the stored ledgers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.topic.replay.chain import ReleasedChain

from tests.unit.engine.topic.test_chain import info, metadata, walk


def chain_of(*ledgers, terminated=False):
    chain = ReleasedChain()
    chain.topic_changed(info(*ledgers, terminated=terminated))
    return chain


def test_nothing_is_readable_before_the_first_release():
    chain = chain_of((3, 2), 8)
    assert (chain.limit, chain.first, chain.ledger_ids) == (None, None, [])
    assert chain.exists
    assert chain.stored.limit == (3, 1)


def test_a_ledger_that_is_released_in_part_looks_open_and_a_whole_one_does_not():
    chain = chain_of((3, 2), (5, 4), 8)
    assert chain.release(Position(3, 0))
    assert (chain.limit, chain.open_ledgers) == ((3, 0), [3])
    assert chain.after(Position(3, 0)) == (3, 1)
    assert not chain.readable(Position(3, 1))
    assert chain.release(Position(3, 1))
    assert (chain.limit, chain.open_ledgers) == ((3, 1), [])
    assert chain.release(Position(5, 1))
    assert walk(chain) == [(3, 0), (3, 1), (5, 0), (5, 1)]
    assert not chain.release(Position(3, 0))
    assert chain.limit == (5, 1)


def test_a_lac_shows_nothing_that_is_not_released():
    stored = []
    chain = ReleasedChain(lambda: stored.append(None))
    chain.topic_changed(info(8))
    assert not chain.lac_advanced(8, 5)
    assert not chain.lac_advanced(8, 4)
    assert (chain.limit, len(stored)) == (None, 2)
    assert chain.release(Position(8, 3))
    assert not chain.lac_advanced(8, 6)
    assert chain.limit == (8, 3)
    assert chain.release(Position(8, 6))
    chain.ledger_changed(8, metadata(6))
    assert chain.open_ledgers == []
    chain.topic_changed(info((8, 7), 9))
    chain.lac_advanced(9, 0)
    assert chain.release(Position(9, 0))
    assert walk(chain)[-2:] == [(8, 6), (9, 0)]


def test_a_terminated_topic_ends_with_the_release_of_its_last_entry():
    chain = chain_of((3, 2), terminated=True)
    chain.release(Position(3, 0))
    assert not chain.ended
    chain.release(Position(3, 1))
    assert chain.ended


def test_trimmed_ledgers_are_lost_as_in_a_chain_of_all_entries():
    chain = chain_of((3, 2), (5, 4), 8)
    chain.release(Position(5, 1))
    chain.topic_changed(info((5, 4), 8))
    assert chain.ledger_ids == [5]
    assert chain.lost(Position(3, 0), Position(5, 0)) == 2
    assert chain.at_or_after(Position(3, 0)) == (5, 0)


@pytest.mark.parametrize("listed", [((3, 2), (5, 4), (9, 1)), ((3, 2), (5, 4), 9)])
@given(ends=st.lists(st.tuples(st.sampled_from([3, 5, 9]), st.integers(0, 4)), max_size=6))
def test_the_readable_entries_are_the_stored_ones_up_to_the_highest_release(listed, ends):
    chain, highest = chain_of(*listed), Position(-1, -1)
    chain.lac_advanced(9, 0)
    for end in map(Position._make, ends):
        if chain.stored.readable(end):
            chain.release(end)
            highest = max(highest, end)
        expected = [position for position in walk(chain.stored) if position <= highest]
        assert walk(chain) == expected
        assert chain.limit == (expected[-1] if expected else None)
        assert chain.count_up_to(highest) == len(expected)
    assert chain.after(EARLIEST) == chain.at_or_after(EARLIEST)
