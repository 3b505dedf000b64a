"""Two Pulsars with the same short host names in two namespaces, as two releases of one chart: pools beside them serve both."""

import contextlib

import pytest

from tests.e2e.conftest import _binding, _pool, devstack

pytestmark = pytest.mark.nightly

STAGE = "pulsar-stage"
SHORT = {
    "serviceUrl": "pulsar://pulsar-broker:6650",
    "adminUrl": "http://pulsar-broker:8080",
    "metadataStoreUrl": "zk:pulsar-zookeeper:2181",
}
TOPIC = "persistent://public/default/short-names"
PUBLISH_AND_READ = f"""
import sys, pulsar
owner, pool = (pulsar.Client(f"pulsar://{{host}}:6650") for host in ("pulsar-broker", "127.0.0.1"))
owner.create_producer("{TOPIC}").send(sys.argv[1].encode())
print("read", pool.create_reader("{TOPIC}", pulsar.MessageId.earliest).read_next(60_000).data().decode())
"""


@pytest.fixture
def stage():
    """A second source cluster with a namespace of its own."""
    try:
        devstack("writer", "up", "--namespace", STAGE, "--brokers", "1", timeout=900)
        yield STAGE
    finally:
        devstack("writer", "down", "--namespace", STAGE, timeout=300)


def test_both_are_served(operator, writer, stage):
    with contextlib.ExitStack() as ends:
        for namespace in (writer, stage):
            made = (
                _pool(namespace, "short", source=SHORT, replicas=1),
                _binding(namespace, "short", TOPIC, pool="short"),
            )
            for kind in ("robp", "rotb"):
                ends.callback(operator, "delete", kind, "short", "-n", namespace, "--ignore-not-found", "--wait=false")
            operator.apply(*made)
        instances = set()
        for namespace in (writer, stage):
            operator.expect("robp", "short", namespace, {"Ready": ("True", "BrokersReady")}, timeout=180)
            operator.expect("rotb", "short", namespace, {"Ready": ("True", "Held")}, timeout=60)
            instances.add(operator.get("robp", "short", namespace)["status"]["bookkeeperInstance"])
            command = ("exec", "short-0", "-n", namespace, "--", "python", "-c", PUBLISH_AND_READ, namespace)
            assert f"read {namespace}" in operator(*command).splitlines()
        assert len(instances) == 2
