"""The waker of a pool: its objects, and what it must not have."""

from dataclasses import replace

import pytest
from readonly_engine.config.option import read_options
from readonly_engine.wake.command import parser
from readonly_engine.wake.settings import WakeConfig
from readonly_operator.api.pool.sleeping import IdleTime, Phase
from readonly_operator.model.children import children
from readonly_operator.model.hold import held
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings

from tests.unit.operator.model.test_children import EVERYTHING, find

SETTINGS = Settings(engine_image="engine")
PLAIN = {"replicas": 2, "scaleToZero": {}}


def made(pool, phase, brokers=None):
    return children(replace(pool, phase=phase), LookupConfig.of([]), SETTINGS, brokers)


def pod_of(found):
    return find(found, "StatefulSet", "demo-waker")["spec"]["template"]["spec"]


@pytest.mark.parametrize("spec", [PLAIN, EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("phase", list(Phase))
def test_each_phase_has_its_objects(make_pool, spec, phase):
    pool = make_pool(**spec)
    found, awake = made(pool, phase), made(pool, Phase.AWAKE)
    names = [one["metadata"]["name"] for one in found]
    assert ("demo-waker" in names) is phase.has_waker
    assert find(found, "StatefulSet")["spec"]["replicas"] == (0 if phase is Phase.ASLEEP else pool.replicas)
    name = find(found, "Service")["spec"]["selector"]["app.kubernetes.io/name"]
    assert name == f"pulsar-readonly-{'waker' if phase.leads_to_waker else 'broker'}"
    changed = [
        (one["kind"], one["metadata"]["name"])
        for one in awake
        if one["kind"] not in {"HorizontalPodAutoscaler", "StatefulSet"} and one not in found
    ]
    # load balancers and certificates of single brokers stay, for they take minutes to come back
    assert changed == ([("Service", "demo")] if phase.leads_to_waker else [])


@pytest.mark.parametrize("spec", [PLAIN, EVERYTHING], ids=["plain", "everything"])
def test_a_waker_has_nothing_that_a_stranger_could_take(make_pool, spec):
    found = made(make_pool(**spec), Phase.ASLEEP)
    pod, account = pod_of(found), find(found, "ServiceAccount", "demo-waker")
    assert pod["automountServiceAccountToken"] is account["automountServiceAccountToken"] is False
    assert account["metadata"].get("annotations", {}) == {}, "no identity of a cloud"
    (container,) = pod["containers"]
    assert "env" not in container
    secrets = {one["secret"]["secretName"] for one in pod.get("volumes", ())}
    assert secrets == ({"demo-tls", "clients"} if spec is EVERYTHING else set())
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        (PLAIN, {"pulsar": 6650}),
        (EVERYTHING, {"pulsar-tls": 6651, "external-tls": 6661}),
        (
            {**PLAIN, "listeners": {"tls": {"certificate": {"secretName": "x"}}}},
            {"pulsar": 6650, "pulsar-tls": 6651},
        ),
    ],
)
def test_a_waker_listens_where_the_service_leads(make_pool, spec, ports):
    found = made(make_pool(**spec), Phase.ASLEEP)
    (container,) = pod_of(found)["containers"]
    named = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert named == {**ports, "ready": 8080}
    targets = {one["targetPort"] for one in find(found, "Service")["spec"]["ports"]}
    assert targets & set(ports)
    assert targets - {"http"} <= set(ports)
    assert container["args"][0] == "wake"
    flags = {name.replace("_", "-"): one for name, one in vars(parser().parse_args(container["args"][1:])).items()}
    config = WakeConfig(**read_options(WakeConfig, flags))
    assert {one.port for one in (*config.listen, *config.tls_listen)} == set(ports.values())
    assert {one.port for one in config.tls_listen} == {one for name, one in ports.items() if name.endswith("tls")}


def test_a_network_policy_lets_clients_in_and_nothing_out(make_pool):
    found = made(make_pool(**EVERYTHING), Phase.ASLEEP)
    policy, brokers = find(found, "NetworkPolicy", "demo-waker")["spec"], find(found, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"] == find(found, "Service")["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    (rule,) = policy["ingress"]
    assert rule["from"] == brokers["ingress"][0]["from"]
    assert [one["port"] for one in rule["ports"]] == ["pulsar-tls", "external-tls"]


def test_no_object_of_the_brokers_selects_the_waker(make_pool):
    found = made(make_pool(**EVERYTHING), Phase.FALLING_ASLEEP)
    labels = find(found, "StatefulSet", "demo-waker")["spec"]["template"]["metadata"]["labels"]
    for one in found:
        selector = one.get("spec", {}).get("selector", one.get("spec", {}).get("podSelector"))
        if selector is not None and one["metadata"]["name"] != "demo-waker":
            wanted = selector.get("matchLabels", selector)
            assert not wanted.items() <= labels.items(), one["metadata"]["name"]


def test_a_pool_that_holds_its_brokers_does_not_hold_its_waker(make_pool):
    pool = make_pool(**PLAIN, updateStrategy={"hold": True})
    found = made(pool, Phase.ASLEEP)
    kept = held(found, pool, None)
    assert find(kept, "StatefulSet", "demo-waker") == find(found, "StatefulSet", "demo-waker")
    assert find(kept, "StatefulSet") != find(found, "StatefulSet")


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("9999s", 9999), ("1m", 60), ("10m", 600), ("99h", 356400)])
def test_idle_times_are_seconds_minutes_or_hours(text, seconds):
    assert IdleTime().parse(text, "spec.scaleToZero.after") == seconds
