"""A pool goes to sleep without clients, and a stock client wakes it and gets all messages."""

import json
from pathlib import Path

import pytest

from tests.e2e.kubernetes import client_pod

pytestmark = pytest.mark.nightly

PROGRAM = (Path(__file__).parent / "sleep_program.py").read_text()
WAITS = ("-c", "import time; time.sleep(36000)")
"""Arguments of a pod that waits for commands."""
CYCLES = 3
MESSAGES = 20
ASLEEP = {"Ready": ("True", "Asleep"), "Asleep": ("True", "Asleep"), "Progressing": ("False", "Settled")}
WAITS_S = 300


def pods(kubernetes, namespace):
    found = kubernetes.list("pods", namespace, "pulsar-readonly.io/pool=demo")
    return {one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]}


def test_a_pool_sleeps_and_a_client_that_looks_a_topic_up_wakes_it(
    operator, client_image, writer, namespace, pool, binding, eventually, measured
):
    topic = f"persistent://public/default/sleep-{namespace}"
    spec = pool(replicas=1, scaleToZero={"after": "10s"})
    operator.apply(spec, binding("topic", topic), client_pod(namespace, "client", *WAITS))
    operator(
        "wait", "pod/client", "-n", namespace, "--for=condition=Ready", f"--timeout={WAITS_S}s", timeout=WAITS_S + 20
    )
    urls = (spec["spec"]["source"]["serviceUrl"], f"pulsar://demo.{namespace}.svc.cluster.local:6650")
    for cycle in range(CYCLES):
        operator.expect("robp", "demo", namespace, ASLEEP, timeout=WAITS_S)
        eventually(lambda: pods(operator, namespace) == {"demo-waker-0"} or pytest.fail("brokers run"), WAITS_S)
        operator.expect("rotb", "topic", namespace, {"Ready": ("True", "Asleep")}, timeout=60)
        command = ("exec", "client", "-n", namespace, "--", "python", "-c", PROGRAM, *urls, topic, str(cycle))
        result = json.loads(operator(*command, timeout=WAITS_S).splitlines()[-1])
        assert result["received"] == [f"{cycle}-{number}" for number in range(MESSAGES)]
        measured(
            f"cycle {cycle}: SUBSCRIBE answered after {result['subscribed']:.1f} s, first message after {result['first']:.1f} s"
        )
        operator.expect("robp", "demo", namespace, {"Asleep": ("False", "Awake")}, timeout=60)
