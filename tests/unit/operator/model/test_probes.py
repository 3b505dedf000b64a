"""Timings of the kubelet's probes, and the pause of a rollout."""

from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings


def stateful_set(pool):
    made = children(pool, LookupConfig.of([]), Settings(engine_image="engine:1"))
    return next(one["spec"] for one in made if one["kind"] == "StatefulSet")


def timings(pool):
    """Period, failures and timeout of each probe."""
    container = stateful_set(pool)["template"]["spec"]["containers"][0]
    fields = ("periodSeconds", "failureThreshold", "timeoutSeconds")
    return {
        name: tuple(container[f"{name}Probe"][one] for one in fields) for name in ("startup", "readiness", "liveness")
    }


DEFAULT = {"startup": (1, 60, 2), "readiness": (2, 3, 2), "liveness": (10, 3, 2)}


def test_timings_are_those_of_before_unless_the_spec_has_others(make_pool):
    assert timings(make_pool()) == timings(make_pool(probes={"readiness": {}})) == DEFAULT
    assert stateful_set(make_pool(probes={"liveness": {"timeoutSeconds": 2}})) == stateful_set(make_pool())


def test_each_timing_can_be_chosen_alone(make_pool):
    spec = {"startup": {"failureThreshold": 300}, "liveness": {"periodSeconds": 30, "timeoutSeconds": 10}}
    assert timings(make_pool(probes=spec)) == {**DEFAULT, "startup": (1, 300, 2), "liveness": (30, 3, 10)}


def test_a_rollout_pauses_after_each_broker_without_a_restart(make_pool):
    paused = stateful_set(make_pool(updateStrategy={"minReadySeconds": 30}))
    assert paused["minReadySeconds"] == 30
    before = stateful_set(make_pool())
    assert "minReadySeconds" not in before
    assert stateful_set(make_pool(updateStrategy={"minReadySeconds": 0})) == before
    assert paused["template"] == before["template"]
