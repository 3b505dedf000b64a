"""Writes of somebody who has the token of the operator's account, on an API server of its own without nodes.

RBAC allows all of them. The admission policies, which every way of installation includes, refuse them.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.kube.kinds import CERTIFICATE, POD_MONITOR, STATEFUL_SET, Kind, kind_of
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings

from devstack.kube import programs
from longtests.scale.control_plane import control_plane
from tests.e2e.conftest import SYSTEM
from tests.e2e.install import ROOT
from tests.e2e.kubernetes import Kubernetes, eventually
from tests.support.attacks import OBJECT_ATTACKS, POD_ATTACKS, with_value
from tests.unit.operator.model.test_children import EVERYTHING

pytestmark = pytest.mark.nightly

FIRST_PORT = 23790
ACCOUNT = f"--as=system:serviceaccount:{SYSTEM}:pulsar-readonly-operator"
POLICIES = str(ROOT / "manifests" / "admission-policy")
NAMESPACE, EMPTY = "team", "kube-system"
ENFORCED_SECONDS = 60.0
"""Time until the API server applies new policies."""
PROC_MOUNT_SINCE = 33
"""Minor version of Kubernetes since which the gate ProcMountType is on; before, the API server drops the field."""


def definition(kind: Kind) -> dict[str, Any]:
    """A definition of another project's kind, with any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()},
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory) -> Iterator[Kubernetes]:
    """A cluster with the installed manifests; nothing runs in it."""
    with control_plane(tmp_path_factory.mktemp("plane"), FIRST_PORT) as plane:
        made = Kubernetes(str(programs.find("kubectl", programs.KUBE)), str(plane.kubeconfig))
        made("apply", "-k", str(ROOT / "manifests"))
        made.apply(definition(CERTIFICATE), definition(POD_MONITOR))
        made("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        for name in (NAMESPACE, EMPTY):
            if name == NAMESPACE:
                made("create", "namespace", name)
            made("create", "serviceaccount", "default", "-n", name)
        yield made


@pytest.fixture(scope="module")
def objects(kubernetes) -> list[dict[str, Any]]:
    """All objects of a pool that exists, as the operator applies them."""
    tls = {key: one for key, one in EVERYTHING["listeners"]["tls"].items() if key != "certificate"}
    listeners = {**EVERYTHING["listeners"], "tls": {**tls, "issuerRef": {"name": "ca"}}}
    spec = {**EVERYTHING, "listeners": listeners}
    metadata = {"name": "demo", "namespace": NAMESPACE}
    kubernetes.apply(
        {"apiVersion": "pulsar-readonly.io/v1beta1", "kind": "ReadOnlyBrokerPool", "metadata": metadata, "spec": spec}
    )
    pool = Pool.load(kubernetes.get("robp", "demo", NAMESPACE))
    return children(pool, LookupConfig.of([]), Settings(engine_image="x"), {0: 1, 1: 1})


@pytest.fixture(scope="module")
def attacks(kubernetes, objects) -> list[dict[str, Any]]:
    """Each attack as an object to create."""
    own = {kind_of(one): one for one in reversed(objects)}
    made = [with_value(own[kind], path, value) for kind, path, value in OBJECT_ATTACKS]
    pod = ("spec", "template", "spec")
    dropped = {"procMount"} if kubernetes.minor < PROC_MOUNT_SINCE else set()
    return made + [
        with_value(own[STATEFUL_SET], (*pod, *path), value) for path, value in POD_ATTACKS if path[-1] not in dropped
    ]


def create(kubernetes, bodies: list[dict[str, Any]], namespace: str = NAMESPACE) -> tuple[list[str], list[str]]:
    """What the operator's account may create of these, and the refusals. Nothing is stored."""
    items = copy.deepcopy(bodies)
    for one in items:
        one["metadata"]["namespace"] = namespace
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    done = kubernetes.run("create", "-f", "-", "--dry-run=server", ACCOUNT, stdin=text)
    return done.stdout.splitlines(), [line for line in done.stderr.splitlines() if line.startswith("Error")]


def test_the_policies_refuse_what_rbac_allows(kubernetes, objects, attacks):
    def enforced():
        done, refused = create(kubernetes, attacks)
        assert done == []
        return refused

    refused = eventually(enforced, ENFORCED_SECONDS)
    assert len(refused) == len(attacks)
    # Kubernetes validates an object before the policies judge it
    judged = [line for line in refused if "is invalid: " not in line]
    assert len(judged) > len(attacks) * 2 // 3
    assert [line for line in judged if "ValidatingAdmissionPolicy 'pulsar-readonly-operator-" not in line] == []
    assert [line for line in judged if "the operator may " not in line] == []
    kubernetes("delete", "-k", POLICIES)

    def free():
        done, refused = create(kubernetes, attacks)
        assert not [line for line in refused if "ValidatingAdmissionPolicy" in line]
        return done, refused

    try:
        done, refused = eventually(free, ENFORCED_SECONDS)
        # the others are no valid objects
        assert [line for line in refused if "is invalid" not in line and "Forbidden" in line] == []
        assert len(done) > len(attacks) * 2 // 3, refused
    finally:
        kubernetes("apply", "-k", POLICIES)


def test_the_objects_of_a_pool_are_written_and_not_in_namespaces_of_kubernetes(kubernetes, objects):
    def written():
        done, refused = create(kubernetes, objects)
        assert refused == []
        return done

    assert len(eventually(written, ENFORCED_SECONDS)) == len(objects)

    def refused():
        done, refused = create(kubernetes, objects, EMPTY)
        assert done == []
        return refused

    lines = eventually(refused, ENFORCED_SECONDS)
    assert len(lines) == len(objects)
    assert all("the operator may " in line for line in lines), lines


def test_the_account_can_not_patch_pods(kubernetes):
    listed = kubernetes("auth", "can-i", "--list", ACCOUNT, "-n", EMPTY)
    rights = {
        line.split()[0]: line.partition("]")[2] for line in listed.splitlines() if line.startswith(("pods", "secrets"))
    }
    assert rights.keys() == {"pods", "pods/status"}
    assert rights["pods"].split()[-3:] == ["[get", "list", "watch]"]
    assert rights["pods/status"].split()[-1] == "[patch]"
