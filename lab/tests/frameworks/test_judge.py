"""Judgement of a run, and its comparison with the owner's."""

import json
from dataclasses import replace

import pytest

from longtests.frameworks.cases import BY_NAME
from longtests.frameworks.events import Events
from longtests.frameworks.judge import NO_BACKLOG, Counts, Verdict, differences, judge
from longtests.frameworks.workload import Sent

SENT = [Sent(f"p{n}", f"k{n % 2}", n % 3, (7, n // 2), n % 2) for n in range(12)]
PLAIN, DISTURBED = BY_NAME["pool"], BY_NAME["pool-kill"]


def message(number: int, **changes: object) -> str:
    sent = SENT[number]
    event = {"payload": sent.payload, "id": f"{sent.entry[0]}:{sent.entry[1]}:0:{sent.batch_index}", "redeliveries": 0}
    return json.dumps({"event": "message", **event, **changes})


def events_of(*lines: str) -> Events:
    events = Events()
    for line in lines:
        events.add_line(line)
    return events


ALL = [message(n) for n in range(12)]


@pytest.mark.parametrize(
    ("type_", "lines", "backlog", "status", "expected"),
    [
        ("Shared", ALL, 0, 0, {}),
        ("Shared", ALL[::-1], 0, 0, {}),
        ("Shared", ALL[:-2], 0, 0, {"received": 10, "lost": 2}),
        ("Shared", ALL[:-2], 2, 0, {"received": 10, "left": 2}),
        ("Shared", ALL[:-2], NO_BACKLOG, 0, {"received": 10, "lost": 2}),
        ("Reader", ALL[:-2], NO_BACKLOG, 0, {"received": 10, "lost": 2}),
        ("Shared", ALL, 3, 0, {"backlog": 3}),
        ("Shared", [*ALL, ALL[0]], 0, 0, {"duplicates": 1}),
        # 3 follows 0 in its partition and 1 in its key; a repeated message does not count.
        ("Exclusive", [ALL[3], *ALL], 0, 0, {"disordered": 1, "duplicates": 1}),
        ("Failover", [ALL[3], *ALL[:3], *ALL[4:]], 0, 0, {"disordered": 1}),
        ("Key_Shared", [ALL[7], *ALL[:7], *ALL[8:]], 0, 0, {"disordered": 1}),
        ("Key_Shared", [ALL[3], *ALL[:3], *ALL[4:]], 0, 0, {}),
        ("Shared", [message(0, id="7:1:0:0"), *ALL[1:]], 0, 0, {"wrong_ids": 1}),
        ("Shared", [message(0, id="7:0:-1:-1"), *ALL[1:]], 0, 0, {}),
        ("Shared", [message(0, id=None, redeliveries=2), *ALL[1:]], 0, 0, {"redelivered": 1}),
        ("Shared", [*ALL, message(0, payload="x")], 0, 0, {"unknown": 1}),
        ("Shared", [*ALL, '{"event": "error", "text": "no"}'], 0, 0, {"errors": 1}),
        ("Shared", ALL, 0, None, {"exit_status": -1}),
        ("Shared", ALL, 0, 3, {"exit_status": 3}),
    ],
)
def test_counts(type_: str, lines: list[str], backlog: int, status: int | None, expected: dict[str, int]) -> None:
    verdict = judge(PLAIN, type_, SENT, events_of(*lines), backlog, status)
    assert verdict.counts == replace(Counts(received=12), **expected)
    assert bool(verdict.faults) == bool(expected)


def test_duplicates_redeliveries_and_errors_are_allowed_after_a_disturbance_only() -> None:
    events = events_of(*ALL, message(0, redeliveries=1), '{"event": "error", "text": "no"}')
    assert judge(DISTURBED, "Shared", SENT, events, 0, 0).faults == ()
    assert judge(PLAIN, "Shared", SENT, events, 0, 0).faults == ("1 duplicates", "1 redelivered", "1 errors")
    assert judge(DISTURBED, "Shared", SENT[:-1], events, 0, 0).faults == ("1 unknown",)


def test_a_copy_that_the_publisher_has_sent_again_has_an_id_of_its_own() -> None:
    events = events_of(message(0, id="8:0:0:0"), *ALL)
    assert judge(DISTURBED, "Shared", SENT, events, 0, 0).faults == ("1 wrong ids",)
    copy = replace(SENT[0], entry=(8, 0))
    verdict = judge(DISTURBED, "Shared", SENT, events, 0, 0, [copy])
    assert verdict.faults == ()
    assert verdict.counts.duplicates == 1


@pytest.mark.parametrize(
    "line",
    ["text", "[]", "{}", '{"event": "other"}', '{"event": "message"}', message(0, id="1:2"), message(0, payload=1)],
)
def test_a_line_of_another_form_is_a_fault(line: str) -> None:
    events = events_of(*ALL, "", line)
    assert events.broken == [line]
    assert judge(PLAIN, "Shared", SENT, events, 0, 0).faults == ("1 lines of another form",)


def test_events_of_a_whole_run() -> None:
    events = events_of('{"event": "ready"}', *ALL, '{"event": "reconnect"}', '{"event": "done"}')
    assert (events.ready, events.done, events.reconnects, len(events.payloads)) == (True, True, 1, 12)


@pytest.mark.parametrize("name", ["duplicates", "redelivered", "errors", "reconnects", "lost", "exit_status"])
def test_differences(name: str) -> None:
    owner, pool = Verdict(Counts(received=12), ()), Verdict(replace(Counts(received=12), **{name: 1}), ())
    (found,) = differences(owner, pool, disturbed=False)
    assert found == f"{name.replace('_', ' ')}: 0 at the owner, 1 through the pool"
    assert bool(differences(owner, pool, disturbed=True)) == (name in {"lost", "exit_status"})
    assert differences(pool, pool, disturbed=False) == []
