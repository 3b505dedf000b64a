"""When a pool is Ready, and what its condition says while it is not."""

from pathlib import Path

import pytest
from readonly_operator.assembly import readiness
from readonly_operator.assembly.brokers import BrokerReport
from readonly_operator.assembly.lookup_state import LookupState
from readonly_operator.kube import status
from readonly_operator.kube.pods import waiting_reason
from readonly_operator.model.lookup import LookupConfig

ROOT = Path(__file__).parents[4]


def pod(name, ready="True"):
    return {
        "metadata": {"name": name},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    }


def ready(pool, pods, **observed):
    stateful_set = {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, **observed}}
    reports = [BrokerReport(one["metadata"]["name"], reachable=True) for one in pods]
    return readiness.ready(pool, stateful_set, pods, LookupState(LookupConfig.of([]), pool.replicas, reports))


SAME = {"currentRevision": "a", "updateRevision": "a"}
ROLLING = {"currentRevision": "a", "updateRevision": "b"}
BOTH = [pod("demo-0"), pod("demo-1")]


@pytest.mark.parametrize(
    ("strategy", "observed", "status", "reason", "message"),
    [
        ({}, SAME, "True", "BrokersReady", "2 of 2 brokers ready"),
        (
            {},
            {**ROLLING, "updatedReplicas": 1},
            "False",
            "RollingOut",
            "2 of 2 brokers ready; brokers are being replaced",
        ),
        ({}, {**ROLLING, "updatedReplicas": 2}, "True", "BrokersReady", "2 of 2 brokers ready"),
        ({"partition": 1}, ROLLING, "False", "RollingOut", "2 of 2 brokers ready; brokers are being replaced"),
        (
            {"partition": 1},
            {**ROLLING, "updatedReplicas": 1},
            "True",
            "BrokersReady",
            "2 of 2 brokers ready; 1 run the former pod template, as spec.updateStrategy says",
        ),
        (
            {"type": "OnDelete"},
            ROLLING,
            "True",
            "BrokersReady",
            "2 of 2 brokers ready; 2 run the former pod template, as spec.updateStrategy says",
        ),
    ],
)
def test_a_pool_is_ready_when_brokers_are_what_the_update_strategy_says(
    make_pool, strategy, observed, status, reason, message
):
    condition = ready(make_pool(updateStrategy=strategy), BOTH, **observed)
    assert (condition.status.value, condition.reason) == (status, reason)
    assert condition.message.startswith(message)


def test_a_container_that_does_not_come_says_what_its_pod_needs():
    waiting = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    volumes = [
        {"name": "pulsar-readonly-config", "configMap": {"name": "demo-config"}},
        {"name": "pulsar-readonly-tls-certificate", "secret": {"secretName": "demo-tls"}},
        {"name": "pulsar-readonly-tls-trust", "configMap": {"name": "ca"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    found = {"spec": {"volumes": volumes}, "status": {"phase": "Pending", "containerStatuses": [waiting]}}
    assert waiting_reason(found) == "ContainerCreating (it needs Secret demo-tls, ConfigMap ca)"
    assert waiting_reason({"status": found["status"]}) == "ContainerCreating"


def test_what_the_cluster_does_not_know_is_said_where_all_else_is_settled(make_pool):
    good = ready(make_pool(), BOTH, **SAME)
    looked_up = LookupState(LookupConfig.of([]), 2, []).condition()
    assert readiness.progressing(True, good, looked_up, []).message == "everything is as the spec says"
    assert readiness.progressing(True, good, looked_up, [readiness.kind_not_served("PodMonitor")]).message == (
        "everything is as the spec says, but no PodMonitor is created, because the Kubernetes cluster does not serve that kind"
    )


def refused(name: str, state: dict) -> dict:
    """A pod whose broker ended because a namesake has the pool's name."""
    words = (
        "pulsar-readonly serve: --pool: pool team.demo (uid a): another pool of this name (uid b) has a live broker on this "
        "metadata store, pulsar://demo-0.demo-headless.team.svc.cluster.local:6650; give one of them another name"
    )
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": f'{{"level": "INFO"}}\n{words}\n'}}
    broken = pod(name, ready="False")
    broken["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    broken["status"]["containerStatuses"] = [{"name": "broker", "state": state, "lastState": ended}]
    return broken


BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
AGAIN = {"running": {"startedAt": "2026-01-01T00:05:00Z"}}


@pytest.mark.parametrize("state", [BACK_OFF, AGAIN], ids=["backs-off", "tries-again"])
def test_a_pool_whose_name_another_cluster_has_says_so_and_is_stalled(make_pool, state):
    condition = ready(make_pool(), [refused("demo-0", state), refused("demo-1", state)], **SAME)
    assert (condition.status.value, condition.reason) == ("False", "PoolNameTaken")
    assert condition.message.startswith(
        "0 of 2 brokers ready: a pool of the same namespace and name in another Kubernetes cluster has live brokers on this "
        "metadata store; delete one of the two pools and create it under another name; demo-0: "
    )
    assert "pool team.demo (uid a): another pool of this name (uid b)" in condition.message
    stalled = {one.type: one for one in status.complete([condition])}["Stalled"]
    assert (stalled.status.value, stalled.reason) == ("True", "PoolNameTaken")
    waiting = readiness.progressing(False, condition, LookupState(LookupConfig.of([]), 2, []).condition(), [])
    assert (waiting.status.value, waiting.reason) == ("False", "PoolNameTaken")


def test_a_broker_that_ends_for_another_reason_is_no_namesake(make_pool):
    broken = refused("demo-1", BACK_OFF)
    broken["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"] = "out of memory"
    assert ready(make_pool(), [pod("demo-0"), broken], **SAME).reason == "BrokersNotReady"


def test_a_name_that_was_free_when_the_broker_came_again_is_history(make_pool):
    broken = refused("demo-1", AGAIN)
    broken["status"]["conditions"][0]["lastTransitionTime"] = (
        "2026-01-01T09:00:00Z"  # it was ready, and is not any more
    )
    assert ready(make_pool(), [pod("demo-0"), broken], **SAME).reason == "BrokersNotReady"


def test_the_engine_says_so_in_these_words():
    sources = (ROOT / "engine" / "readonly_engine").rglob("*.py")
    assert any(f"{readiness.NAME_TAKEN} (uid" in path.read_text(encoding="utf-8") for path in sources)


def hpa(status, reason, message="the HPA was unable to compute the replica count:\nunable to get metric"):
    return {
        "status": {"conditions": [{"type": "ScalingActive", "status": status, "reason": reason, "message": message}]}
    }


def test_an_autoscaler_without_metrics_is_reported():
    (said,) = readiness.not_scaling(hpa("False", "FailedGetPodsMetric"))
    assert said == (
        "the HorizontalPodAutoscaler cannot decide: FailedGetPodsMetric: the HPA was unable to compute the replica count: "
        "unable to get metric"
    )
    (said,) = readiness.not_scaling(hpa("False", "FailedGetPodsMetric", "x" * 5000))
    assert len(said) < 400


@pytest.mark.parametrize(
    "autoscaler", [{}, {"status": {}}, hpa("True", "ValidMetricFound"), hpa("False", "ScalingDisabled")]
)
def test_an_autoscaler_that_decides_or_is_inactive_is_not(autoscaler):
    assert readiness.not_scaling(autoscaler) == []


@pytest.mark.parametrize(
    ("wanted", "live", "said"),
    [
        ({}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, False),
        ({"maxUnavailable": "50%"}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, True),
        ({"maxUnavailable": "50%"}, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}, False),
        ({"maxUnavailable": 2}, {"type": "RollingUpdate"}, True),
        ({"maxUnavailable": 2}, None, False),
    ],
)
def test_maxunavailable_that_kubernetes_ignores_is_a_limitation(make_pool, wanted, live, said):
    pool = make_pool(updateStrategy=wanted)
    found = readiness.not_parallel(pool, {} if live is None else {"spec": {"updateStrategy": live}})
    assert bool(found) == said
    assert all("spec.updateStrategy.maxUnavailable" in one and "MaxUnavailableStatefulSet" in one for one in found)
