import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.key_selectors import RANGE, ConsistentHashSelector, HashRangeSelector


@given(st.lists(st.sampled_from("aaabcdef"), min_size=1, max_size=8), st.data())
def test_only_the_keys_of_one_that_comes_or_goes_change_hands(names, data):
    ring = ConsistentHashSelector()
    receivers = [ConsumerState(name=name) for name in names]
    for receiver in receivers:
        ring.add(receiver)
    slots = range(1, RANGE, 997)
    before = {slot: ring.select(slot) for slot in slots}
    assert set(before.values()) <= set(receivers)
    leaving = data.draw(st.sampled_from(receivers))
    ring.remove(leaving)
    for slot in slots:
        if before[slot] is not leaving:
            assert ring.select(slot) is before[slot]
        else:
            assert ring.select(slot) is not leaving
    ring.add(leaving)
    changed = sum(ring.select(slot) is not before[slot] for slot in slots)
    assert changed <= 5, "it has the places that it had, but for points that another has too"


def test_a_ring_without_consumers_gives_a_key_to_nobody():
    ring = ConsistentHashSelector()
    assert ring.select(5) is None
    receiver = ConsumerState(name="a")
    ring.add(receiver)
    ring.remove(receiver)
    ring.remove(receiver)
    assert ring.select(5) is None


@pytest.mark.parametrize("selector", [ConsistentHashSelector(), HashRangeSelector()])
def test_slots_are_those_of_the_owner_and_never_0(selector):
    size = RANGE - 1 if isinstance(selector, ConsistentHashSelector) else RANGE
    assert selector.slot(0) == 1
    assert selector.slot(size) == 1
    assert selector.slot(size - 1) == RANGE - 1
    assert 1 <= selector.slot(0x7FFFFFFF) < RANGE


def test_ranges_are_closed_and_leave_gaps():
    ranges = HashRangeSelector()
    one, two = ConsumerState(ranges=((0, 99), (200, 299))), ConsumerState(ranges=((100, 150),))
    ranges.add(one)
    ranges.add(two)
    assert [ranges.select(slot) for slot in (1, 99, 100, 150, 151, 199, 200, 299, 300)] == [
        one,
        one,
        two,
        two,
        None,
        None,
        one,
        one,
        None,
    ]
    ranges.remove(one)
    assert (ranges.select(1), ranges.select(100), ranges.select(250)) == (None, two, None)
