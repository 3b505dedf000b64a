"""The install manifests: rights and pod security."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from readonly_operator.kinds import CHILDREN, WATCHED

BASE = pathlib.Path(__file__).parents[3] / "manifests" / "base"


def documents(name: str) -> list[dict]:
    return list(yaml.safe_load_all((BASE / name).read_text()))


@pytest.fixture
def rules():
    return next(one for one in documents("rbac.yaml") if one["kind"] == "ClusterRole")["rules"]


def verbs(rules, kind, suffix: str = "") -> set[str]:
    return {
        verb
        for rule in rules
        if kind.group in rule["apiGroups"] and kind.plural + suffix in rule["resources"]
        for verb in rule["verbs"]
    }


def test_nothing_is_granted_wholesale(rules):
    assert "*" not in str(rules)


def test_what_is_watched_may_be_listed_and_watched(rules):
    for kind in WATCHED:
        assert verbs(rules, kind) >= {"get", "list", "watch"}, kind


def test_children_may_be_applied_and_deleted(rules):
    for kind in CHILDREN:
        assert verbs(rules, kind) == {"get", "list", "watch", "create", "patch", "delete"}, kind


def test_secrets_and_user_written_specs_are_out_of_reach(rules):
    named = {resource for rule in rules for resource in rule["resources"]}
    assert "secrets" not in named
    assert verbs(rules, WATCHED[0]) == verbs(rules, WATCHED[1]) == {"get", "list", "watch"}
    assert verbs(rules, WATCHED[0], "/status") == {"patch"}


def test_the_operator_runs_restricted():
    deployment = documents("operator.yaml")[0]
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert deployment["spec"]["strategy"]["type"] == "Recreate"
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert documents("namespace.yaml")[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
