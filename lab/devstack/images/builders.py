"""Docker and buildah behind one face: build, find, hand over to the Kubernetes."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Protocol

from devstack.cache import cache_root
from devstack.common.locks import file_lock
from devstack.common.run import run
from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.images.base import DOCKER_BASE, ensure_base
from devstack.images.buildah import Buildah
from devstack.kube.choice import choose
from devstack.kube.kind import KindCluster, docker_runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from devstack.images.targets import Target

_BUILD_DEADLINE = 1800.0


class Builder(Protocol):
    """A tool that builds and stores images."""

    name: str

    def base(self) -> str:
        """The base image, made if need be."""

    def build(self, target: Target, image: str, base: str) -> None:
        """Build one image."""

    def images(self) -> dict[str, str]:
        """Names and ids of the images it has."""

    def save(self, image: str, archive: Path) -> None:
        """Write an image as an archive."""


class BuildahBuilder:
    """buildah, where no Docker engine runs."""

    name = "buildah"

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise DevstackError("image: building without a Docker engine needs root", "run it as root (sudo)")
        for program in ("buildah", "mmdebstrap", "unshare"):
            if shutil.which(program) is None:
                raise DevstackError(
                    f"image: no Docker engine runs here, and the program {program} is missing",
                    f"start Docker, or: make system (apt-get install {program})",
                )
        self._buildah = Buildah()

    def base(self) -> str:
        """The base image, made if need be."""
        return ensure_base(self._buildah)

    def build(self, target: Target, image: str, base: str) -> None:
        """Build one image."""
        with target.context() as context:
            self._buildah.build(
                image, context, dockerfile=target.dockerfile, target=target.stage, arguments={"BASE": base}
            )

    def images(self) -> dict[str, str]:
        """Names and ids of the images it has."""
        return self._buildah.images()

    def save(self, image: str, archive: Path) -> None:
        """Write an image as an archive."""
        self._buildah.save(image, archive)


class DockerBuilder:
    """Docker."""

    name = "docker"

    def base(self) -> str:
        """The base image; Docker fetches it."""
        return DOCKER_BASE

    def build(self, target: Target, image: str, base: str) -> None:
        """Build one image."""
        with target.context() as context:
            stage = ["--target", target.stage] if target.stage else []
            options = ["-q", "-t", image, "-f", str(target.dockerfile), "--build-arg", f"BASE={base}", *stage]
            run(
                ["docker", "build", *options, str(context)], what=f"building the image {image}", timeout=_BUILD_DEADLINE
            )

    def images(self) -> dict[str, str]:
        """Names and ids of the images it has."""
        listed = run(
            ["docker", "image", "ls", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}"],
            what="listing images",
        )
        return dict(line.split(" ", 1) for line in listed.splitlines())

    def save(self, image: str, archive: Path) -> None:
        """Write an image as an archive."""
        run(["docker", "save", "-o", str(archive), image], what=f"saving {image}", timeout=_BUILD_DEADLINE)


def builder() -> Builder:
    """The builder that this machine has.

    Raises:
        DevstackError: neither can be used; names what is missing.
    """
    return DockerBuilder() if docker_runs() else BuildahBuilder()


def build(targets: list[Target], tag: str | None = None) -> list[str]:
    """Build those images whose inputs have changed; returns the names of all."""
    maker = builder()
    names = []
    with file_lock(_folder() / "lock", "image build"):
        base = maker.base()
        for target in targets:
            image = target.image(tag)
            names.append(image)
            key = target.key(f"{maker.name} {base}")
            identity = maker.images().get(image)
            if identity is not None and _recorded(image) == {"key": key, "id": identity}:
                say(f"{image}: unchanged")
                continue
            with step(f"building {image} with {maker.name}"):
                maker.build(target, image, base)
            _record(image, {"key": key, "id": maker.images()[image]})
    return names


def adopt(maker: Builder, targets: list[Target]) -> None:
    """Record images that came into a builder's store by another way as built from the present sources.

    Args:
        maker: the builder.
        targets: targets of the images. Those that the builder does not have are left out.
    """
    base, images = maker.base(), maker.images()
    for target in targets:
        image = target.image()
        if image in images:
            _record(image, {"key": target.key(f"{maker.name} {base}"), "id": images[image]})


def load(image: str, say_so: Callable[[str], None] = say) -> None:
    """Copy an image into every node of the running Kubernetes, unless it has it.

    Raises:
        DevstackError: there is no such image, or no Kubernetes.
    """
    maker = builder()
    identity = maker.images().get(image)
    if identity is None:
        raise DevstackError(f"image load: there is no image {image}", "build it: python -m devstack image build TARGET")
    cluster = choose()
    if not cluster.status().up:
        raise DevstackError("image load: no Kubernetes runs", "start it with: python -m devstack kube up")
    if isinstance(cluster, KindCluster):
        with step(f"loading {image} into kind"):
            cluster.load(image)
        return
    if not cluster.lacks(image, identity):
        say_so(f"{image}: already in every node")
        return
    with step(f"loading {image} into every node"), file_lock(_folder() / "load-lock", "image load"):
        archive = _folder() / f".load.{os.getpid()}.tar"
        try:
            maker.save(image, archive)
            cluster.load(archive, image, identity)
        finally:
            archive.unlink(missing_ok=True)


def _folder() -> Path:
    return cache_root() / "images"


def _record_path(image: str) -> Path:
    return _folder() / "records" / f"{image.replace('/', '_')}.json"


def _recorded(image: str) -> dict[str, str]:
    try:
        record: dict[str, str] = json.loads(_record_path(image).read_text())
    except FileNotFoundError:
        return {}
    return record


def _record(image: str, record: dict[str, str]) -> None:
    _record_path(image).parent.mkdir(parents=True, exist_ok=True)
    _record_path(image).write_text(json.dumps(record))
