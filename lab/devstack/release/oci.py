"""Packages inside an archive of the OCI image layout: those of Debian, of the virtual environment, and jars.

Facts: the OCI image layout and layer format 1.1 (whiteouts), Debian's `var/lib/dpkg/status`, and the metadata of wheels.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import IO, TYPE_CHECKING, Any, Final, cast

from readonly_engine import build_info

from devstack.errors import DevstackError
from devstack.release.lockfile import normalized

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STATUS: Final = "var/lib/dpkg/status"
_RELEASE: Final = "usr/lib/os-release"
_METADATA: Final = re.compile(r"venv/lib/python3[^/]*/site-packages/[^/]+\.dist-info/METADATA")
_JAR: Final = re.compile(r"opt/pulsar-readonly/jars/[^/]+\.jar")
_NATIVE: Final = re.compile(r"venv/lib/python3[^/]*/site-packages/(readonly_\w+/[\w/]+)\.cpython-[^/]*\.so")
_BUILD_INFO: Final = re.compile(rf"venv/lib/python3[^/]*/site-packages/readonly_engine/{re.escape(build_info.FILE)}")
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"


@dataclass(frozen=True, slots=True)
class DebianPackage:
    """An installed package of Debian."""

    name: str
    version: str
    architecture: str


@dataclass(frozen=True, slots=True)
class ImageContent:
    """What an image holds.

    Attributes:
        architecture: amd64 or arm64, from the image's configuration.
        distribution: such as debian-12; empty if the image does not say.
        debian: its packages of Debian, sorted.
        python: versions of the packages in /venv by normalized name.
        jars: SHA-256 of jars by file name.
        native: paths of the project's C modules, without the suffix of their platform.
        commit: the commit in the package; empty if it has none.
    """

    architecture: str
    distribution: str
    debian: tuple[DebianPackage, ...]
    python: dict[str, str]
    jars: dict[str, str]
    native: frozenset[str] = frozenset()
    commit: str = ""


def read(archive: Path) -> ImageContent:
    """Return the packages of an image.

    Raises:
        DevstackError: the archive is no image, or holds several.
    """
    try:
        with tarfile.open(archive) as layout:
            manifest = _manifest(layout, json.loads(_file(layout, "index.json").read()))
            configuration = json.loads(_blob(layout, manifest["config"]["digest"]).read())
            files: dict[str, bytes] = {}
            for layer in manifest["layers"]:
                _apply(_blob(layout, layer["digest"]), files)
    except (KeyError, ValueError, tarfile.TarError) as error:
        raise DevstackError(f"release: {archive.name} is no archive of one OCI image ({error})") from error
    release = dict(
        re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', files.get(_RELEASE, b"").decode(errors="replace"), re.MULTILINE)
    )
    metadata = [
        HeaderParser().parsestr(data.decode(errors="replace"))
        for name, data in files.items()
        if _METADATA.fullmatch(name)
    ]
    return ImageContent(
        architecture=configuration["architecture"],
        distribution="-".join(release[key] for key in ("ID", "VERSION_ID") if key in release),
        debian=tuple(_debian(files.get(_STATUS, b"").decode(errors="replace"))),
        python={normalized(one["Name"]): one["Version"] for one in metadata},
        jars={name.rpartition("/")[2]: data.decode() for name, data in files.items() if _JAR.fullmatch(name)},
        native=frozenset(match[1] for name in files if (match := _NATIVE.fullmatch(name))),
        commit=next((_commit(data) for name, data in files.items() if _BUILD_INFO.fullmatch(name)), ""),
    )


def _commit(data: bytes) -> str:
    """Return the commit in a file of build_info.py; empty for another content."""
    try:
        return str(json.loads(data)["commit"])
    except (ValueError, KeyError, TypeError):
        return ""


def _kept(name: str) -> bool:
    """Return whether a file's content matters."""
    return name in {_STATUS, _RELEASE} or any(one.fullmatch(name) for one in (_METADATA, _JAR, _NATIVE, _BUILD_INFO))


def _manifest(layout: tarfile.TarFile, index: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of the one image of an index; an index may hold another one."""
    while "manifests" in index:
        if len(index["manifests"]) != 1:
            raise ValueError(f"{len(index['manifests'])} images")
        index = json.loads(_blob(layout, index["manifests"][0]["digest"]).read())
    return index


def _blob(layout: tarfile.TarFile, digest: str) -> IO[bytes]:
    return _file(layout, f"blobs/{digest.replace(':', '/')}")


def _file(layout: tarfile.TarFile, name: str) -> IO[bytes]:
    for known in (name, f"./{name}"):
        if known in layout.getnames():
            found = layout.extractfile(known)
            if found is not None:
                return found
    raise KeyError(name)


def _apply(layer: IO[bytes], files: dict[str, bytes]) -> None:
    """Change the files that are kept as a layer does: it adds, replaces and removes."""
    added: dict[str, bytes] = {}
    with tarfile.open(fileobj=cast("Any", layer), mode="r|*") as tar:
        for entry in tar:
            name = entry.name.removeprefix("./").lstrip("/")
            folder, _, base = name.rpartition("/")
            if base == _OPAQUE:
                _remove(files, folder, inside=True)
            elif base.startswith(_WHITEOUT):
                _remove(files, f"{folder}/{base.removeprefix(_WHITEOUT)}".lstrip("/"))
            elif entry.isfile() and _kept(name):
                data = tar.extractfile(entry)
                assert data is not None
                added[name] = hashlib.sha256(data.read()).hexdigest().encode() if name.endswith(".jar") else data.read()
    files |= added


def _remove(files: dict[str, bytes], path: str, *, inside: bool = False) -> None:
    for name in [one for one in files if one.startswith(f"{path}/") or (one == path and not inside)]:
        del files[name]


def _debian(status: str) -> Iterator[DebianPackage]:
    found = []
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found.append((fields["Package"], fields["Version"], fields["Architecture"]))
    yield from (DebianPackage(*one) for one in sorted(found))
