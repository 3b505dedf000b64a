"""What a pool becomes whose brokers have several worker processes."""

import pytest
from readonly_engine.config import settings as engine
from readonly_engine.config.reader import make_config
from readonly_engine.workers.plan import check_ports, worker_config
from readonly_operator.api.pool.spec import MAX_WORKERS
from readonly_operator.kube.workers import PORT_OFFSET, pod_workers, worker_http_ports
from readonly_operator.model.engine import engine_config

from tests.unit.operator.model.test_children import container, made, spec_of

LISTENERS = {
    "tls": {"certificate": {"secretName": "demo-tls"}},
    "external": {"host": "{broker}.example.com"},
}
SPEC = {"listeners": LISTENERS, "networkPolicy": {"monitoring": [{"podSelector": {}}]}}


def numbers(service):
    return {port["name"]: port["port"] for port in service["ports"]}


def test_one_worker_changes_nothing(make_pool):
    assert made(make_pool(**SPEC, workers=1)) == made(make_pool(**SPEC))
    assert made(make_pool(**SPEC), {0: 1, 7: 1})[:5] == made(make_pool(**SPEC))[:5]


def test_the_container_has_the_ports_on_which_the_engine_listens(make_pool):
    pool = make_pool(**SPEC, workers=MAX_WORKERS)
    found = container(pool)
    args = found["args"]
    assert args[args.index("--workers") + 1] == "16"
    config = make_config(
        engine_config(pool),
        {name.lstrip("-"): args[args.index(name) + 1] for name in ("--advertised-listeners", "--bind-addresses")}
        | {
            "workers": "16",
            "bindings": "b",
            "advertised-url": "pulsar://a:6650",
            "advertised-tls-url": "pulsar+ssl://a:6651",
        },
    )
    check_ports(config)
    ports = {port["name"]: port["containerPort"] for port in found["ports"]}
    assert PORT_OFFSET == engine.PORT_OFFSET
    assert max(map(len, ports)) <= 15, "Kubernetes' limit of a port's name"
    assert len(set(ports.values())) == len(ports) == 5 * 17
    for worker in range(MAX_WORKERS):
        own = worker_config(config, worker)
        assert ports[f"pulsar-{worker}"] == own.listen.port
        assert ports[f"pulsar-tls-{worker}"] == own.tls_listen.port
        assert ports[f"http-{worker}"] == own.http.port
        assert [ports[f"external-{worker}"], ports[f"external-tls-{worker}"]] == [
            one.port for one in own.bind_addresses
        ]


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({}, {"cpu": "1", "memory": "1280Mi"}),
        ({"tieredStorage": {"cacheSize": "128Mi"}}, {"cpu": "1", "memory": "1792Mi"}),
        ({"resources": {"requests": {"cpu": 3, "memory": "5Gi"}}}, {"cpu": "3", "memory": "5Gi"}),
    ],
)
def test_each_worker_requests_its_share(make_pool, spec, requests):
    assert container(make_pool(workers=4, **spec))["resources"]["requests"] == requests


def test_ports_of_brokers_that_are_not_replaced_yet_stay(make_pool):
    """Fewer workers: the clients of a broker's last worker are connected until the broker is replaced."""
    pool = make_pool(**SPEC, replicas=2, workers=1)
    objects = made(pool, {0: 1, 1: 3, 5: 2})
    assert "pulsar-0" not in numbers(spec_of(objects, "Service", "demo-broker-0"))
    assert "pulsar-2" in numbers(spec_of(objects, "Service", "demo-broker-1"))
    assert "pulsar-1" in numbers(spec_of(objects, "Service", "demo-broker-5"))
    assert "pulsar-2" in numbers(spec_of(objects, "Service", "demo-headless"))
    assert "http-2" in str(spec_of(objects, "NetworkPolicy"))
    assert spec_of(objects, "StatefulSet") == spec_of(made(pool), "StatefulSet")


def test_a_pod_tells_its_workers_itself(make_pool):
    for workers in (1, 2, MAX_WORKERS):
        pod = {"spec": {"containers": [container(make_pool(workers=workers))]}}
        ports = [8080 + 100 * number for number in range(1, workers + 1)] if workers > 1 else []
        assert (pod_workers(pod), worker_http_ports(pod)) == (workers, ports)
    assert pod_workers({}) == pod_workers({"spec": {"containers": [{"ports": [{"containerPort": 1}]}]}}) == 1
