"""What an operator needs before its start: definitions, namespaces, and rights."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from longtests.scale.control_plane import OPERATOR, ScaleError
from longtests.scale.objects import POOLS
from tests.support.yaml_documents import load_all_yaml, load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from longtests.scale.control_plane import Client


def install(client: Client, namespaces: Iterable[str], source: Path) -> None:
    """Create definitions, namespaces and the operator's rights of manifests/ of a checkout.

    Raises:
        ScaleError: the API server does not serve the definitions in time.
    """
    for path in sorted((source / "crds").glob("*.yaml")):
        body = load_yaml(path.read_text())
        if body["kind"] != "CustomResourceDefinition":
            continue
        client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    client.create(("/api/v1/namespaces", {"metadata": {"name": name}}) for name in namespaces)
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for path in sorted((source / "manifests").rglob("*.yaml")):
        for body in load_all_yaml(path.read_text()):
            if body["kind"] == "ClusterRole":
                client.request("POST", f"{rbac}/clusterroles", body)
                client.request("POST", f"{rbac}/clusterrolebindings", _binding(body["metadata"]["name"]))
    deadline = time.monotonic() + 30
    while True:
        try:
            client.list(POOLS)
        except ScaleError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _binding(role: str) -> dict[str, object]:
    return {
        "metadata": {"name": f"scale-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR}],
    }
