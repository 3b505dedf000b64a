"""Services of a pool give their node ports to each other."""

import pytest
from readonly_operator.kube.port_order import in_port_order, port_blockers
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings

TLS = {"certificate": {"secretName": "demo-tls"}}


@pytest.fixture
def made(make_pool):
    def make(first, replicas=3, existing=(), service=None, **spec):
        external = {"type": "NodePort", "nodePorts": {"first": first}}
        listeners = {"tls": TLS, "external": external, **({"service": service} if service else {})}
        pool = make_pool(replicas=replicas, listeners=listeners, **spec)
        return children(pool, LookupConfig.of([]), Settings(engine_image="engine:1"), dict.fromkeys(existing, 1))

    return make


def ports_of(manifest):
    return [port["nodePort"] for port in manifest["spec"].get("ports", ()) if "nodePort" in port]


def applied(live, desired):
    """Node ports after applying in order, as an API server allocates them; fails for a port that is taken."""
    taken = {one["metadata"]["name"]: ports_of(one) for one in live if one["kind"] == "Service"}
    for one in desired:
        if one["kind"] == "Service":
            name, wanted = one["metadata"]["name"], ports_of(one)
            others = {port: other for other, ports in taken.items() if other != name for port in ports}
            conflicts = [port for port in wanted if port in others]
            assert not conflicts, f"{name}: provided port is already allocated: {conflicts}"
            taken[name] = wanted
    return taken


@pytest.mark.parametrize("first", [29_900, 29_998, 29_999, 30_001, 30_002, 30_004, 30_100])
def test_the_first_port_may_move_by_any_number(made, first):
    live, desired = made(30_000), made(first)
    ordered = in_port_order(desired, live)
    assert applied(live, ordered)["demo-broker-2"] == [first + 4, first + 5]
    assert sorted(map(str, ordered)) == sorted(map(str, desired)), "nothing is lost"


def test_workers_may_take_the_ports_of_brokers_that_move(made):
    live = made(30_000, replicas=49)
    desired = made(29_802, replicas=49, workers=2)
    applied(live, in_port_order(desired, live))


def test_the_pool_and_a_thousand_brokers_may_move(made):
    live = made(30_002, replicas=1000, service={"type": "NodePort", "pulsarNodePort": 30_000})
    desired = made(30_000, replicas=1000, service={"type": "NodePort", "pulsarNodePort": 29_000})
    applied(live, in_port_order(desired, live))
    applied(desired, in_port_order(live, desired))


def test_other_objects_and_services_without_a_conflict_keep_their_places(made):
    live = made(30_000)
    assert in_port_order(live, live) == live
    assert in_port_order(live, []) == live
    moved = in_port_order(made(30_002), live)
    assert [one["kind"] for one in moved] == [one["kind"] for one in live]


def test_a_circle_ends(made):
    live = made(30_002, replicas=1, service={"type": "NodePort", "pulsarNodePort": 30_000})
    desired = made(30_000, replicas=1, service={"type": "NodePort", "pulsarNodePort": 30_002})
    assert len(in_port_order(desired, live)) == len(desired)


def test_a_service_that_is_no_longer_desired_blocks_only_the_ports_that_it_has(made):
    live = made(30_000, replicas=3)
    assert [one["metadata"]["name"] for one in port_blockers(made(30_004, replicas=1), live)] == ["demo-broker-2"]
    assert port_blockers(made(30_100, replicas=1), live) == []
    assert port_blockers(made(30_002, replicas=3), live) == []
