"""The manifest that grants what managing explicit LAC takes: that, and nothing else."""

import pathlib

from readonly_operator.cluster.explicit_lac.controller import rights
from readonly_operator.cluster.explicit_lac.requests import SettingLocation
from readonly_operator.kube.kinds import BINDING, POOL

from tests.support.yaml_documents import load_all_yaml

FILE = pathlib.Path(__file__).parents[5] / "manifests" / "explicit-lac" / "rbac.yaml"


def roles() -> dict[str, dict]:
    return {one["kind"]: one for one in load_all_yaml(FILE.read_text())}


def granted(role: dict) -> set[tuple[str, str, str, str]]:
    return {
        (verb, group, resource, name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def test_the_role_grants_what_managing_asks_for():
    location = SettingLocation("pulsar", "pulsar-broker", "pulsar-broker", "key")
    asked = {(right.verb, right.group, right.resource, right.name) for right in rights(location)}
    assert granted(roles()["Role"]) == asked
    assert {right.namespace for right in rights(location)} == {roles()["Role"]["metadata"]["namespace"]}


def test_the_finalizer_needs_a_right_of_its_own():
    assert granted(roles()["ClusterRole"]) == {("patch", kind.group, kind.plural, "") for kind in (POOL, BINDING)}


def test_everything_is_granted_to_the_operator():
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        binding = roles()[kind]
        assert binding["roleRef"]["name"] == roles()[binding["roleRef"]["kind"]]["metadata"]["name"]
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "pulsar-readonly-operator", "namespace": "pulsar-readonly-system"}
        ]
