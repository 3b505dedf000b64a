"""docs/explanation/threat-model.md: every option with a secret is in its table, and what it says of pods and rights is so."""

import copy
import re
from typing import Any

import pytest
from readonly_engine.config.arguments import parser
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool
from readonly_operator.kube.kinds import STATEFUL_SET
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings

from docsite.__main__ import DOCS
from tests.support.admission import Policies, Request
from tests.support.yaml_documents import load_all_yaml

ROOT = DOCS.parent
TEXT = (DOCS / "explanation" / "threat-model.md").read_text(encoding="utf-8")
RIGHTS = (DOCS / "how-to" / "rights.md").read_text(encoding="utf-8")
NO_SECRETS = {"config", "bindings", "locality-file"}
"""Options with a file that has no credential; files of authorities are public too."""
POD = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
VOLUMES = {
    "configMap": {"name": "of-others"},
    "secret": {"secretName": "of-others"},
    "emptyDir": {},
    "persistentVolumeClaim": {"claimName": "of-others"},
    "downwardAPI": {"items": []},
    "hostPath": {"path": "/"},
    "projected": {"sources": [{"secret": {"name": "of-others"}}]},
    "csi": {"driver": "driver.example.org", "readOnly": True},
    "ephemeral": {"volumeClaimTemplate": {}},
    "image": {"reference": "images.example.org/files:1"},
    "nfs": {"server": "files.example.org", "path": "/"},
}
"""A volume of each kind; the policies refuse those that the page does not have. Tokens and writable ones are in attacks.py."""


def files() -> set[str]:
    """The options of a broker whose value is a file, and those with credentials in a mapping."""
    found = set()
    for action in parser()._actions:
        name = action.option_strings[-1].removeprefix("--")
        if str(action.metavar) == "FILE" or name in {"admin-oauth2", "tiered-storage"}:
            found.add(name)
    return {name for name in found - NO_SECRETS if not name.endswith("trust-certificates")}


def section(heading: str) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert found, heading
    return found[1]


def test_every_option_with_a_credential_is_in_the_table():
    told = {name for row in section("Credentials").splitlines() for name in re.findall(r"`([\w-]+)`", row)}
    assert len(files()) > 10
    assert {name for name in files() if name != "tls-certificate"} - told == set()


def stateful_set() -> dict[str, Any]:
    """The StatefulSet of a pool, as the operator makes it."""
    body = {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlyBrokerPool",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "source": {"serviceUrl": "pulsar://b:6650", "adminUrl": "http://b:8080", "metadataStoreUrl": "zk:z:2181"},
            "image": "images.example.org/engine:1",
        },
    }
    made = children(Pool.load(body), LookupConfig.of(list[Binding]()), Settings())
    return copy.deepcopy(next(one for one in made if one["kind"] == "StatefulSet"))


def test_pods_are_as_the_page_says():
    pod = stateful_set()["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {name: pod["containers"][0]["securityContext"][name] for name in POD} == POD


def test_the_operator_has_the_rights_of_the_page_and_no_more():
    bodies = load_all_yaml((ROOT / "manifests" / "cluster-wide" / "rbac.yaml").read_text(encoding="utf-8"))
    rules = [rule for body in bodies if body["kind"] == "ClusterRole" for rule in body["rules"]]
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert not resources & {"secrets", "roles", "rolebindings", "clusterroles", "clusterrolebindings"}
    (nodes,) = [rule for rule in rules if "nodes" in rule["resources"]]
    assert nodes["verbs"] == ["get"]
    writes = {verb for rule in rules if "readonlybrokerpools" in rule["resources"] for verb in rule["verbs"]}
    assert writes == {"get", "list", "watch"}


@pytest.mark.parametrize(("kind", "source"), VOLUMES.items())
def test_policies_allow_the_kinds_of_volumes_of_the_page(kind, source):
    """Of any name, so a Secret of others too: the threat model says so."""
    assert "not which Secrets they mount" in section("Operator taken over")
    (row,) = [line for line in RIGHTS.splitlines() if line.startswith("| `brokers` |")]
    told = set(re.findall(r"`(\w+)`", row.partition("Volumes are ")[2]))
    assert told <= set(VOLUMES)
    body = stateful_set()
    body["spec"]["template"]["spec"].setdefault("volumes", []).append({"name": "more", kind: source})
    refused = Policies(ROOT / "manifests" / "admission-policy").refusals(Request(STATEFUL_SET, "CREATE", body))
    assert (refused == []) is (kind in told), refused
