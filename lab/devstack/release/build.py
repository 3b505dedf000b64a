"""Build a release: every artefact into one folder, then checksums; what cannot be built is named with its reason."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from readonly_operator.api import olm

from devstack.console import say
from devstack.errors import DevstackError
from devstack.release import chart, checksums, lockfile, manifests, oci, provenance, sbom, wheels
from devstack.release.archives import folder_members, text_members, write_tar_gz
from devstack.release.images import FOLDER as IMAGE_FOLDER
from devstack.release.images import add_jars, archive_file, build_images, choose, image_artefact
from devstack.release.inputs import IMAGES
from devstack.release.outcome import MISSING, Outcome
from devstack.release.tree import export

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devstack.release.inputs import ReleaseInputs

_UMASK: Final = 0o022


@dataclass(frozen=True, slots=True)
class Choice:
    """Which artefacts to build.

    Attributes:
        architectures: amd64, arm64 or both.
        pythons: versions of Python for wheels.
        images: build images.
        builder: URI of the builder, for the provenance; empty for a local machine.
    """

    architectures: tuple[str, ...]
    pythons: tuple[str, ...]
    images: bool = True
    builder: str = ""


def build(root: Path, inputs: ReleaseInputs, out: Path, choice: Choice) -> Outcome:
    """Build a release into a folder, which is replaced only if it is an earlier release; returns what is missing.

    Args:
        root: the checkout.
        inputs: version, registry and commit.
        out: the folder; it appears when everything else is done.
        choice: which artefacts.

    Raises:
        DevstackError: a step fails, or the folder holds something else.
    """
    out = out.resolve()
    check_replaceable(out)
    host = wheels.host_architecture()
    outcome, umask = Outcome(), os.umask(_UMASK)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory(prefix=".release-", dir=out.parent) as folder:
            work, made = Path(folder), Path(folder) / "made"
            tree = export(root, inputs, work / "tree")
            targets = [wheels.WheelTarget(python, one) for one in choice.architectures for python in choice.pythons]
            sdist = wheels.build_sdist(tree, inputs, work, made)
            wheels.build_wheels(tree, sdist, inputs, targets, host, work, made, outcome)
            write_files(tree, inputs, made)
            bases = _images(tree, inputs, host, choice, made, outcome)
            finish(tree, inputs, made, choice.builder, bases, outcome)
            replace(made, out)
    finally:
        os.umask(umask)
    return outcome


def write_files(tree: Path, inputs: ReleaseInputs, made: Path) -> None:
    """Write chart, manifests, examples, the bundle of OLM, and the locked packages with their bills, which need no program."""
    name, epoch = f"pulsar-readonly-{inputs.version}", inputs.epoch
    made.mkdir(parents=True, exist_ok=True)
    write_tar_gz(made / chart.chart_file(inputs), chart.chart_members(tree, inputs), epoch)
    write_tar_gz(made / f"{name}-kustomize.tar.gz", manifests.kustomize_members(tree, inputs), epoch)
    write_tar_gz(made / f"{name}-examples.tar.gz", folder_members(tree / "examples", "examples/"), epoch)
    (made / "install.yaml").write_text(manifests.install_yaml(tree, inputs), encoding="utf-8")
    (made / "crds.yaml").write_text(manifests.definitions(tree), encoding="utf-8")
    bundle = olm.bundle(olm.Release(tree, inputs.image("operator"), inputs.image("engine")))
    write_tar_gz(made / f"{name}-olm.tar.gz", text_members(bundle, f"{name}-olm/"), epoch)
    for part in IMAGES:
        lock = tree / "requirements" / f"{part}.txt"
        _bill(made, f"{name}-{part}", sbom.of_lock(inputs, part, lockfile.read(lock)))
        (made / f"requirements-{part}.txt").write_bytes(lock.read_bytes())


def finish(
    tree: Path, inputs: ReleaseInputs, made: Path, builder: str, bases: dict[str, str], outcome: Outcome
) -> None:
    """Write the list of what is missing, the provenance, and the checksums of all files."""
    if outcome.missing:
        (made / MISSING).write_text(outcome.text(), encoding="utf-8")
    provenance.write(tree, made, inputs, builder, bases, outcome)
    checksums.write(made)


def check_replaceable(out: Path) -> None:
    """Check that a folder is absent, empty, or an earlier release with no other files in it.

    Raises:
        DevstackError: it has something else, which a release would delete.
    """
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    remedy = "name a new folder, or remove it yourself"
    if not out.is_dir() or not ((out / checksums.FILE).is_file() and (out / provenance.FILE).is_file()):
        raise DevstackError(f"release: OUT {out} exists and is no earlier release", remedy)
    listed = checksums.read(out)
    foreign = [name for name, digest in checksums.digests(out).items() if listed.get(name) != digest]
    # A release has regular files only. A link, or a folder without files, is somebody else's.
    foreign += [
        path.relative_to(out).as_posix()
        for path in sorted(out.rglob("*"))
        if path.is_symlink() or not (path.is_file() or (path.is_dir() and any(path.iterdir())))
    ]
    if foreign:
        raise DevstackError(f"release: OUT {out} has files that no release wrote: {', '.join(foreign[:5])}", remedy)


def replace(made: Path, out: Path) -> None:
    """Move a finished release to its place. At no time is a part of a release there, and an error leaves the earlier one.

    Args:
        made: the finished release, in a temporary folder of the same file system.
        out: its place.
    """
    check_replaceable(out)
    former = made.parent / "former"  # removed with the temporary folder
    if out.exists():
        out.rename(former)
    try:
        made.rename(out)
    except OSError:
        if former.exists():
            former.rename(out)
        raise


def report(out: Path, outcome: Outcome) -> Sequence[str]:
    """Return the lines that tell the user of artefacts and of what is missing."""
    missing = [f"missing: {line}" for line in outcome.text().splitlines()]
    files = len(checksums.read(out))
    return [*missing, f"{files} files in {out}, {len(missing)} missing" + (f" (see {MISSING})" if missing else "")]


def _images(
    tree: Path, inputs: ReleaseInputs, host: str, choice: Choice, made: Path, outcome: Outcome
) -> dict[str, str]:
    """Build the images and their bills; returns the base's digest by its name."""
    try:
        builder, reason = (choose(host), "") if choice.images else (None, "left out by --no-images")
    except DevstackError as error:
        builder, reason = None, f"{error}; {error.hint}".removesuffix("; ")
    if builder is None:
        for architecture in choice.architectures:
            for name in IMAGES:
                outcome.miss(image_artefact(name, architecture), reason)
        return {}
    add_jars(tree)
    bases = build_images(tree, inputs, list(choice.architectures), builder, made / IMAGE_FOLDER, outcome)
    for architecture in choice.architectures:
        for name in IMAGES:
            archive = made / IMAGE_FOLDER / archive_file(inputs, name, architecture)
            if archive.exists():
                content = oci.read(archive)
                if content.architecture != architecture:
                    raise DevstackError(f"release: {archive.name} is an image for {content.architecture}")
                check_content(archive.name, content, wheels.expected_modules(tree), inputs.commit)
                sbom.check_image(name, inputs.version, content, lockfile.read(tree / "requirements" / f"{name}.txt"))
                _bill(made, archive.name.removesuffix(".oci.tar"), sbom.of_image(inputs, name, content))
    say("images: done")
    return bases


def check_content(name: str, content: oci.ImageContent, modules: set[str], commit: str) -> None:
    """Check that an image has all C modules and the commit, so that `pulsar-readonly --version` in it is right.

    Raises:
        DevstackError: it has not. An image is built without C modules where its build cannot install a compiler.
    """
    lacking = sorted(modules - content.native)
    if lacking:
        raise DevstackError(
            f"release: the image {name} lacks the C modules {', '.join(lacking)}",
            "its build could not install a C compiler from the package archive: check the network, and try again",
        )
    if content.commit != commit:
        raise DevstackError(
            f"release: the image {name} is of commit {content.commit[:12] or 'unknown'}, not {commit[:12]}"
        )


def _bill(made: Path, name: str, text: str) -> None:
    (made / f"{name}.cdx.json").write_text(text, encoding="utf-8")
