"""Background controllers: due items, changed reports, and errors of one item."""

import threading
import time

import pytest
from readonly_operator.cluster.background import FAILED_SECONDS, BackgroundController
from readonly_operator.cluster.worker import STUCK_SECONDS
from readonly_operator.kube.names import PoolKey
from readonly_operator.runtime import controller
from readonly_operator.runtime.controller import Controller
from readonly_operator.settings import Settings

A, B = PoolKey("team", "a"), PoolKey("team", "b")
WAIT_SECONDS = 30.0


class Echo(BackgroundController[PoolKey, str, str]):
    """Says what is wanted; `bad` goes wrong."""

    def __init__(self, again: float = 3600.0, stopped: threading.Event | None = None) -> None:
        self.told: list[PoolKey] = []
        self.worked: list[str] = []
        self.wanted: dict[PoolKey, str | None] = {}
        self.again = again
        self.broken = False
        super().__init__(self.told.append, "nothing", stopped)

    def _subjects(self):
        assert self.busy_since is not None
        if self.broken:
            raise ValueError("nobody knows what there is to do")
        return dict(self.wanted)

    def _lane(self, item, subject):
        return item

    def _process(self, item, subject):
        assert self.busy_since is not None
        self.worked.append(subject)
        if subject == "bad":
            raise ValueError("bad")
        return {item: subject.upper()}, self.again


def test_what_is_not_due_and_has_not_changed_is_left():
    background = Echo()
    background.wanted = {A: "one", B: "two"}
    assert 3500 < background.sync() <= 3600
    assert (background.report(A), background.report(B)) == ("ONE", "TWO")
    assert background.busy_since is None
    background.wanted[B] = "three"
    background.sync()
    assert background.worked == ["one", "two", "three"]
    assert background.told == [A, B, B]
    assert background.report(PoolKey("team", "c")) == "nothing"


def test_what_is_due_is_worked_on_again_and_told_only_where_it_comes_to_something_else():
    background = Echo(again=0.0)
    background.wanted = {A: "one"}
    for _ in range(3):
        assert background.sync() == 0.0
    assert background.worked == ["one"] * 3
    assert background.told == [A]


def test_what_goes_wrong_with_one_keeps_no_other_from_being_worked_on(caplog):
    background = Echo()
    background.wanted = {A: "fine", B: "two"}
    background.sync()
    background.wanted = {A: "bad", B: "three"}
    assert 0.0 < background.sync() <= FAILED_SECONDS
    assert (background.report(A), background.report(B)) == ("FINE", "THREE"), (
        "what was said last is the best that is known"
    )
    assert "background work failed, retrying: item=team/a" in caplog.text
    background.sync()
    assert background.worked.count("bad") == 1, "it is not tried again at once"
    assert background.busy_since is None


def test_where_nothing_can_be_done_now_what_was_said_still_holds_and_it_is_done_as_soon_as_it_can():
    background = Echo()
    for wanted in ("one", None, "one"):
        background.wanted = {A: wanted}
        background.sync()
        assert background.report(A) == "ONE"
    assert background.worked == ["one", "one"]


def test_who_wants_nothing_any_more_is_forgotten():
    background = Echo()
    background.wanted = {A: "one"}
    background.sync()
    background.wanted = {}
    assert background.sync() == float("inf")
    assert background.report(A) == "nothing"
    assert background.told == [A, A]


def test_a_sync_that_fails_is_over():
    background = Echo()
    background.broken = True
    with pytest.raises(ValueError, match="nobody knows"):
        background.sync()
    assert background.busy_since is None


def test_nothing_is_begun_when_the_operator_ends():
    stopped = threading.Event()
    background = Echo(stopped=stopped)
    background.wanted = {A: "one"}
    stopped.set()
    background.sync()
    assert background.worked == []


class Empty:
    """An API server without objects."""

    def serves(self, kind, namespace):
        return True

    def list(self, kind, namespace):
        return []


@pytest.mark.parametrize("name", ["lac", "registrations", "probes"])
def test_an_operator_with_a_stuck_controller_is_not_alive(monkeypatch, name):
    monkeypatch.setattr(controller, "STOP_SECONDS", WAIT_SECONDS)
    made = Controller(Empty(), Settings(engine_image="engine"))
    made.start()
    assert made.alive()
    getattr(made._context, name)._busy_since = time.monotonic() - STUCK_SECONDS - 1.0
    assert not made.alive()
    made.stop()
