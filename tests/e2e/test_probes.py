"""The pause of a rollout after each broker."""

from datetime import datetime, timedelta

import pytest

pytestmark = pytest.mark.nightly

READY = {"Ready": ("True", "BrokersReady"), "Progressing": ("False", "Settled")}


def became_ready(pod) -> datetime:
    """When a pod became ready, to the second."""
    (condition,) = (one for one in pod["status"]["conditions"] if one["type"] == "Ready" and one["status"] == "True")
    return datetime.fromisoformat(condition["lastTransitionTime"])


def test_a_rollout_pauses_after_each_broker(operator, writer, namespace, pool):
    if operator.minor < 36:
        pytest.skip("this Kubernetes does not pause: its fault 119234, with podManagementPolicy Parallel")
    pause = {"minReadySeconds": 20}
    operator.apply(pool(replicas=2, updateStrategy=pause))
    operator.expect("robp", "demo", namespace, READY, timeout=180)
    before = {name: operator.get("pod", name, namespace)["metadata"]["uid"] for name in ("demo-0", "demo-1")}
    operator.apply(pool(replicas=2, updateStrategy=pause, logLevel="debug"))
    operator.expect("robp", "demo", namespace, {"Progressing": ("True", "RollingOut")}, timeout=60)
    operator.expect("robp", "demo", namespace, READY, timeout=240)
    last, first = (operator.get("pod", name, namespace) for name in before)
    assert not {last["metadata"]["uid"], first["metadata"]["uid"]} & set(before.values()), "both were replaced"
    made = datetime.fromisoformat(last["metadata"]["creationTimestamp"])
    # both times are cut to whole seconds
    assert made - became_ready(first) >= timedelta(seconds=pause["minReadySeconds"] - 1)
    operator.apply(pool(replicas=2, logLevel="debug"))
    operator.expect("robp", "demo", namespace, READY, timeout=60)
    assert not operator.get("statefulset", "demo", namespace)["spec"].get("minReadySeconds")
