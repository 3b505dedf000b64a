"""The thread that works at source clusters."""

import queue
import time

import pytest
from readonly_operator.cluster import worker as writer
from readonly_operator.cluster.worker import STUCK_SECONDS, BackgroundThread

WAIT = 10.0


class BackgroundController:
    def __init__(self, again: float, error: Exception | None = None) -> None:
        self.again = again
        self.error = error
        self.looks: queue.Queue[None] = queue.Queue()
        self.busy_since: float | None = None

    def process_on(self, submit, finished) -> None:
        self.finished = finished

    def sync(self) -> float:
        self.looks.put(None)
        if self.error:
            raise self.error
        return self.again


@pytest.fixture
def start(monkeypatch):
    monkeypatch.setattr(writer, "SETTLE_SECONDS", 0.01)
    started = []

    def make(*controllers: BackgroundController) -> BackgroundThread:
        work = BackgroundThread("test", controllers)
        work.start()
        started.append(work)
        return work

    yield make
    for work in started:
        work.stop()


def test_every_controller_syncs_at_once_and_again_when_it_is_due(start):
    quick, slow = BackgroundController(0.0), BackgroundController(3600.0)
    start(quick, slow)
    for _ in range(3):
        quick.looks.get(timeout=WAIT)
    slow.looks.get(timeout=WAIT)
    assert slow.looks.empty()


def test_wake_makes_every_controller_sync(start):
    background = BackgroundController(float("inf"))
    work = start(background)
    background.looks.get(timeout=WAIT)
    work.wake()
    background.looks.get(timeout=WAIT)


def test_a_controller_syncs_again_when_the_items_of_a_cluster_are_done(start):
    background, other = BackgroundController(float("inf")), BackgroundController(float("inf"))
    start(background, other)
    background.looks.get(timeout=WAIT)
    other.looks.get(timeout=WAIT)
    background.finished()
    background.looks.get(timeout=WAIT)
    assert other.looks.empty()


def test_a_controller_that_works_on_one_item_for_very_long_is_stuck(start):
    background, other = BackgroundController(3600.0), BackgroundController(3600.0)
    work = start(background, other)
    assert not work.is_stuck()
    other.busy_since = time.monotonic() - STUCK_SECONDS + 60.0
    assert not work.is_stuck()
    other.busy_since = time.monotonic() - STUCK_SECONDS - 1.0
    assert work.is_stuck()
    assert work.is_alive(), "and yet its thread runs"


def test_a_controller_that_fails_keeps_no_other_from_working(start, caplog):
    bad, good = BackgroundController(0.0, ValueError("broken")), BackgroundController(3600.0)
    work = start(bad, good)
    good.looks.get(timeout=WAIT)
    work.wake()
    good.looks.get(timeout=WAIT)
    assert bad.looks.qsize() >= 1
    assert work.is_alive()
    assert "broken" in caplog.text
