"""The files of a release as its user has them: checked by sha256sum, in a folder with nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devstack.errors import DevstackError
from devstack.release import checksums, provenance
from devstack.release.inputs import MACHINES

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S: Final = 300
NEEDED: Final = ("engine", "operator")
"""Images of the tutorial."""

_WHEEL: Final = re.compile(
    r"pulsar_readonly-(?P<version>[\d.]+)-cp3(?P<minor>\d+)-cp3\d+-[\w.]+_(?P<machine>x86_64|aarch64)\.whl"
)


@dataclass(frozen=True, slots=True)
class ImageIds:
    """How a container runtime knows an image.

    Attributes:
        manifest: digest of its manifest, sha256:...
        config: digest of its configuration, which is the image's ID.
    """

    manifest: str
    config: str


@dataclass(frozen=True, slots=True)
class Artefacts:
    """A release in a folder.

    Attributes:
        folder: the folder.
        version: X.Y.Z.
        commit: full hash of its commit.
        architecture: of this machine, amd64 or arm64.
    """

    folder: Path
    version: str
    commit: str
    architecture: str

    @property
    def chart(self) -> Path:
        """The chart."""
        return self.folder / f"pulsar-readonly-{self.version}.tgz"

    def image(self, name: str) -> Path:
        """Return the archive of an image."""
        return self.folder / "images" / f"pulsar-readonly-{name}-{self.version}-linux-{self.architecture}.oci.tar"

    def python(self) -> str:
        """Return the interpreter that has a wheel, such as python3.11.

        Raises:
            DevstackError: no interpreter of this machine has one.
        """
        found = sorted(path.name for path in self.folder.glob("*.whl"))
        for name in found:
            wheel = _WHEEL.fullmatch(name)
            if wheel and wheel["machine"] == MACHINES[self.architecture] and shutil.which(f"python3.{wheel['minor']}"):
                return f"python3.{wheel['minor']}"
        raise DevstackError(
            f"the release has no wheel for a Python of this machine; it has {', '.join(found) or 'none'}",
            "install that Python, or make the release on this machine",
        )


def check_sums(folder: Path) -> int:
    """Check all files of a release as its user does; return their number.

    Raises:
        DevstackError: there is no list, a file differs or is missing, or one is not in the list.
    """
    listed = checksums.read(folder)
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", checksums.FILE],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if done.returncode:
        wrong = ", ".join(line for line in done.stdout.splitlines()[:5])
        raise DevstackError(
            f"{folder}: sha256sum --check {checksums.FILE} failed: {wrong}", "make or fetch the release again"
        )
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {checksums.FILE}
    if others := sorted(files - set(listed)):
        raise DevstackError(f"{folder} has files that {checksums.FILE} does not list: {', '.join(others[:5])}")
    return len(listed)


def opened(folder: Path, architecture: str) -> Artefacts:
    """Return a release whose files are complete for this machine.

    Raises:
        DevstackError: it has no provenance, or lacks the chart or an image.
    """
    said = provenance.read(folder)
    found = Artefacts(folder, said.version, said.commit, architecture)
    lacking = [path.name for path in (found.chart, *map(found.image, NEEDED)) if not path.is_file()]
    if lacking:
        raise DevstackError(
            f"the release in {folder} lacks {', '.join(lacking)}", "MISSING.txt has the reasons: make it again"
        )
    return found


def ids(archive: Path) -> ImageIds:
    """Return the digests of the one image in an archive of the OCI image layout.

    Raises:
        DevstackError: it is no such archive.
    """
    try:
        with tarfile.open(archive) as layout:
            names = {name.removeprefix("./"): name for name in layout.getnames()}

            def read(name: str) -> Any:
                file = layout.extractfile(names[name])
                assert file is not None
                return json.loads(file.read())

            (entry,) = read("index.json")["manifests"]
            while "manifests" in (body := read(f"blobs/{entry['digest'].replace(':', '/')}")):
                (entry,) = body["manifests"]
            return ImageIds(entry["digest"], body["config"]["digest"])
    except (OSError, KeyError, ValueError, tarfile.TarError) as error:
        raise DevstackError(f"{archive.name} is no archive of one OCI image ({error!r})") from error


def check_empty(folder: Path) -> None:
    """Check that a folder is absent or empty.

    Raises:
        DevstackError: it is not.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DevstackError(f"--work {folder} is not an empty folder", "name a new folder, or remove it yourself")


def copied(release: Path, folder: Path) -> Path:
    """Copy a release into a folder of its own, where nothing else is, and return it.

    Args:
        release: the release.
        folder: absent or empty.
    """
    check_empty(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def copy(source: str, target: str) -> str:
        try:
            os.link(source, target)  # archives of images are large
        except OSError:
            return str(shutil.copy2(source, target))
        return target

    shutil.copytree(release, folder, copy_function=copy, dirs_exist_ok=True)
    return folder
