"""What whoever runs the operator counts on: pausing, who wins, what tools make of it, and another process taking over."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.kstatus_program import compute

TOPIC = "persistent://public/default/contested"
PAUSED = "pulsar-readonly.io/paused"
LEASE_SECONDS = 4


def kstatus(kubernetes, namespace: str) -> dict[str, str]:
    """What kstatus makes of the pools and bindings of a namespace."""
    return compute(*kubernetes.list("robp,rotb", namespace))


def told(kubernetes, namespace: str, name: str) -> set[str]:
    """Reasons of the events of an object."""
    events = kubernetes.list("events", namespace)
    return {one["reason"] for one in events if one["involvedObject"]["name"] == name}


@pytest.mark.nightly
def test_what_is_paused_is_left_alone(operator, namespace, pool, eventually):
    operator.apply(pool(replicas=0))
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "ScaledToZero"), "Paused": ("False", "NotPaused")})
    assert kstatus(operator, namespace)["ReadOnlyBrokerPool/demo"] == "Current"
    operator("annotate", "robp/demo", "-n", namespace, f"{PAUSED}=true")
    operator.expect("robp", "demo", namespace, {"Paused": ("True", "Paused"), "Ready": ("True", "ScaledToZero")})
    operator("delete", "service/demo", "-n", namespace)
    operator("patch", "robp/demo", "-n", namespace, "--type=merge", "-p", '{"spec":{"cache":{"size":"128Mi"}}}')
    # a pool that is made afterwards shows that the operator has seen all of that
    operator.apply(pool("later", replicas=0))
    operator.expect("robp", "later", namespace, {"Ready": ("True", "ScaledToZero")})
    with pytest.raises(LookupError):
        operator.get("service", "demo", namespace)
    body = operator.get("robp", "demo", namespace)
    assert body["status"]["observedGeneration"] < body["metadata"]["generation"]
    assert kstatus(operator, namespace)["ReadOnlyBrokerPool/demo"] == "InProgress"
    operator("annotate", "robp/demo", "-n", namespace, f"{PAUSED}-")
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "ScaledToZero"), "Paused": ("False", "NotPaused")})
    assert operator.get("service", "demo", namespace)
    assert "128Mi" in operator.get("configmap", "demo-config", namespace)["data"]["engine.yaml"]

    def all_told():
        assert told(operator, namespace, "demo") >= {"Created", "ScaledToZero", "Paused", "Resumed", "Updated"}

    eventually(all_told)


def test_of_two_bindings_that_claim_a_topic_for_different_pools_the_older_wins(
    operator, namespace, pool, binding, eventually
):
    operator.apply(pool(replicas=0), pool("other", replicas=0))
    # by name where both are made in the same second
    operator.apply(binding("a", TOPIC))
    operator.apply(binding("b", "persistent://public/default/cont.*", pool="other"))
    message = operator.expect(
        "rotb", "b", namespace, {"Ready": ("False", "Conflict"), "Stalled": ("True", "Conflict")}
    )["Ready"]
    assert message == (
        f"{TOPIC}: claimed first by ReadOnlyTopicBinding {namespace}/a for ReadOnlyBrokerPool {namespace}/demo "
        "of the same source cluster; remove it from one of the two"
    )
    operator.expect("rotb", "a", namespace, {"Ready": ("False", "NoBrokers"), "TopicConflict": ("True", "Prevails")})
    assert "cont" not in operator.get("configmap", "other-bindings", namespace)["data"]["bindings.yaml"]
    assert kstatus(operator, namespace) == {
        "ReadOnlyBrokerPool/demo": "Current",
        "ReadOnlyBrokerPool/other": "Current",
        "ReadOnlyTopicBinding/a": "InProgress",
        "ReadOnlyTopicBinding/b": "Failed",
    }

    def refusal_told():
        assert "Conflict" in told(operator, namespace, "b")

    eventually(refusal_told)
    operator("delete", "rotb/a", "-n", namespace)
    operator.expect("rotb", "b", namespace, {"Ready": ("False", "NoBrokers")})
    status = operator.get("rotb", "b", namespace)["status"]
    assert "Stalled" not in {one["type"] for one in status["conditions"]}
    assert "cont" in operator.get("configmap", "other-bindings", namespace)["data"]["bindings.yaml"]


@pytest.fixture
def process(kubernetes, namespace, tmp_path):
    """Starts operators on this machine that share a Lease, for an empty namespace."""
    started = []

    def start(name: str) -> subprocess.Popen[bytes]:
        arguments = ["--log-format=json", f"--namespace={namespace}", f"--lease={namespace}/operator"]
        with (tmp_path / f"{name}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "readonly_engine.command", "operator", *arguments],
                    env={
                        **os.environ,
                        "KUBECONFIG": kubernetes.kubeconfig,
                        "POD_NAME": name,
                        "PULSAR_READONLY_LEASE_SECONDS": str(LEASE_SECONDS),
                    },
                    stdout=log,
                    stderr=log,
                )
            )
        return started[-1]

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            one.kill()
        one.wait(timeout=30)
    for path in tmp_path.glob("*.log"):
        for line in path.read_text().splitlines():
            found = json.loads(line)
            assert {"time", "level", "logger", "message"} <= found.keys(), line
            assert found["level"] in {"debug", "info", "warning", "error"}, line


@pytest.mark.nightly
def test_another_process_takes_over(kubernetes, namespace, process, tmp_path, eventually, measured):
    def held_by(name: str):
        def check():
            spec = kubernetes.get("lease", "operator", namespace)["spec"]
            assert spec.get("holderIdentity", "").startswith(f"{name}_"), spec

        return check

    first = process("first")
    eventually(held_by("first"), 60)
    second = process("second")

    def waits():
        assert "waiting for the lease" in (tmp_path / "second.log").read_text()

    eventually(waits, 60)
    first.kill()
    began = time.monotonic()
    eventually(held_by("second"), 60)
    measured(f"a Lease of {LEASE_SECONDS} s is taken over {time.monotonic() - began:.1f} s after kill -9")
    third = process("third")
    second.send_signal(signal.SIGTERM)
    eventually(held_by("third"), 60)
    assert second.wait(timeout=60) == 0
    # who cannot renew in time ends before another may act
    third.send_signal(signal.SIGSTOP)
    fourth = process("fourth")
    eventually(held_by("fourth"), 60)
    third.send_signal(signal.SIGCONT)
    assert third.wait(timeout=60) == 3
    assert fourth.poll() is None
