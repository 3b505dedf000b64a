from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.wire.entry import Entry


def entry(number, size=10):
    return TopicEntry(Entry(1, number, number - 1, 0, b"x" * size))


def test_what_was_put_is_found_and_counted():
    cache = EntryCache(100)
    put = entry(1)
    cache.put(put)
    assert cache.get(Position(1, 1)) is put
    assert cache.get(Position(1, 2)) is None
    assert (cache.hits, cache.misses, cache.size, len(cache)) == (1, 1, 10, 1)


def test_the_entry_used_longest_ago_makes_room():
    cache = EntryCache(30)
    for number in range(3):
        cache.put(entry(number))
    cache.get(Position(1, 0))
    cache.put(entry(3))
    assert [number for number in range(4) if cache.get(Position(1, number))] == [0, 2, 3]


def test_an_entry_that_is_there_is_not_replaced():
    cache = EntryCache(30)
    first = entry(1)
    cache.put(first)
    cache.put(entry(1, size=20))
    assert cache.get(Position(1, 1)) is first
    assert cache.size == 10


def test_an_entry_larger_than_the_cache_stays_until_the_next_one_comes():
    """Or no consumer could ever be given it."""
    cache = EntryCache(30)
    cache.put(entry(1, size=100))
    assert cache.get(Position(1, 1)) is not None
    cache.put(entry(2))
    assert cache.get(Position(1, 1)) is None
    assert (cache.size, len(cache)) == (10, 1)


@given(st.lists(st.tuples(st.sampled_from(["put", "get"]), st.integers(0, 7), st.integers(0, 15))), st.integers(1, 40))
def test_the_cache_is_the_entries_used_last_within_its_size(operations, limit):
    cache, model = EntryCache(limit), OrderedDict()
    for operation, number, size in operations:
        position = Position(1, number)
        if operation == "get":
            found = cache.get(position)
            assert (found is None) == (position not in model)
            if found is not None:
                assert found.size == model[position]
                model.move_to_end(position)
        elif position in model:
            cache.put(entry(number, size))
        else:
            cache.put(entry(number, size))
            model[position] = size
            while sum(model.values()) > limit and len(model) > 1:
                model.popitem(last=False)
        assert (cache.size, len(cache)) == (sum(model.values()), len(model))
