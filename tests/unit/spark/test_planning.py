"""Ranges, splits and limits: every entry of a range is in exactly one piece, and one micro-batch follows the other."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from readonly_engine.topic.position import EARLIEST, Position
from readonly_spark.plan.admission import Limits, admit, share_out
from readonly_spark.plan.splits import split
from readonly_spark.plan.topic_state import LedgerState, TopicState


@st.composite
def states(draw, name="t"):
    count = draw(st.integers(0, 5))
    ledger_id, ledgers = 0, []
    for number in range(count):
        ledger_id += draw(st.integers(1, 3))
        last = draw(st.integers(-1, 30))
        size = (last + 1) * draw(st.integers(1, 1000))
        closed = number < count - 1 or draw(st.booleans())
        ledgers.append(LedgerState(ledger_id, last, size, closed, messages_per_entry=draw(st.integers(1, 9))))
    return TopicState(name, tuple(ledgers))


@st.composite
def topics(draw):
    return {name: draw(states(name)) for name in draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=4))}


END = Position(1 << 60, 0)


def entries(state, start=EARLIEST, end=END):
    return [
        Position(ledger.ledger_id, entry_id)
        for ledger in state.ledgers
        for entry_id in range(ledger.last + 1)
        if start <= (ledger.ledger_id, entry_id) < end
    ]


def in_runs(runs):
    return [Position(run.ledger.ledger_id, entry) for run in runs for entry in range(run.first, run.last + 1)]


positions = st.builds(Position, st.integers(-1, 16), st.integers(-1, 32))


@given(states(), positions, positions)
def test_a_range_has_the_entries_between_its_ends(state, start, end):
    assume(start <= end)
    assert in_runs(state.runs(start, end)) == entries(state, start, end)


@given(states())
def test_earliest_and_latest_enclose_everything(state):
    assert entries(state, state.earliest, state.latest) == entries(state)
    assert state.gap(state.earliest, state.latest) is None
    assert state.missing_end(state.earliest, state.latest) is None


@given(topics(), st.integers(1, 20_000), st.none() | st.integers(1, 40), st.integers(1, 40))
def test_splits_cover_every_entry_exactly_once_in_order(found, most_bytes, most_messages, least_tasks):
    ranges = [(name, list(state.runs(state.earliest, state.latest))) for name, state in sorted(found.items())]
    tasks = split(ranges, most_bytes=most_bytes, most_messages=most_messages, least_tasks=least_tasks)
    pieces = [piece for task in tasks for piece in task]
    covered = [(p.topic, p.ledger.ledger_id, e) for p in pieces for e in range(p.first, p.last + 1)]
    expected = [(name, *position) for name, state in sorted(found.items()) for position in entries(state)]
    assert covered == expected
    assert all(task for task in tasks)
    assert len(tasks) >= min(least_tasks, len(expected))
    for task in tasks:
        if len(task) > 1:
            assert sum(piece.weight for piece in task) <= most_bytes * 1.01


@given(topics(), st.integers(1, 20_000))
def test_a_task_is_larger_than_it_should_be_only_by_one_entry(found, most_bytes):
    ranges = [(name, list(state.runs(state.earliest, state.latest))) for name, state in sorted(found.items())]
    for task in split(ranges, most_bytes=most_bytes):
        largest = max(piece.ledger.entry_bytes for piece in task)
        assert sum(piece.weight for piece in task) <= most_bytes + largest


@given(topics(), st.none() | st.integers(1, 30_000), st.none() | st.integers(1, 200))
def test_micro_batches_follow_each_other_to_the_end_and_cover_everything_once(found, most_bytes, most_messages):
    limits = Limits(most_bytes, most_messages)
    ends = {name: state.latest for name, state in found.items()}
    starts = {name: state.earliest for name, state in found.items()}
    covered = {name: [] for name in found}
    for _ in range(1000):
        reached = admit(starts, found, ends, limits)
        assert reached.keys() == ends.keys()
        if limits.none:
            assert reached == ends
        for name, state in found.items():
            assert starts[name] <= reached[name] <= ends[name]
            news = in_runs(state.runs(starts[name], reached[name]))
            # No topic waits while it has something to read.
            assert news or not in_runs(state.runs(starts[name], ends[name]))
            covered[name] += news
        if all(not in_runs(state.runs(reached[name], ends[name])) for name, state in found.items()):
            break
        starts = reached
    assert covered == {name: entries(state) for name, state in found.items()}


@given(topics(), st.integers(1, 30_000))
def test_a_micro_batch_is_not_above_its_limit_but_for_one_entry_a_topic(found, most_bytes):
    starts = {name: state.earliest for name, state in found.items()}
    reached = admit(starts, found, {name: state.latest for name, state in found.items()}, Limits(most_bytes))
    taken = sum(run.bytes for name, state in found.items() for run in state.runs(starts[name], reached[name]))
    single = sum(max((ledger.entry_bytes for ledger in state.ledgers), default=0) for state in found.values())
    assert taken <= most_bytes + single


@given(st.integers(0, 1000), st.dictionaries(st.text(max_size=3), st.integers(0, 500), max_size=6))
def test_shares_are_fair_and_nothing_is_wasted(most, wanted):
    granted = share_out(most, wanted)
    assert all(granted[name] <= wanted[name] for name in wanted)
    assert abs(sum(granted.values()) - min(most, sum(wanted.values()))) < 1e-6
    short = [granted[name] for name in wanted if granted[name] < wanted[name] - 1e-6]
    assert not short or max(granted.values()) - min(short) < 1e-6


def test_what_was_trimmed_is_a_gap():
    state = TopicState("t", (LedgerState(5, 9, 100), LedgerState(6, -1, 0, closed=False)))
    assert state.gap(Position(3, 0), Position(5, 4)) is not None
    assert str(state.gap(Position(3, 7), Position(5, 4))) == "from 3:7 on and before 5:0"
    assert state.gap(EARLIEST, Position(5, 4)) is None
    assert state.gap(Position(5, 2), Position(5, 4)) is None
    assert state.gap(Position(3, 7), Position(3, 7)) is None, "nothing was to be read"
    assert str(state.missing_end(Position(5, 0), Position(5, 12))) == "from 5:10 on and before 5:12"
    assert state.missing_end(Position(5, 0), Position(5, 10)) is None
    assert state.missing_end(Position(1, 0), Position(4, 3)) is not None


def test_an_open_transaction_bounds_a_topic():
    state = TopicState("t", (LedgerState(5, 9, 100), LedgerState(6, 4, 50, closed=False)), limit=Position(6, 2))
    assert state.latest == Position(6, 2)
    assert in_runs(state.runs(Position(6, 0), state.latest)) == [Position(6, 0), Position(6, 1)]


def test_an_offset_moves_only_when_there_is_something_to_read():
    full = TopicState("t", (LedgerState(5, 9, 100),))
    rolled = TopicState("t", (LedgerState(5, 9, 100), LedgerState(8, -1, 0, closed=False)))
    assert full.latest == rolled.latest == Position(5, 10)
    assert TopicState("t", (LedgerState(8, -1, 0, closed=False),)).latest == Position(8, 0)
    assert TopicState("t", ()).latest == EARLIEST


def test_what_was_confirmed_once_is_read_again_though_the_bookies_forgot_that_it_was() -> None:
    state = TopicState("t", (LedgerState(5, 3, 40, closed=False),))
    assert [
        (run.first, run.last) for run in state.confirmed_to(Position(5, 9)).runs(Position(5, 2), Position(5, 9))
    ] == [(2, 8)]
    assert state.confirmed_to(Position(5, 9)).missing_end(Position(5, 2), Position(5, 9)) is None
    assert state.confirmed_to(Position(5, 2)) == state
    closed = TopicState("t", (LedgerState(5, 3, 40),))
    assert closed.confirmed_to(Position(5, 9)) == closed


def test_compaction_stands_for_what_it_took_in():
    left = LedgerState(90, 3, 40, compacted=True)
    state = TopicState("t", (LedgerState(5, 9, 100),), compacted=left, horizon=Position(5, 6))
    runs = list(state.runs(state.earliest, state.latest))
    assert [(run.ledger.ledger_id, run.first, run.last) for run in runs] == [(90, 0, 3), (5, 7, 9)]
    assert [(run.ledger.ledger_id, run.first) for run in state.runs(Position(5, 8), state.latest)] == [(5, 8)]
    assert state.gap(Position(1, 1), state.latest) is None
