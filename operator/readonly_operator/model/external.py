"""Addresses of single brokers for clients outside the Kubernetes cluster: arguments, environment and node ports of a broker.

A broker learns its address when its container starts, from the pod alone. It needs neither a Service's status nor the operator,
so it never has to restart for its address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.api.pool.external import BROKER, NODE, External
from readonly_operator.api.pool.node_ports import PORTS_PER_BROKER
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.kube.names import (
    ALL_INTERFACES,
    LISTENER_EXTERNAL,
    PORT_EXTERNAL,
    PORT_EXTERNAL_TLS,
    PORT_PULSAR,
    PORT_PULSAR_TLS,
)

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool

_SCHEMES = {"external": "pulsar", "external-tls": "pulsar+ssl"}
_SERVICE_PORTS = {"external": PORT_PULSAR, "external-tls": PORT_PULSAR_TLS}
_NODE_FIELDS = {
    "POD_ORDINAL": "metadata.labels['apps.kubernetes.io/pod-index']",
    "POD_NODE": "spec.nodeName",
    "POD_NODE_ADDRESS": "status.hostIP",
}
"""Environment with node ports. No variable of podTemplate.env may begin with POD_."""


def client_ports(pool: Pool) -> list[str]:
    """Return the names of the ports that clients may use."""
    plain = ["pulsar"] if pool.listeners.plaintext == "Clients" else []
    return plain + (["pulsar-tls"] if pool.listeners.tls else [])


def external_ports(pool: Pool) -> dict[str, int]:
    """Return the brokers' ports for clients outside the Kubernetes cluster, by name; none without such clients."""
    numbers = {"pulsar": ("external", PORT_EXTERNAL), "pulsar-tls": ("external-tls", PORT_EXTERNAL_TLS)}
    return {} if pool.listeners.external is None else dict(numbers[name] for name in client_ports(pool))


def node_ports(pool: Pool, ordinal: int) -> dict[str, int]:
    """Return the node ports of a broker's Service by name; none unless the spec fixes them."""
    external = pool.listeners.external
    if external is None or not external.by_node_ports or external.node_ports is None:
        return {}
    return {name: external.node_ports.port(ordinal, tls=name == "pulsar-tls") for name in client_ports(pool)}


def external_environment(pool: Pool) -> list[dict[str, Any]]:
    """Return the variables that the arguments of the external listener need besides those of every broker."""
    external = pool.listeners.external
    if external is None or not external.by_node_ports:
        return []
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in _NODE_FIELDS.items()
        if f"$({name})" in str(external_arguments(pool))
    ]


def external_arguments(pool: Pool) -> list[str]:
    """Return the arguments of the external listener: advertised addresses, and the ports that the Services map to them.

    Raises:
        ApiSpecError: the host or the node ports are missing. The API server's rules refuse that too.
    """
    external = pool.listeners.external
    if external is None:
        return []
    host = _host(external)
    advertised, bound = [], []
    for name, number in external_ports(pool).items():
        scheme = f"{LISTENER_EXTERNAL}:{_SCHEMES[name]}://"
        advertised.append(f"{scheme}{host}:{_advertised_port(external, name)}")
        bound.append(f"{scheme}{ALL_INTERFACES}:{number}")
    return ["--advertised-listeners", ",".join(advertised), "--bind-addresses", ",".join(bound)]


def _host(external: External) -> str:
    if external.host:
        return external.host.replace(BROKER, "$(POD_NAME)").replace(NODE, "$(POD_NODE)")
    if external.by_node_ports:
        return "$(POD_NODE_ADDRESS)"
    raise ApiSpecError(
        "spec.listeners.external.host is missing: give the host name of a broker, for example {broker}.pulsar.example.com"
    )


def _advertised_port(external: External, name: str) -> str:
    """Return the port of lookup answers. Arguments cannot add numbers, so the broker does it (FIRST+STEP*ORDINAL)."""
    if not external.by_node_ports:
        return str(_SERVICE_PORTS[name])
    if external.node_ports is None:
        raise ApiSpecError(
            "spec.listeners.external.nodePorts is missing: give the first node port, for example nodePorts: {first: 30000}"
        )
    return f"{external.node_ports.port(0, tls=name == 'external-tls')}+{PORTS_PER_BROKER}*$(POD_ORDINAL)"
