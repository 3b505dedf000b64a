"""Storage of containers on an overlay file system, as in a container without a volume. Linux mounts no overlay on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devstack.common.run import run

if TYPE_CHECKING:
    from pathlib import Path


def storage_drivers(folder: Path) -> tuple[str, str]:
    """Return buildah's storage driver and containerd's snapshotter for a folder that exists.

    `vfs` and `native` copy all files for each layer and container, where overlays share them.
    """
    kind = run(["stat", "-f", "-c", "%T", str(folder)], what=f"asking for the file system of {folder}").strip()
    return ("vfs", "native") if kind == "overlayfs" else ("overlay", "overlayfs")
