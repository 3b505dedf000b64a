"""Lanes of background controllers: a source cluster at a time on one thread, and one item before the next cluster's turn."""

import threading
from collections import deque

import pytest
from readonly_operator.cluster import background
from readonly_operator.cluster.background import BackgroundController
from readonly_operator.cluster.daemon_threads import DaemonThreads
from readonly_operator.cluster.own_time import OwnTime

from tests.support.waiting import wait_until


class Lanes(BackgroundController[str, str, str]):
    """Items whose subject is `LANE` or `LANE/anything`; jobs wait for the test."""

    def __init__(self):
        super().__init__(lambda _: None, "")
        self.wanted: dict[str, str] = {}
        self.worked: list[str] = []
        self.again = 3600.0
        self.meanwhile = lambda item: None
        self.jobs: deque = deque()
        self.ended = 0
        self.process_on(self.jobs.append, self._end)

    def _end(self):
        self.ended += 1

    def _subjects(self):
        return dict(self.wanted)

    def _lane(self, item, subject):
        return subject.partition("/")[0]

    def _process(self, item, subject):
        self.worked.append(item)
        self.meanwhile(item)
        return {}, self.again

    def run(self):
        while self.jobs:
            self.jobs.popleft()()


@pytest.fixture
def lanes():
    return Lanes()


def test_clusters_take_turns_after_each_item(lanes):
    lanes.wanted = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b"}
    assert lanes.sync() == float("inf"), "the end of a lane tells when to sync again"
    assert len(lanes.jobs) == 2, "one thread for each cluster"
    lanes.run()
    assert lanes.worked == ["a1", "b1", "a2", "b2", "a3"]
    assert lanes.ended == 2
    assert 3500 < lanes.sync() <= 3600
    assert not lanes.jobs


def test_an_item_that_takes_long_is_not_processed_again_at_once(lanes, monkeypatch):
    monkeypatch.setattr(background, "FAILED_SECONDS", 0.0)
    lanes.wanted = {"a1": "a"}
    lanes.meanwhile = lambda _: lanes.sync()
    lanes.sync()
    lanes.run()
    assert lanes.worked == ["a1"]


def test_an_item_that_changes_its_cluster_meanwhile_is_never_on_two_threads(lanes):
    def change(item):
        lanes.meanwhile = lambda item: None
        lanes.wanted = {"a1": "b", "b1": "b"}
        lanes.sync()
        assert len(lanes.jobs) == 1, "another job for b1 alone"

    lanes.wanted = {"a1": "a"}
    lanes.meanwhile = change
    lanes.sync()
    lanes.run()
    assert sorted(lanes.worked) == ["a1", "a1", "b1"]


def test_an_item_that_nobody_wants_any_more_is_not_processed(lanes):
    lanes.wanted = {"a1": "a", "a2": "a"}
    lanes.sync()
    del lanes.wanted["a2"]
    lanes.sync()
    lanes.run()
    assert lanes.worked == ["a1"]


def test_threads_run_as_many_jobs_as_allowed_and_the_others_later():
    limit, go, running, done = 3, threading.Event(), [], []
    threads = DaemonThreads("test", limit)

    def job():
        running.append(None)
        go.wait(30)
        done.append(None)

    for _ in range(limit + 1):
        threads.submit(job)
    wait_until(lambda: len(running) == limit)
    go.set()
    wait_until(lambda: len(done) == limit + 1)
    threads.submit(lambda: 1 / 0)
    threads.submit(job)
    wait_until(lambda: len(done) == limit + 2)
    threads.stop()
    threads.submit(job)
    threads.join(30)
    assert not threads.is_alive()
    assert len(done) == limit + 2


def test_only_own_time_without_progress_counts():
    own = OwnTime(20.0)
    assert not own.spend(5, 5)
    assert not own.spend(5, 5), "just the limit"
    assert own.spend(0, 0.1)
    own.restart()
    assert not own.spend(10, 10)
