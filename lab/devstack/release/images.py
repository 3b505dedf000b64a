"""Images of a release as archives of the OCI image layout: by Docker's buildx where an engine runs, else by buildah.

buildah builds for this machine's architecture alone, because its base is a Debian made by programs that run on it. buildx also
builds for others where the kernel runs their programs (binfmt_misc with QEMU).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from devstack.cache import cache_root
from devstack.common.locks import file_lock
from devstack.common.run import run, succeeds
from devstack.console import step
from devstack.errors import DevstackError
from devstack.images.base import DOCKER_BASE, ensure_base
from devstack.images.buildah import Buildah
from devstack.images.builders import BuildahBuilder
from devstack.jars.fetch import ensure_jars
from devstack.kube.kind import docker_runs
from devstack.release.archives import repack_layout
from devstack.release.inputs import IMAGES, MACHINES

if TYPE_CHECKING:
    from devstack.release.inputs import ReleaseInputs
    from devstack.release.outcome import Outcome

FOLDER: Final = "images"
_JARS: Final = ("delta", "s3a")
_DEADLINE_S: Final = 3600.0
_BINFMT: Final = Path("/proc/sys/fs/binfmt_misc")


class ImageBuilder(Protocol):
    """A tool that builds an image into an archive, the same from the same files."""

    def obstacle(self, architecture: str) -> str | None:
        """Return why it cannot build for an architecture; None if it can."""

    def base(self) -> tuple[str, str]:
        """Return name and hexadecimal SHA-256 of the base image."""

    def build(self, tree: Path, stage: str, image: str, architecture: str, epoch: int, archive: Path) -> None:
        """Build a stage of the tree's Dockerfile, with this time for all files that it adds."""


class BuildahImages:
    """buildah, on a base that is made of Debian's packages."""

    def __init__(self, host: str) -> None:
        BuildahBuilder()  # checks the user and the programs
        self._host = host
        self._buildah = Buildah()

    def obstacle(self, architecture: str) -> str | None:
        """See ImageBuilder."""
        if architecture == self._host:
            return None
        return (
            f"no Docker engine runs here, and buildah makes its base from packages of this machine's architecture {self._host}: "
            f"run make -C lab release on a machine that is {architecture} and join both (python -m devstack release join)"
        )

    def base(self) -> tuple[str, str]:
        """See ImageBuilder."""
        name = ensure_base(self._buildah)
        return name, self._buildah.images()[name].removeprefix("sha256:")

    def build(self, tree: Path, stage: str, image: str, architecture: str, epoch: int, archive: Path) -> None:
        """See ImageBuilder."""
        del architecture  # the host's
        self._buildah.build(
            image,
            tree,
            dockerfile=tree / "Dockerfile",
            target=stage,
            arguments={"BASE": self.base()[0], "SOURCE_DATE_EPOCH": str(epoch)},
            layers=False,  # no layer of an earlier build
            timestamp=epoch,
        )
        self._buildah.save_oci(image, archive)


class DockerImages:
    """Docker with buildx, on a base that is named by digest."""

    def __init__(self, host: str) -> None:
        if not succeeds(["docker", "buildx", "version"]):
            raise DevstackError("release: Docker has no buildx", "install the plugin docker-buildx")
        self._host = host

    def obstacle(self, architecture: str) -> str | None:
        """See ImageBuilder."""
        if architecture == self._host or (_BINFMT / f"qemu-{MACHINES[architecture]}").exists():
            return None
        return (
            f"this machine is {self._host}, and its kernel runs no programs of {architecture}: install qemu-user-static and "
            f"binfmt-support, or join a release of a machine that is {architecture} (python -m devstack release join)"
        )

    def base(self) -> tuple[str, str]:
        """See ImageBuilder."""
        run(["docker", "pull", "-q", DOCKER_BASE], what=f"release: fetching {DOCKER_BASE}", timeout=_DEADLINE_S)
        form = ["--format", "{{json .RepoDigests}}"]
        known = json.loads(
            run(["docker", "image", "inspect", *form, DOCKER_BASE], what="release: asking Docker for the base")
        )
        if not known:
            raise DevstackError(
                f"release: Docker has {DOCKER_BASE} without a digest of a registry", "remove that image"
            )
        name = str(known[0])
        return name, name.rpartition("@sha256:")[2]

    def build(self, tree: Path, stage: str, image: str, architecture: str, epoch: int, archive: Path) -> None:
        """See ImageBuilder."""
        arguments = {"BASE": self.base()[0], "SOURCE_DATE_EPOCH": str(epoch)}
        options = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        options += ["--no-cache", "--provenance=false", "--sbom=false", "--platform", f"linux/{architecture}"]
        # times of files inside of layers too
        options += ["--output", f"type=oci,dest={archive},name={image},rewrite-timestamp=true"]
        command = [
            "docker",
            "buildx",
            "build",
            "-q",
            "-f",
            str(tree / "Dockerfile"),
            "--target",
            stage,
            *options,
            str(tree),
        ]
        run(command, what=f"release: building the image {image}", timeout=_DEADLINE_S)


def choose(host: str) -> ImageBuilder:
    """Return the builder that this machine has.

    Raises:
        DevstackError: neither can be used; names what is missing.
    """
    return DockerImages(host) if docker_runs() else BuildahImages(host)


def archive_file(inputs: ReleaseInputs, name: str, architecture: str) -> str:
    """Return the name of an image's archive."""
    return f"pulsar-readonly-{name}-{inputs.version}-linux-{architecture}.oci.tar"


def image_artefact(name: str, architecture: str) -> str:
    """Return the name of an image in reports."""
    return f"image {name} for {architecture}"


def add_jars(tree: Path) -> None:
    """Put the locked jars of the spark image beside the Dockerfile."""
    for name in _JARS:
        shutil.copytree(ensure_jars(name), tree / "jars", dirs_exist_ok=True)


def build_images(
    tree: Path, inputs: ReleaseInputs, architectures: list[str], builder: ImageBuilder, out: Path, outcome: Outcome
) -> dict[str, str]:
    """Build the images that this machine can build, and record the others in the outcome.

    Args:
        tree: the commit's files, with the jars.
        inputs: the release.
        architectures: amd64, arm64 or both.
        builder: the tool.
        out: folder of the archives.
        outcome: gets a reason for each image that is not made.

    Returns:
        SHA-256 of the base image by name; empty if no image is made.
    """
    made = False
    for architecture in architectures:
        reason = builder.obstacle(architecture)
        for name in IMAGES:
            artefact = image_artefact(name, architecture)
            if reason is not None:
                outcome.miss(artefact, reason)
                continue
            out.mkdir(parents=True, exist_ok=True)
            archive = out / archive_file(inputs, name, architecture)
            with (
                step(f"building the image {name} for {architecture}"),
                file_lock(cache_root() / "images" / "lock", "release"),
            ):
                builder.build(tree, name, inputs.image(name), architecture, inputs.epoch, archive)
            # Both tools give the archive's own entries the time of the build.
            repack_layout(archive, inputs.epoch)
            outcome.made.add(artefact)
            made = True
    return dict([builder.base()]) if made else {}
