"""Leftovers of a local Kubernetes, as opposed to mounts of other programs on the machine."""

from pathlib import Path

import pytest

from devstack.kube.layout import Layout
from devstack.kube.leftovers import mounts

LAYOUT = Layout(Path("/cache/kube"))


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (f"41 30 0:5 / {LAYOUT.state}/node1/run rw - tmpfs tmpfs rw", [f"mount {LAYOUT.state}/node1/run"]),
        (f"42 30 8:1 {LAYOUT.state}/node1/var /var/lib/kubelet rw - ext4 /dev/sda1 rw", ["mount /var/lib/kubelet"]),
        ("43 30 0:4 net:[4026532200] /run/netns/cni-3f0e rw - nsfs nsfs rw", ["mount /run/netns/cni-3f0e"]),
        ("44 30 0:4 net:[4026532201] /run/netns/prchaos-hub rw - nsfs nsfs rw", []),
        ("45 30 0:22 / /proc rw - proc proc rw", []),
    ],
)
def test_mounts_of_other_programs_are_not_leftovers(line, left):
    assert list(mounts(LAYOUT, f"{line}\n")) == left
