"""Metadata that all objects of a pool share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.kube.kinds import POOL, Kind, Manifest

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool


def start(kind: Kind, name: str, pool: Pool) -> Manifest:
    """Return a manifest with kind and metadata. Its owner reference makes Kubernetes delete it with the pool."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": pool.key.namespace,
            "labels": pool.key.labels(),
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
