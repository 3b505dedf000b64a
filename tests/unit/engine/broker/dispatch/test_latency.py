"""Latencies of a sample of entries, and nothing of an entry that is not sampled."""

import pytest
from readonly_engine.broker.dispatch.latency import MAX_SUMMED_S, LatencySampler

NOW_S = 1_800_000_000.0
NOW_MS = int(NOW_S * 1000)


class Entry:
    """Published at a time; it counts how often its metadata are decoded."""

    def __init__(self, published, deliver_at=0):
        self._published = published
        self.deliver_at = deliver_at
        self.decoded = 0

    @property
    def timestamp(self):
        self.decoded += 1
        return self._published


@pytest.fixture
def timers():
    return []


@pytest.fixture
def sampler(timers):
    return LatencySampler(timers.append, lambda: NOW_S)


@pytest.mark.parametrize(
    ("after_ms", "sampled"), [(1, True), (5, True), (6, False), (60_000, False), (2**64 - 1 - NOW_MS, False)]
)
def test_a_later_time_is_no_latency_within_the_error_of_clocks_and_skew_beyond_it(sampler, after_ms, sampled):
    sampler.observe(Entry(NOW_MS + after_ms), tail=True)
    assert (sampler.tail.counts[0], sum(sampler.tail.counts), sampler.tail.total) == (sampled, sampled, 0)
    assert sampler.skewed == (not sampled)


def test_a_wrong_time_does_not_outweigh_all_other_samples(sampler, timers):
    sampler.observe(Entry(1), tail=True)
    assert not sampler.due
    timers.pop()()
    assert sampler.due
    sampler.observe(Entry(NOW_MS - 86_400_000), tail=False)
    assert sampler.tail.total == sampler.backlog.total == MAX_SUMMED_S == 86_400
    assert sampler.tail.counts[-1] == 1


def test_an_entry_without_a_time_is_not_counted(sampler):
    sampler.observe(Entry(0), tail=True)
    assert sum(sampler.tail.counts) == 0
    assert not sampler.due, "or each of many such entries would be decoded"


def test_a_delayed_message_is_not_counted_and_not_decoded(sampler):
    entry = Entry(NOW_MS - 60_000, deliver_at=NOW_MS)
    sampler.observe(entry, tail=True)
    assert sum(sampler.tail.counts) == 0
    assert entry.decoded == 0
