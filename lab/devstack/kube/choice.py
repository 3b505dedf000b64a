"""Choice of the Kubernetes for this machine."""

from __future__ import annotations

from devstack.kube.kind import KindCluster, kind_usable
from devstack.kube.layout import default_layout
from devstack.kube.local import LocalCluster

DEFAULT_NAME = "pulsar-readonly"


def choose(name: str = DEFAULT_NAME) -> KindCluster | LocalCluster:
    """Return a cluster of kind if a Docker engine runs here, otherwise one of local nodes."""
    layout = default_layout()
    return KindCluster(layout, name) if kind_usable() else LocalCluster(layout)
