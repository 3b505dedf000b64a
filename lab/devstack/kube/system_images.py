"""The cluster's system images: pause, which holds a pod's namespaces, and CoreDNS."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devstack.cache import content_key
from devstack.common.run import run
from devstack.console import step
from devstack.images.buildah import Buildah
from devstack.kube import programs
from devstack.kube.layout import SOURCE, Layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SOURCES = SOURCE / "images"


@dataclass(frozen=True, slots=True)
class SystemImage:
    """An image in an archive.

    Attributes:
        tag: name of the image, with the content key as its tag.
        archive: path of the archive for containerd.
    """

    tag: str
    archive: Path


def ensure_pause(layout: Layout) -> SystemImage:
    """Make the pause image if necessary, from the C source in the Kubernetes module."""
    version = programs.KUBE.version()
    key = content_key(_SOURCES / "pause", version)

    def compile_into(context: Path) -> None:
        source = programs.module_folder(layout, "k8s.io/kubernetes", version) / "build/pause/linux/pause.c"
        if not source.exists():  # the programs are from a cache without the modules
            run(
                ["go", "mod", "download", "k8s.io/kubernetes"],
                what="fetching the source of pause",
                timeout=900,
                env=programs.go_environment(layout),
                cwd=SOURCE / "src" / "kube",
            )
        flags = ["-Os", "-static", "-s", f"-DVERSION={version}"]
        run(["gcc", *flags, "-o", str(context / "pause"), str(source)], what="compiling pause")

    return _ensure(layout, "pause", key, compile_into)


def ensure_coredns(layout: Layout) -> SystemImage:
    """Make the CoreDNS image if necessary."""
    program = programs.ensure(layout, programs.COREDNS) / "coredns"
    key = content_key(_SOURCES / "coredns", programs.COREDNS.key())
    return _ensure(layout, "coredns", key, lambda context: shutil.copy2(program, context / "coredns"))


def _ensure(layout: Layout, name: str, key: str, fill: Callable[[Path], object]) -> SystemImage:
    image = SystemImage(f"localhost/devstack/{name}:{key}", layout.builds / f"image-{name}-{key}.tar")
    if image.archive.exists():
        return image
    context = layout.builds / f".image-{name}.{os.getpid()}"
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(_SOURCES / name, context)
    try:
        with step(f"making the {name} image"):
            fill(context)
            buildah = Buildah()
            buildah.build(image.tag, context, dockerfile=context / "Dockerfile", layers=False)
            draft = image.archive.with_suffix(".new")
            buildah.save(image.tag, draft)
            draft.replace(image.archive)
    finally:
        shutil.rmtree(context, ignore_errors=True)
    return image
