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


def condition(type_: str, truth: str, reason: str, message: str = "m") -> Condition:
    return Condition(type_, ConditionStatus(truth), reason, message)


HELD, BEHIND = condition("Ready", "True", "Held"), condition("Ready", "False", "BrokersBehind")
CONFLICT = condition("Ready", "False", "Conflict")
ANSWERS, GONE = (
    condition("SourceReachable", truth, reason) for truth, reason in (("True", "Answers"), ("False", "Unreachable"))
)
INVALID = [condition(type_, "False", "InvalidSpec") for type_ in ("Ready", "Progressing", "LookupConfigured")]
PAUSED = condition("Paused", "True", "Paused")


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ([], [HELD], [(NORMAL, "Held")]),
        ([BEHIND], [HELD], [(NORMAL, "Held")]),
        ([HELD], [HELD], []),
        ([HELD], [condition("Ready", "True", "Held", "other numbers")], []),
        ([], [condition("Ready", "False", "BrokersNotReady")], []),  # waiting is no trouble
        ([BEHIND], [CONFLICT], [(WARNING, "Conflict")]),
        ([], INVALID, [(WARNING, "InvalidSpec")]),  # once for all conditions
        ([ANSWERS], [GONE], [(WARNING, "Unreachable")]),
        ([GONE], [ANSWERS], [(NORMAL, "Answers")]),
        ([], [NOT_PAUSED], []),
        ([NOT_PAUSED], [PAUSED], [(NORMAL, "Paused")]),
        ([PAUSED], [NOT_PAUSED], [(NORMAL, "Resumed")]),
    ],
)
def test_changes_of_conditions_that_are_told(before, now, told):
    found = of_conditions(render({}, 1, before, {}, NOON) if before else {}, now)
    assert [(one.type, one.reason) for one in found] == told
    assert {one.message for one in found} <= {now[0].message, "the operator reconciles it again"}


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
