"""Clients outside the Kubernetes cluster reach each broker at ports of its node."""

from __future__ import annotations

import json
import socket

READY = {"Ready": ("True", "BrokersReady")}
NODES = {"type": "NodePort", "nodePorts": {"first": 30000}}


def test_a_broker_is_reached_at_its_node(operator, writer, namespace, pool, eventually):
    operator.apply(pool(replicas=2, listeners={"external": NODES}))
    operator.expect("robp", "demo", namespace, READY, timeout=120)
    for ordinal in (0, 1):
        pod = operator.get("pod", f"demo-{ordinal}", namespace)
        ports = operator.get("service", f"demo-broker-{ordinal}", namespace)["spec"]["ports"]
        assert [port["nodePort"] for port in ports] == [30000 + 2 * ordinal]
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0, "it knew its address at its first start"
        address = (pod["status"]["hostIP"], 30000 + 2 * ordinal)

        def connects(address=address):
            try:
                socket.create_connection(address, 2).close()
            except OSError as error:
                raise AssertionError(str(error)) from None

        eventually(connects, 30)


def test_a_port_that_another_service_has_is_reported(operator, namespace, pool, eventually):
    operator.apply(pool("first", replicas=1, listeners={"external": NODES}))
    eventually(lambda: operator.get("service", "first-broker-0", namespace))
    operator.apply(pool("second", replicas=1, listeners={"external": NODES}))
    said = operator.expect("robp", "second", namespace, {"Ready": ("False", "Refused")}, timeout=60)
    assert "30000" in said["Ready"]


def test_type_and_ports_may_change(operator, namespace, pool, eventually):
    balanced = {"host": "{broker}.example.com"}
    for external, type_ in ((balanced, "LoadBalancer"), (NODES, "NodePort"), (balanced, "LoadBalancer")):
        operator.apply(pool(replicas=1, listeners={"external": external}))

        def changed(type_=type_):
            service = operator.get("service", "demo-broker-0", namespace)["spec"]
            assert service["type"] == type_, json.dumps(service)

        eventually(changed, 30)
