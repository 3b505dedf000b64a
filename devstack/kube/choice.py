"""Which Kubernetes this machine can have."""

from __future__ import annotations

from devstack.kube.kind import KindCluster, kind_usable
from devstack.kube.layout import default_layout
from devstack.kube.local import LocalCluster

DEFAULT_NAME = "pulsar-readonly"


def choose(name: str = DEFAULT_NAME) -> KindCluster | LocalCluster:
    """The cluster that this machine can have."""
    layout = default_layout()
    return KindCluster(layout, name) if kind_usable() else LocalCluster(layout)
