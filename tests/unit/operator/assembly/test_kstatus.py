"""kstatus on the conditions of a pool, step by step through a rollout: Current only when every broker is as the spec says."""

import datetime as dt

import pytest
from readonly_operator.assembly import readiness
from readonly_operator.assembly.brokers import BrokerReport
from readonly_operator.assembly.lookup_state import LookupState
from readonly_operator.kube import status
from readonly_operator.kube.names import PoolKey
from readonly_operator.model.lookup import LookupConfig

from tests.support.kstatus import kstatus

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SAME = {"observedGeneration": 2, "currentRevision": "b", "updateRevision": "b", "updatedReplicas": 2}
ROLLING = {"observedGeneration": 2, "currentRevision": "a", "updateRevision": "b"}
STEPS = {
    "applied, and Kubernetes has not seen it": (2, {**SAME, "observedGeneration": 1}, {}, "InProgress"),
    "a broker restarts": (1, {**ROLLING, "updatedReplicas": 0}, {}, "InProgress"),
    "the first broker is replaced": (2, {**ROLLING, "updatedReplicas": 1}, {}, "InProgress"),
    "all brokers are replaced": (2, {**ROLLING, "updatedReplicas": 2}, {}, "Current"),
    "done": (2, SAME, {}, "Current"),
    "waits for other pools": (2, ROLLING, {"waits": True}, "InProgress"),
    "a broker has older bindings": (2, SAME, {"outdated": True}, "InProgress"),
}


def pod(name: str, *, ready: bool) -> dict:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": {"name": name}, "status": {"phase": "Running", "conditions": conditions}}


@pytest.mark.parametrize("step", STEPS)
def test_a_rollout(make_pool, make_binding, step):
    serving, observed, case, expected = STEPS[step]
    pool, lookup = make_pool(), LookupConfig.of([make_binding()])
    waits = case.get("waits", False)
    stateful_set = {"metadata": {"generation": 2}, "status": observed}
    pods = [pod(f"demo-{number}", ready=number < serving) for number in range(2)]
    revisions = [lookup.revision, "older" if case.get("outdated") else lookup.revision]
    reports = [
        BrokerReport(one["metadata"]["name"], reachable=True, revision=revision, bindings=lookup.bindings)
        for one, revision in zip(pods, revisions, strict=True)
    ]
    state = LookupState(lookup, pool.replicas, reports)
    ready = readiness.ready(pool, stateful_set, pods, state, waits=waits)
    held = readiness.update_held(pool, stateful_set, [PoolKey("team", "other")] if waits else [], 1)
    settled = ready.status.value == "True" and not waits and state.converged()
    progressing = readiness.progressing(settled, ready, held if held is not None else state.condition(), [])
    complete = status.complete([ready, progressing, state.condition(), *([held] if held else [])])
    body = {"metadata": {"generation": 3}, "status": status.render({}, 3, complete, {}, NOON)}
    assert kstatus(body) == expected
