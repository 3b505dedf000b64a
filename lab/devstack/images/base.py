"""The base image where there is no Docker: a Debian with Python, made from packages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from devstack.cache import content_key
from devstack.common.run import run
from devstack.console import step

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.images.buildah import Buildah

DOCKER_BASE = "python:3.11-slim-bookworm"
_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "python3-minimal", "python3-pip", "python3-venv")
# Manuals and translations are most of what a package brings that a container never reads.
_LEAVE_OUT = "--dpkgopt=path-exclude=/usr/share/{doc,man,locale,info}/*"
_DEADLINE = 900.0


def base_key() -> str:
    """Return a key that changes with the inputs of the base."""
    return content_key(_SUITE, *_PACKAGES, _LEAVE_OUT)


def ensure_base(buildah: Buildah) -> str:
    """Make the base image unless it is there; returns its name."""
    tag = f"localhost/devstack/base:{base_key()}"
    if tag in buildah.images():
        return tag
    with step("making the base image: Debian with Python"):
        buildah.root.mkdir(parents=True, exist_ok=True)
        archive = buildah.root / f".base.{os.getpid()}.tar"
        try:
            _make_root_file_system(archive)
            buildah.import_root(tag, archive, command="python3")
        finally:
            archive.unlink(missing_ok=True)
    return tag


def _make_root_file_system(archive: Path) -> None:
    archive.unlink(missing_ok=True)
    include = f"--include={','.join(_PACKAGES)}"
    run(
        ["mmdebstrap", "--quiet", "--variant=apt", include, _LEAVE_OUT, _SUITE, str(archive)],
        what="making a Debian root file system",
        timeout=_DEADLINE,
    )
