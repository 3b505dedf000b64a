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


class Timer:
    """Runs what was scheduled when a test says so."""

    def __init__(self):
        self.calls = []

    def __call__(self, call):
        self.calls.append(call)

    def expire(self):
        (call,) = self.calls
        self.calls.clear()
        call()


@pytest.fixture
def timer():
    return Timer()


@pytest.fixture
def sampler(timer):
    return LatencySampler(timer, lambda: NOW_S)


def test_a_sample_is_due_again_after_the_interval_only(sampler, timer):
    assert sampler.due
    sampler.observe(Entry(NOW_MS - 20), tail=True)
    assert not sampler.due
    timer.expire()
    assert sampler.due


@pytest.mark.parametrize("published", [NOW_MS + 1, NOW_MS + 5])
def test_a_time_within_the_error_of_clocks_counts_as_no_latency(sampler, published):
    sampler.observe(Entry(published), tail=True)
    assert (sampler.tail.counts[0], sampler.tail.total, sampler.skewed) == (1, 0, 0)


@pytest.mark.parametrize("published", [NOW_MS + 6, NOW_MS + 60_000, 2**64 - 1])
def test_a_later_time_is_skew_and_makes_the_latency_look_no_better(sampler, published):
    sampler.observe(Entry(published), tail=True)
    assert (sum(sampler.tail.counts), sampler.tail.total, sampler.skewed) == (0, 0, 1)


def test_a_wrong_time_does_not_outweigh_all_other_samples(sampler, timer):
    sampler.observe(Entry(1), tail=True)
    timer.expire()
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
