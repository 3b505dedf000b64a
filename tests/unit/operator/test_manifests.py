"""The install manifests: rights, scopes and pod security."""

import pathlib

import pytest
from readonly_operator.command import parser
from readonly_operator.kube.kinds import BINDING, CHILDREN, EVENT, LEASE, NAMESPACE, POOL, SOURCE, WATCHED
from readonly_operator.runtime.health import READY_PATH

from tests.support.yaml_documents import load_all_yaml

MANIFESTS = pathlib.Path(__file__).parents[3] / "manifests"


def documents(name: str) -> list[dict]:
    return list(load_all_yaml((MANIFESTS / name).read_text()))


def rules_of(name: str, kind: str) -> list[dict]:
    return next(one for one in documents(name) if one["kind"] == kind)["rules"]


@pytest.fixture
def rules():
    return rules_of("cluster-wide/rbac.yaml", "ClusterRole")


def verbs(rules, kind, suffix: str = "") -> set[str]:
    return {
        verb
        for rule in rules
        if kind.group in rule["apiGroups"] and kind.plural + suffix in rule["resources"]
        for verb in rule["verbs"]
    }


def test_nothing_is_granted_wholesale(rules):
    assert "*" not in str(rules)
    assert "*" not in str(rules_of("operator/lease.yaml", "Role"))


def test_what_is_watched_may_be_listed_and_watched(rules):
    for kind in WATCHED:
        assert verbs(rules, kind) >= {"get", "list", "watch"}, kind


def test_children_may_be_applied_and_deleted(rules):
    for kind in CHILDREN:
        assert verbs(rules, kind) == {"get", "list", "watch", "create", "patch", "delete"}, kind


def test_secrets_and_user_written_specs_are_out_of_reach(rules):
    named = {resource for rule in rules for resource in rule["resources"]}
    assert "secrets" not in named
    for kind in (POOL, BINDING, SOURCE):
        assert verbs(rules, kind) == {"get", "list", "watch"}
        assert verbs(rules, kind, "/status") == {"patch"}


def test_events_are_written_and_not_read_wholesale(rules):
    assert verbs(rules, EVENT) == {"get", "create", "patch"}


def test_leases_are_the_operators_own_only():
    lease = rules_of("operator/lease.yaml", "Role")
    assert verbs(lease, LEASE) == {"get", "update", "create"}
    assert [rule.get("resourceNames") for rule in lease] == [["pulsar-readonly-operator"], None]


def test_one_namespace_takes_the_same_rights_but_for_what_is_in_no_namespace(rules):
    files = ("namespaced/rbac.yaml", "operator/lease.yaml", "operator/service-account.yaml")
    found = {one["kind"] for name in files for one in documents(name)}
    assert found == {"Role", "RoleBinding", "ServiceAccount"}
    inside = [
        {**rule, "verbs": ["get"]} if rule["resources"] == ["namespaces"] else rule
        for rule in rules
        if rule["resources"] != ["nodes"]
    ]
    assert rules_of("namespaced/rbac.yaml", "Role") == inside


def test_labels_of_namespaces_are_read_and_nothing_of_them_is_written(rules):
    assert verbs(rules, NAMESPACE) == {"get", "list", "watch"}
    assert verbs(rules_of("namespaced/rbac.yaml", "Role"), NAMESPACE) == {"get"}, "a Role cannot grant lists of them"


def test_the_operator_is_probed_and_drained_one_by_one():
    deployment, budget = (documents(f"operator/{name}.yaml")[0] for name in ("deployment", "disruption-budget"))
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    paths = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe", "startupProbe")}
    assert paths == {"livenessProbe": "/healthz", "readinessProbe": READY_PATH, "startupProbe": "/healthz"}
    options = parser().parse_args(container["args"][1:])
    assert (options.liveness, options.metrics) == ("http://*:8081/healthz", "*:8082"), "IPv4, IPv6 or both"
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] < deployment["spec"]["replicas"]


def test_others_reach_only_health_and_metrics_of_the_operator():
    deployment, policy = (documents(f"operator/{name}.yaml")[0]["spec"] for name in ("deployment", "network-policy"))
    ports = {one["name"] for one in deployment["template"]["spec"]["containers"][0]["ports"]}
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == ports
    assert policy["podSelector"] == deployment["selector"]
    assert policy["policyTypes"] == ["Ingress"], "it connects to source clusters anywhere"


def test_the_operator_runs_restricted_and_twice():
    deployment = documents("operator/deployment.yaml")[0]
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert deployment["spec"]["replicas"] == 2
    options = parser().parse_args(container["args"][1:])
    assert options.lease == "$(POD_NAMESPACE)/pulsar-readonly-operator"
    assert options.all_namespaces
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    namespace = documents("cluster-wide/namespace.yaml")[0]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
