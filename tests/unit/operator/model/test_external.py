"""Brokers that clients outside the Kubernetes cluster reach at ports of nodes."""

import pytest
from readonly_engine.config.listeners import Urls
from readonly_engine.config.reader import make_config
from readonly_engine.workers.plan import worker_config
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.model.engine import engine_config

from tests.unit.operator.model.test_children import container, made, spec_of

TLS = {"certificate": {"secretName": "demo-tls"}}
NODES = {"type": "NodePort", "nodePorts": {"first": 30000}}


def node_ports(service):
    return {port["name"]: port.get("nodePort") for port in service["ports"]}


def advertised(pool, ordinal, address="10.1.2.3", node="node-a"):
    """What a broker advertises, with the kubelet's part done here."""
    found = container(pool)
    known = {
        "metadata.name": f"demo-{ordinal}",
        "metadata.namespace": "team",
        "metadata.labels['apps.kubernetes.io/pod-index']": str(ordinal),
        "spec.nodeName": node,
        "status.hostIP": address,
    }
    args = found["args"]
    values = {
        name: args[args.index(f"--{name}") + 1] for name in ("advertised-url", "advertised-listeners", "bind-addresses")
    }
    for variable in found["env"]:
        value = known[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        values = {name: text.replace(f"$({variable['name']})", value) for name, text in values.items()}
    assert "$(" not in str(values), "a variable that the pod does not have"
    workers = {"workers": args[args.index("--workers") + 1]} if "--workers" in args else {}
    tls = {"advertised-tls-url": "pulsar+ssl://a:6651"} if pool.listeners.tls else {}
    return make_config(engine_config(pool), {**values, **workers, **tls, "bindings": "b"})


def test_each_broker_has_node_ports_of_its_own(make_pool):
    pool = make_pool(replicas=2, listeners={"tls": TLS, "external": NODES})
    first, second, ending = (spec_of(made(pool, {7: 1}), "Service", f"demo-broker-{number}") for number in (0, 1, 7))
    assert first["type"] == "NodePort"
    assert node_ports(first) == {"pulsar": 30000, "pulsar-tls": 30001}
    assert node_ports(second) == {"pulsar": 30002, "pulsar-tls": 30003}
    assert node_ports(ending) == {"pulsar": 30014, "pulsar-tls": 30015}
    assert (first["externalTrafficPolicy"], first["publishNotReadyAddresses"]) == ("Local", True)


def test_tls_moves_no_port(make_pool):
    plain = make_pool(listeners={"external": NODES})
    only = make_pool(listeners={"plaintext": "BrokersOnly", "tls": TLS, "external": NODES})
    assert node_ports(spec_of(made(plain), "Service", "demo-broker-1")) == {"pulsar": 30002}
    assert node_ports(spec_of(made(only), "Service", "demo-broker-1")) == {"pulsar-tls": 30003}


@pytest.mark.parametrize(
    ("host", "says"),
    [
        (None, "10.1.2.3"),
        ("{node}.nodes.example.com", "node-a.nodes.example.com"),
        ("{broker}.example.com", "demo-7.example.com"),
    ],
)
def test_a_broker_advertises_its_node_and_the_port_of_its_service(make_pool, host, says):
    external = {**NODES, **({"host": host} if host else {})}
    pool = make_pool(replicas=8, listeners={"tls": TLS, "external": external})
    config = advertised(pool, 7)
    ports = node_ports(spec_of(made(pool), "Service", "demo-broker-7"))
    assert config.advertised_listeners == {
        "external": Urls(f"pulsar://{says}:{ports['pulsar']}", f"pulsar+ssl://{says}:{ports['pulsar-tls']}")
    }
    assert sorted(bind.port for bind in config.bind_addresses) == [6660, 6661]


def test_traffic_may_take_any_node_where_the_name_is_the_brokers(make_pool):
    pool = make_pool(listeners={"external": {**NODES, "host": "{broker}.example.com"}})
    assert "externalTrafficPolicy" not in spec_of(made(pool), "Service", "demo-broker-0")


def test_an_address_of_ipv6_is_an_address(make_pool):
    config = advertised(make_pool(listeners={"external": NODES}), 1, address="2001:db8::7")
    assert config.advertised_listeners["external"].url == "pulsar://[2001:db8::7]:30002"


def test_each_worker_advertises_the_node_port_of_its_service(make_pool):
    pool = make_pool(replicas=3, workers=3, listeners={"external": NODES})
    ports = node_ports(spec_of(made(pool), "Service", "demo-broker-2"))
    config = advertised(pool, 2)
    assert ports["pulsar"] == 30004
    for worker in range(3):
        url = worker_config(config, worker).advertised_listeners["external"].url
        assert url == f"pulsar://10.1.2.3:{ports[f'pulsar-{worker}']}"


def test_ports_of_fifty_brokers_with_workers_are_all_different(make_pool):
    pool = make_pool(replicas=50, workers=16, listeners={"tls": TLS, "external": NODES})
    services = [one for one in made(pool) if one["kind"] == "Service" and "-broker-" in one["metadata"]["name"]]
    ports = [port["nodePort"] for one in services for port in one["spec"]["ports"]]
    assert len(set(ports)) == len(ports) == 50 * 2 * 17


@pytest.mark.parametrize(
    ("external", "says"),
    [
        ({"type": "LoadBalancer"}, r"^spec\.listeners\.external\.host is missing: give the host name of a broker"),
        ({"type": "NodePort"}, r"^spec\.listeners\.external\.nodePorts is missing: give the first node port"),
    ],
)
def test_what_is_missing_is_named(make_pool, external, says):
    with pytest.raises(ApiSpecError, match=says):
        made(make_pool(listeners={"external": external}))
