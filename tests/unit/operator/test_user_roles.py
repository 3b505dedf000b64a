"""Rights of people: what Kubernetes' own roles get, and what they do not get."""

import pathlib

import pytest
from readonly_operator.kube.kinds import BINDING, POOL, SOURCE

from tests.support.yaml_documents import load_all_yaml

ROLES = pathlib.Path(__file__).parents[3] / "manifests" / "user-roles" / "roles.yaml"
INCLUDED = {"view": ("view",), "edit": ("view", "edit"), "admin": ("view", "edit", "admin")}
"""Kubernetes' edit includes view, and its admin includes edit, by the same labels."""
READ, WRITE = {"get", "list", "watch"}, {"create", "update", "patch", "delete", "deletecollection"}


@pytest.fixture(scope="module")
def roles() -> dict[str, list[dict]]:
    """Rules by the role of Kubernetes to which they are added."""
    found = {}
    for one in load_all_yaml(ROLES.read_text()):
        labels = one["metadata"]["labels"]
        (target,) = [
            key.rpartition("-")[2] for key in labels if key.startswith("rbac.authorization.k8s.io/aggregate-to-")
        ]
        assert labels[f"rbac.authorization.k8s.io/aggregate-to-{target}"] == "true"
        assert one["metadata"]["name"] == f"pulsar-readonly-{target}"
        found[target] = one["rules"]
    return found


def verbs(roles, person: str, resource: str) -> set[str]:
    rules = [rule for target in INCLUDED[person] for rule in roles[target]]
    assert all(rule["apiGroups"] == [POOL.group] for rule in rules)
    return {verb for rule in rules if resource in rule["resources"] for verb in rule["verbs"]}


def test_everybody_who_views_a_namespace_sees_its_pools_and_bindings(roles):
    for resource in (POOL.plural, BINDING.plural, SOURCE.plural):
        assert verbs(roles, "view", resource) == READ


def test_makers_of_bindings_cannot_make_or_scale_pools(roles):
    assert verbs(roles, "edit", BINDING.plural) == READ | WRITE
    assert verbs(roles, "edit", POOL.plural) == verbs(roles, "edit", SOURCE.plural) == READ
    assert verbs(roles, "edit", f"{POOL.plural}/scale") == {"get"}


def test_admins_make_and_scale_pools(roles):
    for resource in (POOL.plural, BINDING.plural, SOURCE.plural):
        assert verbs(roles, "admin", resource) == READ | WRITE
    assert verbs(roles, "admin", f"{POOL.plural}/scale") == {"get", "update", "patch"}


def test_nobody_writes_what_the_operator_reports_or_its_finalizers(roles):
    """The condition Accepted decides whose claim of a topic is first."""
    for plural in (POOL.plural, BINDING.plural, SOURCE.plural):
        assert verbs(roles, "admin", f"{plural}/status") == {"get"}
        assert verbs(roles, "admin", f"{plural}/finalizers") == set()


def test_nothing_is_granted_wholesale(roles):
    assert "*" not in str(roles)
