"""Conditions and the status that they make."""

import datetime as dt
from dataclasses import replace

import pytest
from readonly_operator.api.pool import ExplicitLac
from readonly_operator.assembly import binding_status
from readonly_operator.assembly.brokers import BindingStats, BrokerReport, Lag
from readonly_operator.assembly.lookup_state import LookupState
from readonly_operator.assembly.source_conditions import explicit_lac, last_known, source_reachable
from readonly_operator.cluster.explicit_lac.probe import ProbeResult
from readonly_operator.cluster.source import SourceReport
from readonly_operator.kube.pods import is_ready, waiting_reason
from readonly_operator.kube.status import Condition, ConditionStatus, complete, keep, listed, paused, render
from readonly_operator.model.lookup import LookupConfig

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LATER = dt.datetime(2026, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))


def ready(truth: ConditionStatus, message: str = "m") -> Condition:
    return Condition("Ready", truth, "Because", message)


def test_a_status_has_generation_values_and_conditions():
    assert render({}, 4, [ready(ConditionStatus.TRUE)], {"brokers": 2, "absent": None}, LATER) == {
        "observedGeneration": 4,
        "brokers": 2,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "observedGeneration": 4,
                "lastTransitionTime": "2026-01-01T12:00:00Z",
                "reason": "Because",
                "message": "m",
            }
        ],
    }


def test_the_transition_time_stays_while_the_status_stays():
    first = render({}, 1, [ready(ConditionStatus.FALSE)], {}, NOON)
    again = render(first, 2, [ready(ConditionStatus.FALSE, "other")], {}, NOON + dt.timedelta(hours=1))
    assert again["conditions"][0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert again["conditions"][0]["observedGeneration"] == 2
    changed = render(again, 2, [ready(ConditionStatus.TRUE)], {}, NOON + dt.timedelta(hours=1))
    assert changed["conditions"][0]["lastTransitionTime"] == "2026-01-01T13:00:00Z"


def test_nothing_new_renders_the_same_status():
    first = render({}, 1, [ready(ConditionStatus.FALSE)], {"brokers": 1}, NOON)
    assert render(first, 1, [ready(ConditionStatus.FALSE)], {"brokers": 1}, NOON + dt.timedelta(days=1)) == first


def types(status):
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_an_object_that_is_worked_on_is_not_paused():
    assert [one.type for one in complete([ready(ConditionStatus.TRUE)])] == ["Ready", "Paused"]


@pytest.mark.parametrize("reason", ["InvalidSpec", "NameConflict", "Conflict"])
def test_what_waits_for_somebody_is_stalled(reason):
    found = complete([Condition("Ready", ConditionStatus.FALSE, reason, "m")])
    assert found[-1] == Condition("Stalled", ConditionStatus.TRUE, reason, "m")


def test_pausing_leaves_the_rest_of_the_status_as_it_was():
    before = render({}, 3, complete([ready(ConditionStatus.TRUE)]), {"brokers": 2}, NOON)
    after = keep(before, 4, paused(before, "by annotation"), NOON + dt.timedelta(hours=1))
    assert (after["observedGeneration"], after["brokers"]) == (3, 2)
    assert types(after) == {"Ready": "True", "Paused": "True"}
    assert after["conditions"][0] == before["conditions"][0]
    assert keep(after, 4, paused(after, "by annotation"), NOON + dt.timedelta(days=1)) == after


def test_an_object_that_is_paused_from_its_beginning_is_not_known_to_be_ready():
    assert types(keep({}, 1, paused({}, "by annotation"), NOON)) == {"Ready": "Unknown", "Paused": "True"}


def test_long_lists_are_cut():
    assert listed(map(str, range(8)), 3) == "0; 1; 2; and 5 more"
    assert listed(["a"]) == "a"


@pytest.fixture
def wanted(make_binding):
    return LookupConfig.of([make_binding()])


def finalizer(name: str, config: LookupConfig, problem: str = "") -> BrokerReport:
    return BrokerReport(name, reachable=True, revision=config.revision, bindings=config.bindings, problem=problem)


def summary(condition: Condition) -> tuple[str, str]:
    return condition.status.value, condition.reason


FORMER = LookupConfig.of([])
SILENT = BrokerReport("demo-1", reachable=False, problem="connection refused")


@pytest.mark.parametrize(
    ("brokers", "reports", "expected", "message"),
    [
        (2, ["holds", "holds too"], ("True", "Held"), "2 of 2 brokers hold 1 binding"),
        (2, ["holds", "behind"], ("False", "BrokersBehind"), f"demo-1 still holds revision {FORMER.revision}"),
        (2, ["holds", "silent"], ("Unknown", "BrokersUnreachable"), "demo-1 cannot be asked: connection refused"),
        (2, ["holds"], ("Unknown", "BrokersUnreachable"), "1 not created yet"),
        (1, ["refuses"], ("False", "BrokerRefuses"), "bindings[0]: no such thing"),
        (1, ["holds", "holds too"], ("Unknown", "BrokersUnreachable"), "1 more than wanted"),
        (0, [], ("Unknown", "NoBrokers"), ""),
    ],
)
def test_lookup_is_configured_when_every_broker_holds_it(wanted, make_binding, brokers, reports, expected, message):
    said = {
        "holds": finalizer("demo-0", wanted),
        "holds too": finalizer("demo-1", wanted),
        "behind": finalizer("demo-1", FORMER),
        "refuses": finalizer("demo-0", wanted, "bindings[0]: no such thing"),
        "silent": SILENT,
    }
    state = LookupState(wanted, brokers, [said[one] for one in reports])
    assert summary(state.condition()) == expected
    assert message in state.condition().message
    assert state.converged() is (expected[1] in {"Held", "NoBrokers"})
    assert [report.name for report in state.behind()] == ["demo-1"] * reports.count("behind")
    assert state.holders(make_binding()) == len({"holds", "holds too", "refuses"} & set(reports))


def test_a_binding_with_other_topics_is_not_held(wanted, make_binding):
    state = LookupState(wanted, 1, [finalizer("demo-0", wanted)])
    assert state.holders(make_binding("orders", "persistent://public/default/other")) == 0


def test_what_a_binding_comes_to_is_what_most_is_known_of(make_binding):
    binding = make_binding()
    wanted = LookupConfig.of([binding])

    def report(name, topics, *lags, serving=True):
        stats = BindingStats(topics, None if topics is None else topics * 2, lags)
        return BrokerReport(
            name, reachable=True, revision="r", bindings=wanted.bindings, stats={"team/orders": stats}, serving=serving
        )

    state = LookupState(
        wanted,
        3,
        [
            report("demo-0", None, Lag("t", "s", 5), Lag("u", "s", 1234)),
            report("demo-1", 3, Lag("t", "s2", 12345), serving=False),
            BrokerReport("demo-2", reachable=True, revision="r"),
        ],
    )
    assert (state.holders(binding), state.serving(binding)) == (2, 1)
    assert state.stats(binding) == BindingStats(3, 6, (Lag("t", "s2", 12000), Lag("u", "s", 1200)))
    assert LookupState(wanted, 0, []).stats(binding) == BindingStats()


def test_only_the_worst_topics_are_in_the_status(make_binding):
    wanted = LookupConfig.of([make_binding()])
    lags = tuple(Lag(f"t{number}", "s", number) for number in range(20))
    held = BrokerReport(
        "demo-0", reachable=True, bindings=wanted.bindings, stats={"team/orders": BindingStats(20, 0, lags)}
    )
    found = LookupState(wanted, 1, [held]).stats(make_binding()).lag
    assert [lag.entries for lag in found] == list(range(19, 9, -1))


def test_a_source_that_was_not_checked_is_unknown():
    assert summary(source_reachable(None)) == ("Unknown", "NotChecked")
    assert summary(explicit_lac(None, ExplicitLac())) == ("Unknown", "NotChecked")


def test_what_is_not_checked_yet_stays_as_it_was_said_of_the_same_spec():
    said = {"type": "SourceReachable", "status": "True", "reason": "Answers", "message": "m", "observedGeneration": 3}
    unknown = source_reachable(None)
    body = {"metadata": {"generation": 3}, "status": {"conditions": [said]}}
    assert last_known(body, unknown) == Condition("SourceReachable", ConditionStatus.TRUE, "Answers", "m")
    assert last_known({**body, "metadata": {"generation": 4}}, unknown) == unknown
    assert last_known({"metadata": {"generation": 3}}, unknown) == unknown
    found = source_reachable(SourceReport(problems=("x",)))
    assert last_known(body, found) == found


def serving(name: str, config: LookupConfig, problem: str = "") -> BrokerReport:
    return replace(finalizer(name, config, problem), serving=True)


STARTING = BrokerReport("demo-1", reachable=False, problem="ContainerCreating")


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        (["serving", "serving"], [("True", "Held"), ("False", "Settled"), ("True", "Held")]),
        (["serving", "starting"], [("True", "Held"), ("False", "Settled"), ("True", "Held")]),
        (["serving", "behind"], [("True", "Held"), ("True", "BrokersBehind"), ("False", "BrokersBehind")]),
        (["serving", "refuses"], [("True", "Held"), ("True", "BrokerRefuses"), ("False", "BrokerRefuses")]),
        (["behind", "starting"], [("False", "BrokersBehind"), ("True", "BrokersBehind"), ("False", "BrokersBehind")]),
        (
            ["starting"],
            [("False", "BrokersUnreachable"), ("True", "BrokersUnreachable"), ("Unknown", "BrokersUnreachable")],
        ),
    ],
)
def test_a_binding_is_ready_while_one_broker_serves_it(wanted, make_binding, reports, expected):
    old = LookupConfig.of([])
    said = {
        "serving": serving("demo-0", wanted),
        "starting": STARTING,
        "behind": serving("demo-1", old),
        "refuses": serving("demo-1", old, "bindings[0]: no such thing"),
    }
    state = LookupState(wanted, 2, [said[one] for one in reports])
    conditions = binding_status._conditions(state, make_binding(), 3)
    assert [one.type for one in conditions] == ["Ready", "Progressing", "LookupConfigured"]
    assert list(map(summary, conditions)) == expected
    count = reports.count("serving")
    assert all(one.message.startswith(f"{count} of 2 brokers serve it") for one in conditions)
    assert not any("demo-1" in one.message for one in conditions), "the pool has the reason of each broker"


def test_a_binding_of_a_pool_without_brokers_waits_for_nothing(wanted, make_binding):
    conditions = binding_status._conditions(LookupState(wanted, 0, []), make_binding(), None)
    assert list(map(summary, conditions)) == [("False", "NoBrokers"), ("False", "NoBrokers"), ("Unknown", "NoBrokers")]


def test_the_revision_of_a_binding_stays_when_other_bindings_change(wanted, make_binding):
    def said(before, config=wanted):
        body = {"metadata": {"generation": 2}, "status": before}
        return binding_status._revision(body, LookupState(config, 2, []), 2)

    status = {"observedGeneration": 2, "brokers": 2, "holdingBrokers": 2, "lookupRevision": "old"}
    assert said(status) == "old"
    for change in ({"observedGeneration": 1}, {"holdingBrokers": 1}, {"brokers": 1}, {"lookupRevision": None}):
        assert said({**status, **change}) == wanted.revision
    assert said(None) == wanted.revision


def test_a_source_that_does_not_answer_names_the_fields():
    report = SourceReport(("adminUrl http://a: refused", "serviceUrl pulsar://b: refused"))
    condition = source_reachable(report)
    assert summary(condition) == ("False", "Unreachable")
    assert condition.message == "spec.source.adminUrl http://a: refused; spec.source.serviceUrl pulsar://b: refused"
    assert summary(explicit_lac(report, ExplicitLac())) == ("Unknown", "SourceUnreachable")


ON, OFF = (("b0:8080", 200), ("b1:8080", 300)), (("b0:8080", 200), ("b1:8080", 0))
SLOW = (("b0:8080", 200), ("b1:8080", 1000))
SEEN = ProbeResult(observed=True, text="tried on t: bookies had it")


@pytest.mark.parametrize(
    ("report", "accepted_ms", "tried", "expected", "message"),
    [
        (
            SourceReport((), ON),
            None,
            None,
            ("True", "On"),
            "2 of 2 active owner brokers send explicit LACs every 200 ms to",
        ),
        (SourceReport((), ON), None, SEEN, ("True", "On"), "every 200 ms to 300 ms; tried on t: bookies had it"),
        (
            SourceReport((), ON),
            None,
            ProbeResult(observed=False, text="5 s later no bookie had it"),
            ("False", "NotSeen"),
            "according to their configuration, but 5 s later no bookie had it",
        ),
        (SourceReport((), ON), None, ProbeResult(observed=None, text="not tried"), ("True", "On"), "; not tried"),
        (SourceReport((), OFF), None, SEEN, ("False", "Off"), ""),
        (
            SourceReport((), OFF),
            150,
            None,
            ("False", "Off"),
            "is 0 (off) on b1:8080: set bookkeeperExplicitLacIntervalInMills=150 in broker.conf",
        ),
        (SourceReport((), SLOW), 500, None, ("False", "TooSlow"), "is 1000 on b1:8080"),
        (SourceReport((), SLOW), 500, None, ("False", "TooSlow"), "accepts at most 500"),
        (SourceReport((), SLOW), 1000, None, ("True", "On"), ""),
        (
            SourceReport((), ON, (("b2:8080", "no answer in time"),)),
            None,
            None,
            ("Unknown", "BrokersUnreachable"),
            "b2:8080: no answer in time",
        ),
    ],
)
def test_explicit_lac(report, accepted_ms, tried, expected, message):
    condition = explicit_lac(report, ExplicitLac(interval_ms=accepted_ms), None, tried)
    assert summary(condition) == expected
    assert message in condition.message
    assert summary(source_reachable(report)) == ("True", "Answers")


def test_what_managing_says_comes_first():
    managed = Condition("ExplicitLac", ConditionStatus.FALSE, "Rolling", "m")
    assert explicit_lac(SourceReport((), ON), ExplicitLac(), managed) is managed


def pod(*, ready: str = "True", **status) -> dict:
    return {"metadata": {"name": "demo-0"}, "status": {"conditions": [{"type": "Ready", "status": ready}], **status}}


def test_a_running_pod_waits_for_nothing():
    assert waiting_reason(pod(phase="Running")) == ""
    assert is_ready(pod(phase="Running"))
    assert not is_ready(pod(phase="Running", ready="False"))


def test_a_pod_that_ends_is_not_ready():
    ending = pod(phase="Running")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert not is_ready(ending)


def test_why_a_pod_waits_is_kubernetes_own_word():
    waiting = {"waiting": {"reason": "ErrImageNeverPull", "message": "image is  not present"}}
    assert waiting_reason(pod(phase="Pending", containerStatuses=[{"state": waiting}])) == (
        "ErrImageNeverPull (image is not present)"
    )
    assert waiting_reason(pod(phase="Pending")) == "Pending"
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes"}
    assert waiting_reason({"metadata": {}, "status": {"phase": "Pending", "conditions": [unscheduled]}}) == (
        "Unschedulable (no nodes)"
    )


def test_a_broker_that_gave_up_is_quoted():
    gave_up = {
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {
            "terminated": {"reason": "Error", "message": "log line\npulsar-readonly serve: no ZooKeeper answers\n"}
        },
    }
    assert waiting_reason(pod(phase="Running", containerStatuses=[gave_up])) == (
        "CrashLoopBackOff (pulsar-readonly serve: no ZooKeeper answers)"
    )
    ended = {"state": {"terminated": {"reason": "Error", "message": "the last word"}}}
    assert waiting_reason(pod(phase="Running", containerStatuses=[ended])) == "Error (the last word)"
