"""Ranges, splits and limits: every entry of a range is in exactly one piece, and one micro-batch follows the other."""

from hypothesis import assume, given
from hypothesis import strategies as st
from readonly_engine.topic.position import EARLIEST, Position
from readonly_spark.plan.admission import Limits, Waiting, admit, share_out
from readonly_spark.plan.splits import split
from readonly_spark.plan.topic_state import ReadableLedger, TopicState


@st.composite
def states(draw, name="t"):
    count = draw(st.integers(0, 5))
    ledger_id, ledgers = 0, []
    for number in range(count):
        ledger_id += draw(st.integers(1, 3))
        last = draw(st.integers(-1, 30))
        size = (last + 1) * draw(st.integers(1, 1000))
        closed = number < count - 1 or draw(st.booleans())
        ledgers.append(ReadableLedger(ledger_id, last, size, closed, messages_per_entry=draw(st.integers(1, 9))))
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


def positions_in(ranges):
    return [Position(one.ledger.ledger_id, entry) for one in ranges for entry in range(one.first, one.last + 1)]


positions = st.builds(Position, st.integers(-1, 16), st.integers(-1, 32))


@given(states(), positions, positions)
def test_a_range_has_the_entries_between_its_ends(state, start, end):
    assume(start <= end)
    assert positions_in(state.entry_ranges(start, end)) == entries(state, start, end)


@given(states())
def test_earliest_and_latest_enclose_everything(state):
    assert entries(state, state.earliest, state.latest) == entries(state)
    assert state.gap(state.earliest, state.latest) is None
    assert state.end_gap(state.earliest, state.latest) is None


@given(topics(), st.integers(1, 20_000), st.none() | st.integers(1, 40), st.integers(1, 40))
def test_splits_cover_every_entry_exactly_once_in_order(found, max_bytes, max_messages, min_tasks):
    ranges = [one for _, state in sorted(found.items()) for one in state.entry_ranges(state.earliest, state.latest)]
    tasks = split(ranges, max_bytes=max_bytes, max_messages=max_messages, min_tasks=min_tasks)
    covered = [(r.topic, r.ledger.ledger_id, e) for task in tasks for r in task for e in range(r.first, r.last + 1)]
    expected = [(name, *position) for name, state in sorted(found.items()) for position in entries(state)]
    assert covered == expected
    assert all(task for task in tasks)
    assert len(tasks) >= min(min_tasks, len(expected))
    for task in tasks:
        if len(task) > 1:
            assert sum(one.bytes for one in task) <= max_bytes * 1.01


@given(topics(), st.integers(1, 20_000))
def test_a_task_is_larger_than_it_should_be_only_by_one_entry(found, max_bytes):
    ranges = [one for _, state in sorted(found.items()) for one in state.entry_ranges(state.earliest, state.latest)]
    for task in split(ranges, max_bytes=max_bytes):
        largest = max(one.ledger.entry_bytes for one in task)
        assert sum(one.bytes for one in task) <= max_bytes + largest


@given(topics(), st.none() | st.integers(1, 30_000), st.none() | st.integers(1, 200))
def test_micro_batches_follow_each_other_to_the_end_and_cover_everything_once(found, max_bytes, max_messages):
    limits = Limits(max_bytes, max_messages)
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
            added = positions_in(state.entry_ranges(starts[name], reached[name]))
            # No topic waits while it has something to read.
            assert added or not positions_in(state.entry_ranges(starts[name], ends[name]))
            covered[name] += added
        if all(not positions_in(state.entry_ranges(reached[name], ends[name])) for name, state in found.items()):
            break
        starts = reached
    assert covered == {name: entries(state) for name, state in found.items()}


@given(topics(), st.integers(1, 30_000))
def test_a_micro_batch_is_not_above_its_limit_but_for_one_entry_a_topic(found, max_bytes):
    starts = {name: state.earliest for name, state in found.items()}
    reached = admit(starts, found, {name: state.latest for name, state in found.items()}, Limits(max_bytes))
    taken = sum(one.bytes for name, state in found.items() for one in state.entry_ranges(starts[name], reached[name]))
    single = sum(max((ledger.entry_bytes for ledger in state.ledgers), default=0) for state in found.values())
    assert taken <= max_bytes + single


@given(st.integers(0, 1000), st.dictionaries(st.text(max_size=3), st.integers(0, 500), max_size=6))
def test_shares_are_fair_and_nothing_is_wasted(most, wanted):
    granted = share_out(most, wanted)
    assert all(granted[name] <= wanted[name] for name in wanted)
    assert abs(sum(granted.values()) - min(most, sum(wanted.values()))) < 1e-6
    short = [granted[name] for name in wanted if granted[name] < wanted[name] - 1e-6]
    assert not short or max(granted.values()) - min(short) < 1e-6


def test_what_was_trimmed_is_a_gap():
    state = TopicState("t", (ReadableLedger(5, 9, 100), ReadableLedger(6, -1, 0, closed=False)))
    assert state.gap(Position(3, 0), Position(5, 4)) is not None
    assert str(state.gap(Position(3, 7), Position(5, 4))) == "from 3:7 up to, not including, 5:0"
    assert state.gap(EARLIEST, Position(5, 4)) is None
    assert state.gap(Position(5, 2), Position(5, 4)) is None
    assert state.gap(Position(3, 7), Position(3, 7)) is None, "nothing was to be read"
    assert str(state.end_gap(Position(5, 0), Position(5, 12))) == "from 5:10 up to, not including, 5:12"
    assert state.end_gap(Position(5, 0), Position(5, 10)) is None
    assert state.end_gap(Position(1, 0), Position(4, 3)) is not None


ROLLED = TopicState("t", (ReadableLedger(5, 9, 100), ReadableLedger(8, -1, 0, closed=False)))


def test_the_end_of_a_trimmed_ledger_is_no_gap_where_the_following_one_exists():
    assert ROLLED.following == 8
    start = ROLLED.latest
    trimmed = TopicState("t", (ReadableLedger(8, 3, 40, closed=False),))
    assert trimmed.gap(start, Position(8, 4)) is not None, "nothing says that ledger 5 was read to its end"
    assert trimmed.gap(start, Position(8, 4), ROLLED.following) is None
    later = TopicState("t", (ReadableLedger(9, 3, 40, closed=False),))
    assert later.gap(start, Position(9, 4), ROLLED.following) is not None, "ledger 8 may have had entries"


def test_only_a_closed_ledger_that_ends_with_the_topic_has_a_following_one():
    assert TopicState("t", (ReadableLedger(5, 9, 100),)).following is None
    assert TopicState("t", (ReadableLedger(5, 9, 100, closed=False),)).following is None
    assert TopicState("t", ()).following is None
    written = TopicState("t", (ReadableLedger(5, 9, 100), ReadableLedger(8, 0, 10, closed=False)))
    assert written.following is None
    two = TopicState("t", (ReadableLedger(5, 9, 100), ReadableLedger(8, -1, 0), ReadableLedger(9, -1, 0, closed=False)))
    assert two.following == 8
    limited = TopicState("t", ROLLED.ledgers, limit=Position(5, 4))
    assert limited.following is None


def test_an_empty_ledger_that_was_replaced_had_no_entries():
    """An owner deletes an empty last ledger when it loads the topic."""
    empty = TopicState("t", (ReadableLedger(8, -1, 0, closed=False),))
    now = TopicState("t", (ReadableLedger(11, 4, 50, closed=False),))
    assert now.replacement(empty, Position(8, 0), None) == 11
    assert now.replacement(ROLLED, Position(5, 10), 8) == 11
    assert now.replacement(ROLLED, Position(5, 10), None) is None, "what followed ledger 5 is not known"
    assert now.replacement(TopicState("t", ()), Position(8, 0), None) is None
    written = TopicState("t", (ReadableLedger(8, 2, 30, closed=False),))
    assert now.replacement(written, Position(8, 0), None) is None, "its entries are lost"
    assert empty.replacement(empty, Position(8, 0), None) is None, "it exists"
    assert TopicState("t", ()).replacement(empty, Position(8, 0), None) is None


def test_an_open_transaction_bounds_a_topic():
    state = TopicState("t", (ReadableLedger(5, 9, 100), ReadableLedger(6, 4, 50, closed=False)), limit=Position(6, 2))
    assert state.latest == Position(6, 2)
    assert positions_in(state.entry_ranges(Position(6, 0), state.latest)) == [Position(6, 0), Position(6, 1)]


def test_an_offset_moves_only_when_there_is_something_to_read():
    full = TopicState("t", (ReadableLedger(5, 9, 100),))
    rolled = TopicState("t", (ReadableLedger(5, 9, 100), ReadableLedger(8, -1, 0, closed=False)))
    assert full.latest == rolled.latest == Position(5, 10)
    assert TopicState("t", (ReadableLedger(8, -1, 0, closed=False),)).latest == Position(8, 0)
    assert TopicState("t", ()).latest == EARLIEST


def test_what_was_confirmed_once_is_read_again_though_the_bookies_forgot_that_it_was() -> None:
    state = TopicState("t", (ReadableLedger(5, 3, 40, closed=False),))
    assert [
        (one.first, one.last) for one in state.confirmed_to(Position(5, 9)).entry_ranges(Position(5, 2), Position(5, 9))
    ] == [(2, 8)]
    assert state.confirmed_to(Position(5, 9)).end_gap(Position(5, 2), Position(5, 9)) is None
    assert state.confirmed_to(Position(5, 2)) == state
    closed = TopicState("t", (ReadableLedger(5, 3, 40),))
    assert closed.confirmed_to(Position(5, 9)) == closed


def test_compaction_stands_for_what_it_took_in():
    left = ReadableLedger(90, 3, 40, compacted=True)
    state = TopicState("t", (ReadableLedger(5, 9, 100),), compacted=left, horizon=Position(5, 6))
    ranges = list(state.entry_ranges(state.earliest, state.latest))
    assert [(one.ledger.ledger_id, one.first, one.last) for one in ranges] == [(90, 0, 3), (5, 7, 9)]
    assert [(one.ledger.ledger_id, one.first) for one in state.entry_ranges(Position(5, 8), state.latest)] == [(5, 8)]
    assert state.gap(Position(1, 1), state.latest) is None


COMPACTED = ReadableLedger(90, 3, 40, compacted=True)


def ledgers_in(state, start):
    return [(one.ledger.ledger_id, one.first, one.last) for one in state.entry_ranges(start, state.latest)]


def test_a_stream_reads_what_compaction_covers_later_as_it_was_written():
    own = (ReadableLedger(5, 9, 100), ReadableLedger(8, 3, 40, closed=False))
    state = TopicState("t", own, compacted=COMPACTED, horizon=Position(8, 1))
    assert ledgers_in(state.followed_from(state.earliest), state.earliest) == [(90, 0, 3), (8, 2, 3)]
    assert ledgers_in(state.followed_from(Position(5, 3)), Position(5, 3)) == [(5, 3, 9), (8, 0, 3)]
    assert ledgers_in(state.followed_from(Position(3, 4), following=5), Position(3, 4)) == [(5, 0, 9), (8, 0, 3)]
    assert ledgers_in(state.followed_from(Position(8, 4)), Position(8, 4)) == []
    plain = TopicState("t", own)
    assert plain.followed_from(Position(5, 3)) == plain


def test_a_stream_reads_trimmed_entries_from_the_compacted_ledger():
    state = TopicState("t", (ReadableLedger(8, 3, 40, closed=False),), compacted=COMPACTED, horizon=Position(8, 1))
    start = Position(5, 3)
    assert ledgers_in(state.followed_from(start), start) == [(90, 0, 3), (8, 2, 3)]
    assert state.followed_from(start).gap(start, state.latest) is None
    beyond = TopicState("t", (ReadableLedger(8, 3, 40, closed=False),), compacted=COMPACTED, horizon=Position(5, 1))
    assert beyond.followed_from(start).gap(start, beyond.latest) is not None, "neither has them"


def test_a_range_that_ends_in_a_compacted_view_needs_no_ledger_there():
    state = TopicState("t", (ReadableLedger(8, 3, 40, closed=False),), compacted=COMPACTED, horizon=Position(6, 4))
    assert state.end_gap(state.earliest, Position(6, 5)) is None
    assert state.end_gap(state.earliest, Position(5, 2)) is None
    assert state.end_gap(state.earliest, Position(6, 6)) is not None
    assert state.end_gap(state.earliest, Position(8, 4)) is None


@given(st.integers(1, 2000), st.integers(0, 20))
def test_a_micro_batch_never_divides_a_compacted_view(limit, horizon):
    compacted = ReadableLedger(90, 30, 3000, compacted=True)
    topics = {
        "t": TopicState("t", (ReadableLedger(5, 20, 210, closed=False),), None, compacted, Position(5, horizon)),
        "u": TopicState("u", (ReadableLedger(6, 20, 210, closed=False),)),
    }
    ends = {name: state.latest for name, state in topics.items()}
    found = admit({}, topics, ends, Limits(bytes=limit))
    assert Position(5, horizon + 1) <= found["t"] <= ends["t"]
    assert Position(6, 1) <= found["u"] <= ends["u"]


def test_a_stream_waits_for_messages_and_not_for_ever():
    def of(entries):
        return {
            "t": TopicState("t", (ReadableLedger(5, entries - 1, 10 * entries, closed=False, messages_per_entry=2.0),))
        }

    def more(waiting, entries, now, first=0):
        states = of(entries)
        return waiting.more({"t": Position(5, first)}, states, {"t": states["t"].latest}, now)

    waiting = Waiting(10, 60.0)
    assert not more(waiting, 0, 0.0), "there is nothing to read"
    assert more(waiting, 4, 100.0)
    assert more(waiting, 4, 159.0)
    assert not more(waiting, 5, 159.5), "ten messages"
    assert more(waiting, 7, 200.0, 5), "the next ones wait for themselves"
    assert not more(waiting, 7, 260.0, 5), "long enough"
    assert not more(Waiting(None, 60.0), 1, 0.0)
