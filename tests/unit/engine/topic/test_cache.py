from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st
from readonly_engine.topic import cache as module
from readonly_engine.topic.cache import BLOCK, LARGE_ENTRY, EntryCache
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.wire.entry import Entry

from tests.support.examples import examples


def entry(number, size=10):
    return TopicEntry(Entry(1, number, number - 1, 0, b"x" * size))


def test_a_cleared_cache_is_a_new_one():
    cache = EntryCache(100)
    cache.put(entry(1))
    cache.clear()
    assert cache.get(Position(1, 1)) is None
    assert (cache.size, len(cache)) == (0, 0)
    cache.put(entry(1))
    assert (cache.size, len(cache)) == (10, 1)


def numbers(cache, numbers, ledger_id=1):
    """Return which of these entries are cached, without using them."""
    return [number for number in numbers if Position(ledger_id, number) in cache]


def test_the_block_used_longest_ago_makes_room_and_of_it_the_first_entries():
    cache = EntryCache(40)
    one, two = 5, BLOCK + 5
    for number in (one, one + 1, two, two + 1):
        cache.put(entry(number))
    assert cache.get(Position(1, one + 1)) is not None
    cache.put(entry(3 * BLOCK))
    assert numbers(cache, [one, one + 1, two, two + 1, 3 * BLOCK]) == [one, one + 1, two + 1, 3 * BLOCK]
    cache.put(entry(4 * BLOCK, size=20))
    assert numbers(cache, [one, one + 1, two + 1, 3 * BLOCK, 4 * BLOCK]) == [one + 1, 3 * BLOCK, 4 * BLOCK]


def test_entries_are_put_and_found_by_the_hundred():
    cache = EntryCache(10_000)
    many = [entry(number) for number in range(100, 400)]
    assert cache.put_all(many) == many
    assert cache.run(1, 100, 399) == many
    assert cache.run(1, 250, 500) == many[150:]
    assert cache.run(1, 99, 120) == []
    assert (cache.hits, cache.misses, len(cache), cache.size) == (450, 2, 300, 3000)
    assert (cache.missing(1, 0, 99), cache.missing(1, 0, 1000), cache.missing(1, 390, 500)) == (100, 100, 0)
    assert (cache.missing(1, 400, 900), cache.missing(2, 0, 900)) == (501, 901)


def stream(cache, begin, end, size=LARGE_ENTRY):
    """Put entries as a reader of a backlog does."""
    for first in range(begin, end, 5):
        cache.put_all([entry(number, size) for number in range(first, min(first + 5, end))], backlog=True)


def test_one_reader_of_a_backlog_of_large_entries_evicts_nothing_of_others():
    cache = EntryCache(400 * LARGE_ENTRY)
    others = [TopicEntry(Entry(2, number, number - 1, 0, b"x" * LARGE_ENTRY)) for number in range(150)]
    cache.put_all(others)
    stream(cache, 0, 8 * BLOCK)
    assert numbers(cache, range(150), ledger_id=2) == list(range(150))
    assert numbers(cache, range(8 * BLOCK)) == list(range(6 * BLOCK + 56, 8 * BLOCK)), "the last half of the cache"
    assert cache.size == 350 * LARGE_ENTRY
    stream(cache, 0, BLOCK)
    stream(cache, 8 * BLOCK, 16 * BLOCK)
    assert numbers(cache, range(2 * BLOCK)) == list(range(BLOCK)), "it keeps what was read again"
    stream(cache, 20 * BLOCK, 30 * BLOCK, LARGE_ENTRY - 1)
    assert len(numbers(cache, range(20 * BLOCK, 30 * BLOCK))) == 400, "smaller ones fill it"


def test_blocks_that_were_read_once_are_remembered_up_to_a_limit():
    cache = EntryCache(2 * LARGE_ENTRY)
    with patch.object(module, "MAX_ONCE_EVICTED", 3):
        for number in [*range(6), 3, 9, 1]:
            cache.put_all([entry(number * BLOCK, LARGE_ENTRY)], backlog=True)
    assert numbers(cache, [number * BLOCK for number in range(10)]) == [BLOCK, 3 * BLOCK]


PLACES = st.sampled_from([0, 1, 60, BLOCK - 2, BLOCK, 2 * BLOCK + 9])


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 2), PLACES, st.sampled_from([1, 2, 70, 150])), max_size=8),
    st.integers(1, 900),
)
@example([(False, 1, 60, 1), (False, 1, 0, 70), (True, 1, 60, 1)], 1)  # what does not fit replaces nothing
def test_the_cache_has_what_was_put_last_within_its_size(operations, limit):
    cache, put = EntryCache(limit), {}
    for reading, ledger_id, first, count in operations:
        if reading:
            found = cache.run(ledger_id, first, first + count - 1)
            assert all(found[i] is put[ledger_id, first + i] for i in range(len(found)))
            assert cache.missing(ledger_id, first, first + count - 1) == 0 or not found
        else:
            new = [TopicEntry(Entry(ledger_id, first + i, 0, 0, b"x" * ((first + i) % 10))) for i in range(count)]
            cached = {key for key in put if Position(*key) in cache}
            with patch.object(module, "LARGE_ENTRY", 5):
                kept = cache.put_all(new, backlog=True)
            assert [(one.ledger_id, one.entry_id) for one in kept] == [(ledger_id, first + i) for i in range(count)]
            places = [(ledger_id, first + i) for i in range(count)]
            put.update((place, one) for place, one in zip(places, kept, strict=True) if place not in cached)
            fitting = cache.run(ledger_id, first, first + count - 1)
            assert fitting == kept[: len(fitting)]
            assert fitting
            assert len(fitting) == count or sum(one.size for one in kept[: len(fitting) + 1]) > limit
        there = [one for (ledger, number), one in put.items() if Position(ledger, number) in cache]
        assert (cache.size, len(cache)) == (sum(one.size for one in there), len(there))
        assert cache.size <= limit or len(cache) == 1


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(st.one_of(st.integers(0, 6), st.integers(BLOCK - 3, BLOCK + 3)), st.integers(1, 40)), max_size=40
    ),
    st.integers(1, 120),
)
def test_one_entry_is_put_as_several_are(puts, room):
    alone, together = EntryCache(room), EntryCache(room)
    for number, size in puts:
        new = entry(number, size)
        assert alone.put(new) is together.put_all([new])[0]
        assert (alone.size, len(alone)) == (together.size, len(together))
    everything = range(2 * BLOCK)
    assert numbers(alone, everything) == numbers(together, everything)
