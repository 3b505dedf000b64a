from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.consumer.flow_window import INITIAL_WINDOW, MAX_WINDOW, FlowWindow
from readonly_engine.topic.position import Position


def positions(*entries):
    return [Position(1, entry) for entry in entries]


@given(st.integers(1, 5 << 20), st.integers(1, 100), st.integers(1, 3000))
def test_what_is_on_its_way_fits_the_buffer(size, batch, asked):
    """All that the client asked for comes in the end; never more than the buffer at once, give or take one window's guess."""
    passage = FlowWindow(1 << 20, track_pending=False)
    passage.add_permits(asked)
    on_the_way, got = passage.grant(), 0
    while on_the_way > 0:
        passage.on_entry(Position(1, got), batch, size)
        got += batch
        on_the_way -= batch
        granted = passage.grant()
        on_the_way += granted
        window = max(1, (1 << 20) * batch // size)
        assert on_the_way <= max(INITIAL_WINDOW, min(window, MAX_WINDOW))
    assert got >= asked


def test_acked_is_not_pending():
    passage = FlowWindow(1 << 20, track_pending=True)
    for position in positions(0, 1, 2, 3):
        assert passage.on_entry(position, 1, 100)
    passage.on_ack(positions(1), cumulative=False)
    assert passage.pending == set(positions(0, 2, 3))
    passage.on_ack(positions(2), cumulative=True)
    assert passage.pending == set(positions(3))
    passage.on_redeliver(positions(3))
    assert not passage.pending
