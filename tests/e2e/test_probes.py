"""Timings of probes and the pause of a rollout, as the API server stores them."""

from __future__ import annotations

from time import monotonic

READY = {"Ready": ("True", "BrokersReady"), "Progressing": ("False", "Settled")}


def test_timings_reach_the_pods(operator, namespace, pool):
    operator.apply(pool(replicas=0, probes={"startup": {"failureThreshold": 120}, "liveness": {"timeoutSeconds": 5}}))
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "ScaledToZero")}, timeout=60)
    container = operator.get("statefulset", "demo", namespace)["spec"]["template"]["spec"]["containers"][0]
    assert container["startupProbe"]["failureThreshold"] == 120
    assert (container["livenessProbe"]["timeoutSeconds"], container["readinessProbe"]["periodSeconds"]) == (5, 2)


def test_a_rollout_pauses_after_each_broker(operator, writer, namespace, pool):
    pause = {"minReadySeconds": 20}
    operator.apply(pool(replicas=2, updateStrategy=pause))
    operator.expect("robp", "demo", namespace, READY, timeout=180)
    began = monotonic()
    operator.apply(pool(replicas=2, updateStrategy=pause, logLevel="debug"))
    operator.expect("robp", "demo", namespace, {"Progressing": ("True", "RollingOut")}, timeout=60)
    operator.expect("robp", "demo", namespace, READY, timeout=240)
    assert monotonic() - began >= 40, "two brokers, each ready for 20 s"
    operator.apply(pool(replicas=2, logLevel="debug"))
    operator.expect("robp", "demo", namespace, READY, timeout=60)
    assert not operator.get("statefulset", "demo", namespace)["spec"].get("minReadySeconds")
