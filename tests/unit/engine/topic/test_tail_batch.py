"""Batches at a topic's tail: shared frames, and the interval between dispatches."""

import pytest
from readonly_engine.topic.entries import TopicEntry
from readonly_engine.topic.position import Position
from readonly_engine.topic.tail_batch import END_PAUSE_S, KEPT_BYTES, NOTIFYING_SHARE, PAUSE_S, FlushInterval, TailBatch
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.message_pb2 import MessageMetadata


def entry(entry_id: int, body: bytes = b"body", **metadata: int) -> TopicEntry:
    encoded = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **metadata).SerializeToString()
    return TopicEntry(Entry(7, entry_id, entry_id - 1, 0, len(encoded).to_bytes(4, "big") + encoded + body))


def burst(*entries: TopicEntry) -> TailBatch:
    return TailBatch(list(entries), Position(7, entries[-1].position.entry_id + 1), complete=True)


@pytest.mark.parametrize("special", [{"marker_type": 1}, {"txnid_most_bits": 1, "txnid_least_bits": 2}])
def test_what_must_be_looked_at_is_not_plain(special):
    assert not burst(entry(3), entry(4, **special)).uniform


def test_a_chunk_is_the_frames_and_is_shared_by_all_with_the_same_id():
    first, second = entry(3), entry(4)
    made = burst(first, second)
    assert made.frames(0, -1, -1) == first.frame(0, -1) + second.frame(0, -1)
    assert made.frames(0, -1, -1) is made.frames(0, -1, -1)
    assert made.frames(1, -1, -1) == first.frame(1, -1) + second.frame(1, -1)
    assert made.frames(0, -1, 3) == first.frame(0, -1, 3) + second.frame(0, -1, 3)
    assert burst(first).frames(0, -1, -1) is first.frame(0, -1)
    assert burst(first).frames(0, -1, -1, True) is first.frame(0, -1, exposed=True)
    assert made.frames(0, -1, -1, True) == first.frame(0, -1, exposed=True) + second.frame(0, -1, exposed=True)
    assert made.frames(0, -1, -1, True) is not made.frames(0, -1, -1)


def test_its_entries_are_found_by_their_position():
    one, two, four = entry(3), entry(4), entry(6)
    made = burst(one, two, four)  # with a gap, as at the end of a ledger
    assert made.entries(Position(7, 3), 2) == [one, two]
    assert made.entries(Position(7, 4), 5) == [two, four]
    assert made.entries(Position(7, 5), 5) == []  # not where it would be without the gap
    for elsewhere in (Position(7, 2), Position(7, 9), Position(8, 4)):
        assert made.entries(elsewhere, 5) == []


def test_chunks_beyond_the_limit_are_made_but_not_kept():
    big = burst(entry(3, bytes(KEPT_BYTES // 2)), entry(4, bytes(KEPT_BYTES // 2)))
    assert big.frames(0, -1, -1) == big.frames(0, -1, -1)
    assert big.frames(0, -1, -1) is not big.frames(0, -1, -1)


@pytest.mark.parametrize(
    ("cost", "pause"), [(1e-5, PAUSE_S[0]), (5e-4, 5e-4 / NOTIFYING_SHARE), (5e-3, PAUSE_S[1]), (1.0, PAUSE_S[1])]
)
def test_where_telling_costs_more_the_pause_is_longer(cost, pause):
    pace = FlushInterval()
    for _ in range(50):
        pace.cost(cost)
    pace.notified(100.0)
    assert pace.hold(100.0) == pytest.approx(pause, rel=0.01)


def test_an_interval_may_have_a_higher_bound():
    interval = FlushInterval()
    interval.notified(100.0, least=2 * PAUSE_S[0])
    assert interval.hold(100.0) == pytest.approx(2 * PAUSE_S[0])
    interval.notified(200.0, latency_tolerant=True, least=2 * PAUSE_S[0])
    assert interval.hold(200.0) == pytest.approx(PAUSE_S[1])
    interval.notified(300.0, latency_tolerant=True, end_only=True)
    assert interval.hold(300.0) == pytest.approx(END_PAUSE_S)
