"""Events that a killed client could not write."""

from pathlib import Path

from longtests.chaos.histories import read_events
from longtests.churn.history import Event, Id, Kind, encode


def test_the_open_sessions_of_a_killed_process_end_with_its_last_event(tmp_path: Path) -> None:
    events = [
        Event(1.0, Kind.OPENED, "t/s", "a"),
        Event(2.0, Kind.OPENED, "t/s", "b"),
        Event(3.0, Kind.ENDED, "t/s", "a"),
        Event(4.0, Kind.DELIVERED, "t/s", "b", (Id(1, 1),)),
    ]
    file = tmp_path / "clients-0.jsonl"
    file.write_text("".join(f"{encode(event)}\n" for event in events) + '{"at": 5.0, "ki')
    *read, ended = read_events(file)
    assert read == events
    assert (ended.at, ended.kind, ended.subscription, ended.session) == (4.0, Kind.ENDED, "t/s", "b")


def test_a_process_that_ended_in_order_adds_nothing(tmp_path: Path) -> None:
    events = [Event(1.0, Kind.OPENED, "t/s", "a"), Event(3.0, Kind.ENDED, "t/s", "a")]
    file = tmp_path / "clients-0.jsonl"
    file.write_text("".join(f"{encode(event)}\n" for event in events))
    assert list(read_events(file)) == events
