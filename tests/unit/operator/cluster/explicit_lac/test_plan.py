"""Managing explicit LAC, step by step: what is done, what is not, and that nothing is done twice."""

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readonly_operator.cluster.explicit_lac.observed import SettingRecord
from readonly_operator.cluster.explicit_lac.plan import Evict, RemoveRecord, RestoreValue, SetValue, plan, rejected
from readonly_operator.kube.api_server import Right

from tests.support.examples import examples
from tests.unit.operator.cluster.explicit_lac.lac_world import LOCATION, START, World, agreement, applied, request

ONE = agreement(request())


def reason(made) -> str:
    return made.condition.reason if made.condition else ""


def test_nothing_is_done_where_it_is_on():
    for value in ("100", "200"):
        world = World(value=value)
        world.run(ONE)
        assert world.actions == []


def test_brokers_that_have_it_from_somewhere_else_are_left_alone():
    world = World(value=None)
    for broker in world.brokers:
        broker.started_with = "150"
    world.run(ONE)
    assert world.actions == []


def test_only_brokers_that_run_with_another_value_are_restarted():
    world = World(value="200")
    world.brokers[0].started_with = "0"
    world.run(ONE)
    assert world.evictions() == ["pulsar-broker-0"]
    assert world.value == "200"


def test_a_smaller_interval_later_is_another_roll_and_a_larger_one_changes_nothing():
    world = World(value="0")
    both = agreement(request(), request("quick", 50))
    for wanted, sets in ((ONE, [200]), (both, [200, 50]), (ONE, [200, 50])):
        world.run(wanted)
        assert world.sets() == sets
        assert len(world.evictions()) == 2 * len(sets)
    assert world.record.before == "0"


def test_it_stops_at_the_first_broker_that_does_not_come_back_and_goes_on_when_it_does():
    world = World(value="0", replicas=3, doomed={2})
    assert reason(world.run(ONE, 30)) == "Rolling"
    made = world.run(ONE, 200)
    assert reason(made) == "RollStopped"
    assert "pulsar-broker-2: starting" in made.condition.message
    assert world.evictions() == ["pulsar-broker-2"]
    world.brokers[2].broken = False
    world.run(ONE)
    assert world.intervals() == [200, 200, 200]
    assert len(world.evictions()) == 3


def test_a_broker_that_is_ready_and_not_healthy_stops_it_too():
    world = World(value="0", unhealthy={1})
    made = world.run(ONE)
    assert reason(made) == "RollStopped"
    assert world.evictions() == []
    world.unhealthy.clear()
    world.run(ONE)
    assert len(world.evictions()) == 2


def test_a_setting_that_is_not_taken_up_costs_one_restart():
    world = World(value="0", taken=False)
    made = world.run(ONE)
    assert reason(made) == "NotTaken"
    assert world.evictions() == ["pulsar-broker-1"]
    assert "pulsar-broker-1 runs with 0 though started after" in made.condition.message


@pytest.mark.parametrize("back_to", ["0", None])
def test_a_tool_that_puts_it_back_is_named_and_not_fought(back_to):
    world = World(value="0")
    world.run(ONE)
    world.revert(back_to)
    told = agreement(applied(request(), 200))
    made = world.run(told)
    assert reason(made) == "Reverted"
    assert "argocd-controller (2026-01-01T13:00:00Z)" in made.condition.message
    assert world.sets() == [200]
    assert len(world.evictions()) == 2
    world.revert("200")
    assert reason(world.run(told)) == ""


@pytest.mark.parametrize(
    ("asks", "lost", "told", "sets"),
    [
        (
            request(),
            False,
            "",
            [200, 200],
        ),  # by hand, while the pool says Verify, which its status forgets the setting for
        (applied(request(), 200), True, "Reverted", [200]),  # a ConfigMap that was made anew
        (applied(request(interval_ms=100), 200), False, "", [200, 100]),  # another interval is another try
    ],
)
def test_what_is_put_back_is_set_again_where_the_status_does_not_say_that_it_was_set(asks, lost, told, sets):
    world = World(value="0")
    world.run(ONE)
    world.record = None if lost else world.record
    world.revert("0")
    assert reason(world.run(agreement(asks))) == told
    assert world.sets() == sets
    assert world.intervals() == [sets[-1]] * 2
    assert lost or world.record == SettingRecord(sets[-1], "0", "uid-demo")


def test_pools_of_other_namespaces_need_consent():
    world = World(value="0")
    stranger = request("other", namespace="team")
    made = world.run(agreement(stranger))
    assert made.refused[stranger.pool].reason == "NotAllowed"
    assert "explicit-lac-from=team" in made.refused[stranger.pool].message
    assert world.actions == []
    world.run(agreement(stranger, request(interval_ms=500)))
    assert world.sets() == [500], "a pool that may not manage has no say"
    world.workload = replace(world.workload, consent=frozenset({"team"}))
    world.run(agreement(stranger, request(interval_ms=500)))
    assert world.sets() == [500, 200]


def test_what_cannot_be_managed_says_why_and_is_not_touched():
    world = World(value="0")
    observed = world.observed()
    right = Right("create", "", "pods/eviction", "pulsar")
    cases = {
        "TargetNotFound": [replace(observed, config=None), replace(observed, workload=None)],
        "NotRead": [replace(observed, workload=replace(world.workload, reads=False))],
        "NotOneSetting": [replace(observed, config=replace(observed.config, value="a=1\nb=2"))],
        "Forbidden": [replace(observed, missing=(right,))],
        "SourceUnreachable": [replace(observed, problem="connection refused")],
        "NotTheSource": [replace(observed, brokers=tuple(replace(one, address="") for one in observed.brokers))],
    }
    for expected, all_seen in cases.items():
        for one in all_seen:
            made = plan(ONE, one, START)
            assert (reason(made), made.action) == (expected, None)
    assert (
        "verbs [create] on pods/eviction in namespace pulsar"
        in plan(ONE, replace(observed, missing=(right,)), START).condition.message
    )


def test_a_pool_that_restores_gets_its_finalizer_first():
    world = World(value="0")
    world.run(agreement(request(restore=True)))
    assert world.actions == []
    world.run(agreement(request(restore=True, has_finalizer=True)))
    assert world.sets() == [200]


def leaving(world: World, **fields):
    return agreement(request(restore=True, has_finalizer=True, deleted_at=world.now, **fields))


@pytest.mark.parametrize("before", ["0", None, "5000"])
def test_restore_puts_back_what_was_there_and_restarts_one_by_one(before):
    world = World(value=before)
    world.run(agreement(request(restore=True, has_finalizer=True)))
    done = len(world.evictions())
    gone = leaving(world)
    assert reason(world.step(gone)) == "Restoring"
    assert world.run(gone).released
    assert world.value == before
    assert world.record is None
    assert len(world.evictions()) == done + 2
    assert world.intervals() == [int(before or 0)] * 2


def test_restore_leaves_alone_what_others_still_want_or_have_changed():
    world = World(value="0")
    world.run(agreement(request(restore=True, has_finalizer=True), request("other")))
    both = agreement(request(restore=True, has_finalizer=True, deleted_at=world.now), request("other"))
    assert world.step(both).released
    assert (world.value, world.record.pool) == ("200", "uid-other")
    world.revert("300")
    made = world.step(leaving(world, uid="uid-other"))
    assert made.released
    assert "argocd" in made.unresolved
    assert (world.value, world.record) == ("300", None)


def test_the_last_pool_of_several_restores_what_was_there_before_the_first():
    world = World(value="7000")
    first, last = (request(name, restore=True, has_finalizer=True) for name in ("demo", "other"))
    world.run(agreement(first, last))
    assert world.run(agreement(replace(first, deleted_at=world.now), last)).released
    assert world.value == "200"
    assert world.run(agreement(replace(last, deleted_at=world.now))).released
    assert (world.value, world.record) == ("7000", None)


def test_what_another_operators_pool_has_set_is_not_restored():
    world = World(value="200", record=SettingRecord(200, "0", "uid-elsewhere"))
    made = world.run(leaving(world))
    assert made.released
    assert made.unresolved.endswith("another ReadOnlyBrokerPool, with uid uid-elsewhere: it is left as it is")
    assert (world.value, world.record.pool, world.actions) == ("200", "uid-elsewhere", [])


def test_restore_ends_when_the_writer_is_gone():
    world = World(value="0")
    world.run(agreement(request(restore=True, has_finalizer=True)))
    gone = leaving(world)
    for observed in (replace(world.observed(), config=None), replace(world.observed(), config=None, workload=None)):
        assert plan(gone, observed, world.now).released
    world.workload = None
    world.step(gone)
    assert world.value == "0"
    assert world.step(gone).released


def test_restore_does_not_wait_for_ever_for_a_broker():
    world = World(value="0", doomed=set())
    world.run(agreement(request(restore=True, has_finalizer=True)))
    world.doomed = {1}
    gone = leaving(world)
    steps = 0
    while not (made := world.step(gone, seconds=10)).released:
        steps += 1
        assert steps < 100
    assert isinstance(world.actions[-1], RemoveRecord)
    assert "the deletion waits no longer for pulsar-broker-0" in made.unresolved
    assert world.now - gone.leaving[0].deleted_at < dt.timedelta(minutes=9)


def test_restore_without_rights_ends_too():
    world = World(value="200", record=SettingRecord(200, "0", "uid-demo"))
    observed = replace(world.observed(), missing=(Right("patch", "", "configmaps", "pulsar", "c"),))
    gone = leaving(world)
    assert not plan(gone, observed, world.now).released
    made = plan(gone, observed, world.now + dt.timedelta(minutes=9))
    assert made.released
    assert "patch" in made.unresolved


def test_a_pool_that_may_not_manage_brokers_keeps_nobody_from_restoring():
    world = World(value="0")
    world.run(agreement(request(restore=True, has_finalizer=True)))
    stranger = request("stranger", namespace="elsewhere")
    made = world.run(agreement(request(restore=True, has_finalizer=True, deleted_at=world.now), stranger))
    assert made.released
    assert (world.value, world.record) == ("0", None)
    assert made.refused[stranger.pool].reason == "NotAllowed"


def test_a_deletion_does_not_wait_for_what_hinders_pools_that_stay():
    world = World(value="200", record=SettingRecord(200, "0", "uid-demo"))
    both = agreement(request(restore=True, has_finalizer=True, deleted_at=world.now), request("other"))
    missing = (Right("patch", "", "configmaps", "pulsar", "c"),)
    for observed in (replace(world.observed(), missing=missing), replace(world.observed(), config=None)):
        assert plan(both, observed, world.now).released
    assert rejected(both, "ConfigMap is immutable", world.now).released


def test_a_new_pool_while_another_restores_starts_from_what_was_there_at_first():
    world = World(value="7000")
    world.run(agreement(request(restore=True, has_finalizer=True)))
    gone = leaving(world)
    world.step(gone)
    assert isinstance(world.actions[-1], RestoreValue)
    world.run(agreement(request("new"), *gone.leaving))
    assert world.value == "200"
    assert world.record == SettingRecord(200, "7000", "uid-new")
    assert world.intervals() == [200, 200]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 40)),
        st.tuples(st.just("want"), st.sampled_from([50, 200, 1000])),
        st.tuples(st.just("revert"), st.sampled_from(["0", None, "200"])),
        st.tuples(st.just("doom"), st.integers(0, 2)),
        st.tuples(st.just("mend"), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 2)),
    ),
    max_size=12,
)


@settings(max_examples=examples(100))
@given(events=EVENTS, value=st.sampled_from([None, "0", "100", "3000"]), taken=st.booleans())
def test_whatever_happens_no_broker_is_restarted_twice_for_one_value(events, value, taken):
    """World asserts by itself that no broker is restarted while another is down; plans remember nothing."""
    world = World(value=value, replicas=3, taken=taken)
    interval = 200
    status: int | None = None
    for event, argument in events:
        match event:
            case "want":
                interval = argument
            case "revert":
                world.revert(argument)
            case "doom":
                world.doomed.add(argument)
            case "mend":
                world.doomed.clear()
                for broker in world.brokers:
                    broker.broken = False
            case "crash":
                old = world.brokers[argument]
                world.brokers[argument] = replace(
                    old, life=old.life + 1, created=world.now, started_with=world.value, broken=False
                )
        for _ in range(argument if event == "wait" else 1):
            before = world.value
            made = world.step(agreement(applied(request(interval_ms=interval), status)))
            if isinstance(made.action, SetValue):
                assert not (status == interval and before is not None and int(before) not in range(1, interval + 1))
                status = made.action.interval_ms
    evicted = world.evictions()
    for pod in set(evicted):
        assert evicted.count(pod) <= len(world.sets())
    assert world.sets() == [] or len(world.sets()) <= 1 + 2 * sum(
        event in {"want", "revert", "crash"} for event, _ in events
    )


@given(
    value=st.sampled_from([None, "0", "3000"]),
    replicas=st.integers(1, 4),
    gaps=st.lists(st.floats(1, 60), min_size=1, max_size=10),
)
def test_it_always_gets_there(value, replicas, gaps):
    """The value is set once, and brokers are restarted one by one, however long the operator is away between two steps."""
    world = World(value=value, replicas=replicas)
    for index in range(60):
        world.step(ONE, seconds=gaps[index % len(gaps)])
    world.run(ONE)
    assert world.intervals() == [200] * replicas
    assert world.sets() == [200]
    assert world.record == SettingRecord(200, value, "uid-demo")
    assert world.evictions() == [f"pulsar-broker-{ordinal}" for ordinal in reversed(range(replicas))], "from the last"
    assert not any(
        isinstance(action, Evict) for action in world.actions[: world.actions.index(SetValue(200, world.record))]
    )
    assert LOCATION.stateful_set == "pulsar-broker"
