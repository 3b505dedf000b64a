"""What is told as Kubernetes Events."""

import datetime as dt
import re

import pytest
from readonly_operator.kube.events import (
    BURST,
    NORMAL,
    REPEAT_SECONDS,
    WARNING,
    Budget,
    Notice,
    event_name,
    manifest,
    of_conditions,
)
from readonly_operator.kube.kinds import POOL
from readonly_operator.kube.status import NOT_PAUSED, Condition, ConditionStatus, render

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def status(*conditions: Condition):
    return render({}, 1, conditions, {}, NOON)


def ready(truth: ConditionStatus, reason: str, message: str = "m") -> Condition:
    return Condition("Ready", truth, reason, message)


def test_what_comes_about_is_told_once():
    held = ready(ConditionStatus.TRUE, "Held", "2 of 2")
    assert of_conditions({}, [held]) == [Notice(NORMAL, "Held", "2 of 2")]
    assert of_conditions(status(ready(ConditionStatus.FALSE, "BrokersBehind")), [held]) == [
        Notice(NORMAL, "Held", "2 of 2")
    ]
    assert of_conditions(status(held), [held]) == []
    assert of_conditions(status(held), [ready(ConditionStatus.TRUE, "Held", "3 of 3")]) == []


def test_waiting_is_not_told_and_trouble_is():
    assert of_conditions({}, [ready(ConditionStatus.FALSE, "BrokersNotReady")]) == []
    refused = ready(ConditionStatus.FALSE, "Conflict", "claimed by team/a")
    assert of_conditions(status(ready(ConditionStatus.FALSE, "BrokersBehind")), [refused]) == [
        Notice(WARNING, "Conflict", "claimed by team/a")
    ]


def test_the_same_trouble_in_several_conditions_is_told_once():
    conditions = [
        ready(ConditionStatus.FALSE, "InvalidSpec", "m"),
        Condition("Progressing", ConditionStatus.FALSE, "InvalidSpec", "m"),
        Condition("LookupConfigured", ConditionStatus.FALSE, "InvalidSpec", "m"),
    ]
    assert of_conditions({}, conditions) == [Notice(WARNING, "InvalidSpec", "m")]


def test_the_writable_cluster_is_told_of_both_ways():
    answers = Condition("SourceReachable", ConditionStatus.TRUE, "Answers", "yes")
    gone = Condition("SourceReachable", ConditionStatus.FALSE, "Unreachable", "refused")
    assert of_conditions(status(answers), [gone]) == [Notice(WARNING, "Unreachable", "refused")]
    assert of_conditions(status(gone), [answers]) == [Notice(NORMAL, "Answers", "yes")]


def test_pausing_and_going_on_are_told():
    paused = Condition("Paused", ConditionStatus.TRUE, "Paused", "by annotation")
    assert of_conditions({}, [NOT_PAUSED]) == []
    assert of_conditions(status(NOT_PAUSED), [paused]) == [Notice(NORMAL, "Paused", "by annotation")]
    assert [one.reason for one in of_conditions(status(paused), [NOT_PAUSED])] == ["Resumed"]


def test_only_so_many_in_a_time():
    budget = Budget(0.0)
    assert [budget.consume(0.0) for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    assert [budget.consume(1.0), budget.consume(1.0)] == [True, False]
    assert sum(budget.consume(1000.0) for _ in range(100)) == BURST
    assert REPEAT_SECONDS > BURST


@pytest.mark.parametrize("known", [None, {"firstTimestamp": "2026-01-01T10:00:00Z", "count": 4}])
def test_the_event_object(pool_body, known):
    body, notice = pool_body(), Notice(WARNING, "NameConflict", "m" * 3000)
    made = manifest(POOL, body, notice, known, "2026-01-01T12:00:00Z", "operator-0")
    assert made["metadata"] == {"name": event_name(body, notice), "namespace": "team"}
    assert made["involvedObject"]["uid"] == "uid-of-demo"
    assert (made["type"], made["reason"], len(made["message"])) == (WARNING, "NameConflict", 1000)
    assert made["count"] == (1 if known is None else 5)
    assert made["firstTimestamp"] == ("2026-01-01T12:00:00Z" if known is None else "2026-01-01T10:00:00Z")
    assert made["lastTimestamp"] == "2026-01-01T12:00:00Z"


def test_other_words_are_another_event(pool_body):
    names = {event_name(pool_body(), Notice(NORMAL, "Held", text)) for text in ("a", "b")}
    assert len(names) == 2
    assert event_name(pool_body(), Notice(NORMAL, "Held", "a")) in names


@pytest.mark.parametrize("name", ["a" * 253, "a" * 229 + "-" + "b" * 20, "a" * 228 + ".-" + "b" * 20, "orders"])
def test_an_event_has_a_name_whatever_its_object_is_called(pool_body, name):
    made = event_name(pool_body(name), Notice(NORMAL, "Held", "m"))
    assert len(made) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", made)
