"""A pool that keeps its cursors itself: the owner has guards only, and they go with the binding and the pool."""

from typing import Any

import pytest

from tests.e2e.conftest import SOURCE, WRITER
from tests.e2e.kubernetes import Kubernetes
from tests.e2e.traffic import Traffic, plan

pytestmark = pytest.mark.nightly

OWNERS = ("pulsar-broker-0", "pulsar-broker-1")


def at_owner(kubernetes: Kubernetes, path: str) -> Any:
    """What the admin API of the topic's owner answers; another broker redirects, which kubectl does not follow."""
    for pod in OWNERS:
        try:
            return kubernetes.broker(pod, WRITER, f"/admin/v2/{path}")
        except (LookupError, ValueError) as error:
            last = str(error)
    raise LookupError(last)


def test_cursors_are_the_pools_until_it_is_deleted(
    operator, writer, client_image, namespace, pool, binding, may_finalize, eventually, measured
):
    topics = binding("all", f"persistent://public/default/{namespace}-.*")
    topics["spec"]["onDeletion"] = "Release"
    operator.apply(pool(replicas=2, cursors="Local", cursorPartitions=4, onDeletion="Release"), topics)
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=180)
    operator.expect(
        "rotb",
        "all",
        namespace,
        {"LookupConfigured": ("True", "Held"), "LocalCursors": ("True", "Allowed")},
        timeout=60,
    )
    wanted = {**plan(namespace, SOURCE), "localCursors": True}
    clients = Traffic(operator, namespace, wanted)
    clients.wait_for_more(eventually)
    operator("delete", "pod/demo-0", "-n", namespace, "--timeout=60s")
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)
    clients.wait_for_more(eventually)
    history = clients.finish()
    history.check()
    measured(f"local cursors, one of 2 brokers deleted: {history.summary()}")

    identity = f"{namespace}.demo@{operator.get('robp', 'demo', namespace)['metadata']['uid']}"
    single = f"persistent/public/default/{namespace}-single"
    kept = {name for name in at_owner(operator, f"{single}/subscriptions") if not name.startswith("Reader")}
    guards = {f"pulsar-readonly-guard-{identity}-{number}" for number in range(4)}
    assert kept
    assert kept <= guards, "the owner has cursors of the pool's subscriptions"
    cursors = f"persistent://public/default/__readonly_cursors-{identity}"
    assert cursors in at_owner(operator, "persistent/public/default/partitioned")

    operator("delete", "rotb/all", "-n", namespace, "--timeout=60s")

    def released() -> None:
        assert not guards & set(at_owner(operator, f"{single}/subscriptions"))

    eventually(released, 30)
    operator("delete", "robp/demo", "-n", namespace, "--timeout=120s")
    assert cursors not in at_owner(operator, "persistent/public/default/partitioned")
