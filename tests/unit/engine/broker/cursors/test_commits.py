import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.cursors.commits import COMPACT_BYTES, COMPACT_FACTOR, CommitSchedule, CompactionSchedule


@pytest.mark.parametrize(("cost_s", "pause_s"), [(0.0, 0.0), (0.004, 0.08), (0.005, 0.1), (0.025, 0.1), (0.1, 0.4)])
def test_the_pause_depends_on_the_cost(cost_s, pause_s):
    commits = CommitSchedule(0.0)
    commits.changed(1.0)
    commits.begin()
    commits.changed(1.0)
    commits.completed(2.0, cost_s)
    assert commits.due == pytest.approx(2.0 + pause_s)


def test_latencies_are_counted_from_the_first_change():
    commits = CommitSchedule(0.1)
    for first, stored in ((1.0, 1.15), (2.0, 2.9), (4.0, 60.0)):
        commits.changed(first)
        commits.begin()
        commits.completed(stored)
    assert commits.latencies == [1, 0, 1, 0, 0, 1]
    assert commits.latency_sum == pytest.approx(0.15 + 0.9 + 56.0)


@given(st.lists(st.sampled_from(["change", "begin", "complete"])))
def test_every_change_is_in_one_commit_that_begins_after_it(actions):
    commits, now, waiting, under_way = CommitSchedule(1.0), 0.0, [], []
    for action in actions:
        now += 0.25
        if action == "change":
            waiting.append(commits.changed(now))
        elif action == "begin" and commits.due is not None:
            number = commits.begin()
            assert set(waiting) == {number}
            under_way, waiting = [number], []
        elif action == "complete" and under_way:
            commits.completed(now)
            assert commits.stored == under_way.pop()
        assert (commits.due is not None) == bool(waiting and not under_way)


def test_a_topic_is_compacted_by_its_growth():
    compactions = CompactionSchedule()
    compactions.written("k", COMPACT_BYTES - 2)
    assert not compactions.due
    compactions.written("k", 0)  # the key counts, too; nothing is kept
    assert compactions.due
    compactions.begun()
    assert not compactions.due


def test_a_large_topic_is_compacted_less_often():
    compactions = CompactionSchedule()
    compactions.written("k", COMPACT_BYTES)
    compactions.begun()
    for _ in range(COMPACT_FACTOR - 1):
        compactions.written("k", COMPACT_BYTES)
        assert not compactions.due
    compactions.written("k", COMPACT_BYTES)
    assert compactions.due
