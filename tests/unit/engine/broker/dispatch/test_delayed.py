from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch import delayed
from readonly_engine.broker.dispatch.delayed import DelayedDeliveryTracker
from readonly_engine.topic.position import Position

NOW = 1_700_000_000_000


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 3), st.integers(0, 9)), unique=True),
    st.lists(st.integers(0, 30)),
)
def test_each_comes_once_when_it_is_due_and_in_the_order_of_time(entries, steps):
    held = DelayedDeliveryTracker()
    for delay, ledger_id, entry_id in entries:
        held.add(Position(ledger_id, entry_id), NOW + delay, slot=delay)
    now, got = NOW, []
    for step in [*steps, 101]:
        now += step
        due = [slot for _, slot in held.on_timer(now)]
        assert due == sorted(delay for delay, _, _ in entries if delay <= now - NOW)[len(got) :]
        got += due
        later = [delay for delay, _, _ in entries if delay > now - NOW]
        assert held.next_timer() == (NOW + min(later) if later else None)
        assert len(held) == len(later)
    assert len(got) == len(entries)


def test_enough_that_come_in_order_hold_back_what_follows(monkeypatch):
    monkeypatch.setattr(delayed, "LOOK_AHEAD", 3)
    held = DelayedDeliveryTracker()
    for entry_id in range(3):
        assert not held.full
        held.add(Position(1, entry_id), NOW + 10 * entry_id)
    assert held.full
    held.mark_unordered()
    assert not held.full, "what follows may be due earlier"


def test_memory_is_bounded_in_any_order(monkeypatch):
    monkeypatch.setattr(delayed, "LOOK_AHEAD", 2)
    monkeypatch.setattr(delayed, "MAX_DELAYED", 4)
    held = DelayedDeliveryTracker()
    for entry_id in range(4):
        assert not held.full
        held.add(Position(1, entry_id), NOW - 2000 * entry_id)
    assert held.full
    assert len(list(held.on_timer(NOW - 6000))) == 1
    assert not held.full
    held.clear()
    assert (len(held), held.next_timer()) == (0, None)
