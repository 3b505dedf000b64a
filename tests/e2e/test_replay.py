"""A pool with spec.replay gives a stock client past messages, beside a pool that serves the same topic as it is."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.kubernetes import client_pod
from tests.e2e.test_sleep import WAITS, WAITS_S

pytestmark = pytest.mark.nightly

PROGRAM = (Path(__file__).parent / "replay_program.py").read_text()
MESSAGES = 40
READY = {"Ready": ("True", "BrokersReady")}


def iso(ms):
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_a_pool_replays_a_recorded_topic_in_order(operator, client_image, writer, namespace, pool, binding, measured):
    topic = f"persistent://public/default/replay-{namespace}"
    present = pool("present", replicas=1)
    operator.apply(client_pod(namespace, "client", *WAITS), present, binding("present", topic, pool="present"))
    operator(
        "wait", "pod/client", "-n", namespace, "--for=condition=Ready", f"--timeout={WAITS_S}s", timeout=WAITS_S + 20
    )

    def client(url, what, count):
        command = ("exec", "client", "-n", namespace, "--", "python", "-c", PROGRAM, url, topic, what, str(count))
        return json.loads(operator(*command, timeout=WAITS_S).splitlines()[-1])

    def replay(*words):
        command = ("exec", "demo-0", "-n", namespace, "--", "pulsar-readonly", "replay", *words)
        uid = operator.get("robp", "demo", namespace)["metadata"]["uid"]
        own = ("--config=/etc/pulsar-readonly/engine.yaml", f"--pool={namespace}.demo", f"--pool-uid={uid}")
        return operator(*command, *own)

    times = client(present["spec"]["source"]["serviceUrl"], "publish", MESSAGES)
    wanted = MESSAGES - 10
    window = {"from": iso(times[0]), "to": iso(times[wanted - 1]), "speed": "0.01"}
    operator.apply(pool(replicas=2, replay=window), binding("past", topic))
    operator.expect("robp", "demo", namespace, READY, timeout=WAITS_S)
    for name in ("past", "present"):
        operator.expect("rotb", name, namespace, {"LookupConfigured": ("True", "Held")}, timeout=60)
    url = f"pulsar://demo.{namespace}.svc.cluster.local:6650"
    assert " speed 0.01 running" in replay("show")
    assert " running round 1" in replay("seek", iso(times[0]))
    assert " speed 1 running" in replay("speed", "1")
    received = client(url, "receive", wanted)
    assert [number for number, _ in received] == list(range(wanted))
    assert " ended round 1" in replay("show")
    measured(f"{wanted} messages replayed in {received[-1][1] - received[0][1]:.2f} s")
