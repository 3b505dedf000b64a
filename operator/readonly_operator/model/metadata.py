"""Metadata that all objects of a pool share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.kube.kinds import POOL, Kind, Manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.api.pool import Pool


def start(kind: Kind, name: str, pool: Pool) -> Manifest:
    """Return a manifest with kind and metadata. Its owner reference makes Kubernetes delete it with the pool.

    Its labels and annotations are those that all objects of the pool inherit, and the operator's labels.
    """
    inherited = pool.inherited_metadata
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": pool.key.namespace,
            "labels": {**inherited.labels, **pool.key.labels()},
            **({"annotations": dict(inherited.annotations)} if inherited.annotations else {}),
            "ownerReferences": [
                {
                    "apiVersion": POOL.api_version,
                    "kind": POOL.kind,
                    "name": pool.key.name,
                    "uid": pool.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
    }


def add(manifest: Manifest, pool: Pool, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
    """Add labels and annotations to a manifest: they replace inherited ones, and no label of the operator."""
    metadata = manifest["metadata"]
    metadata["labels"] = {**metadata["labels"], **labels, **pool.key.labels()}
    if annotations:
        metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}
