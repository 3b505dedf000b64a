"""Clients outside the Kubernetes cluster reach each broker at ports of its node."""

import json
import socket

import pytest

pytestmark = pytest.mark.nightly

READY = {"Ready": ("True", "BrokersReady")}


def by_node(first: int) -> dict:
    """External addresses from a first port. Each test has its own: ports belong to the Kubernetes cluster, not to a namespace."""
    return {"type": "NodePort", "nodePorts": {"first": first}}


def ports_of(operator, namespace, ordinal) -> list[int]:
    return [one["nodePort"] for one in operator.get("service", f"demo-broker-{ordinal}", namespace)["spec"]["ports"]]


def test_a_broker_is_reached_at_its_node(operator, writer, namespace, pool, eventually):
    operator.apply(pool(replicas=2, listeners={"external": by_node(30000)}))
    operator.expect("robp", "demo", namespace, READY, timeout=120)
    for ordinal in (0, 1):
        pod = operator.get("pod", f"demo-{ordinal}", namespace)
        assert ports_of(operator, namespace, ordinal) == [30000 + 2 * ordinal]
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0, "it knew its address at its first start"
        address = (pod["status"]["hostIP"], 30000 + 2 * ordinal)

        def connects(address=address):
            try:
                socket.create_connection(address, 2).close()
            except OSError as error:
                raise AssertionError(str(error)) from None

        eventually(connects, 30)


def test_a_port_that_another_service_has_is_reported(operator, namespace, pool, eventually):
    external = by_node(30010)
    operator.apply(pool("first", replicas=1, listeners={"external": external}))
    eventually(lambda: operator.get("service", "first-broker-0", namespace))
    operator.apply(pool("second", replicas=1, listeners={"external": external}))
    said = operator.expect("robp", "second", namespace, {"Ready": ("False", "Refused")}, timeout=60)
    assert "30010" in said["Ready"]
    operator("delete", "robp", "first", "-n", namespace)
    # a quota or a port that is free again causes no event: the operator tries again
    eventually(lambda: operator.get("service", "second-broker-0", namespace), 120)


def test_ports_may_move_by_less_than_their_number(operator, namespace, pool, eventually):
    for first in (30020, 30022, 30021):
        operator.apply(pool(replicas=3, listeners={"external": by_node(first)}))

        def moved(first=first):
            found = [ports_of(operator, namespace, ordinal) for ordinal in range(3)]
            assert found == [[first], [first + 2], [first + 4]]

        eventually(moved, 60)


def test_type_and_ports_may_change(operator, namespace, pool, eventually):
    balanced = {"host": "{broker}.example.com"}
    for external, type_ in ((balanced, "LoadBalancer"), (by_node(30030), "NodePort"), (balanced, "LoadBalancer")):
        operator.apply(pool(replicas=1, listeners={"external": external}))

        def changed(type_=type_):
            service = operator.get("service", "demo-broker-0", namespace)["spec"]
            assert service["type"] == type_, json.dumps(service)

        eventually(changed, 30)


def test_brokers_that_end_do_not_keep_the_others_from_their_ports(operator, namespace, pool, eventually):
    operator.apply(pool(replicas=2, listeners={"external": by_node(30040)}))
    eventually(lambda: ports_of(operator, namespace, 1))
    # the range ends at 32767: the broker that ends would have no port there
    operator.apply(pool(replicas=1, listeners={"external": by_node(32766)}))

    def moved():
        assert ports_of(operator, namespace, 0) == [32766]
        assert operator.get("statefulset", "demo", namespace)["spec"]["replicas"] == 1
        assert len(operator.list("service", namespace, "pulsar-readonly.io/pool=demo")) == 3

    eventually(moved, 120)
