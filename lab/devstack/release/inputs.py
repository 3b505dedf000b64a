"""Input of a release: version, registry and commit, each checked before anything is built."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from devstack.common.run import run, succeeds
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from pathlib import Path

IMAGES: Final = ("engine", "operator", "spark")
"""Images of a release, by their target in the Dockerfile."""
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""Architectures of a release: the kernel's name by that of OCI images."""

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_PORT = r":[1-9]\d{0,4}"
# A host without a dot or a port would be a user's name on a public registry.
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})+(?:{_PORT})?|{_LABEL}{_PORT}|localhost)"
_REGISTRY = re.compile(rf"{_HOST}(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*")
_URI = re.compile(r"[a-z][a-z0-9+.-]*:[^\s?#@]+(?:#[^\s@]*)?")


@dataclass(frozen=True, slots=True)
class ReleaseInputs:
    """What a release is made from.

    Attributes:
        version: X.Y.Z, that of all files of the commit.
        registry: host and path of the registry that images are named for, without a scheme.
        commit: full hash of the commit.
        epoch: time of the commit, seconds since 1970: the time of every file of the release.
        source: URI of the repository; empty if it is not given.
    """

    version: str
    registry: str
    commit: str
    epoch: int
    source: str = ""

    def repository(self, name: str) -> str:
        """Return the name of an image in the registry, without a tag."""
        return f"{self.registry}/pulsar-readonly-{name}"

    def image(self, name: str) -> str:
        """Return the full name of an image."""
        return f"{self.repository(name)}:{self.version}"


def parse_version(value: str) -> str:
    """Return the version.

    Raises:
        DevstackError: it is not of the form X.Y.Z. Packages and charts would write other forms differently.
    """
    if not _VERSION.fullmatch(value):
        raise DevstackError(f"release: VERSION must be X.Y.Z, for example 0.1.0, not {value!r}")
    return value


def parse_registry(value: str) -> str:
    """Return the registry.

    Raises:
        DevstackError: it is no host with an optional path, or has a scheme, a tag or a trailing slash.
    """
    if len(value) > 200 or not _REGISTRY.fullmatch(value):
        raise DevstackError(
            f"release: REGISTRY must be host and path of your registry, for example registry.example.com/team, not {value!r}",
            "it has lower-case letters, no scheme, no tag and no slash at the end; the host has a dot or a port",
        )
    return value


def parse_uri(value: str, name: str) -> str:
    """Return a URI for the provenance, or an empty text.

    Args:
        value: the URI.
        name: the option's name, for the error.

    Raises:
        DevstackError: it is no URI, or one with a login or a query: provenance is public.
    """
    if value and not _URI.fullmatch(value):
        shown = re.sub(r"//[^/]*@", "//***@", value)
        raise DevstackError(
            f"release: {name} must be a URI without a login and a query, not {shown!r}",
            "for example https://git.example.com/team/pulsar-readonly",
        )
    return value


def from_checkout(root: Path, version: str, registry: str, source: str = "") -> ReleaseInputs:
    """Return the input of a release of the commit that a checkout is at.

    Args:
        root: the checkout's folder.
        version: see ReleaseInputs.
        registry: see ReleaseInputs.
        source: see ReleaseInputs.

    Raises:
        DevstackError: a value is bad, a tracked file is changed, or the version's tag names another commit.
    """
    version, registry, source = parse_version(version), parse_registry(registry), parse_uri(source, "SOURCE")
    git = ["git", "-C", str(root), "-c", "log.showSignature=false"]
    commit = run([*git, "rev-parse", "--verify", "HEAD^{commit}"], what="release: asking git for the commit").strip()
    changed = run([*git, "status", "--porcelain", "--untracked-files=no"], what="release: asking git for changes")
    if changed.strip():
        names = ", ".join(sorted(line[3:] for line in changed.splitlines())[:5])
        raise DevstackError(
            f"release: files differ from the commit: {names}",
            "a release is made of a commit: commit them, or restore them (git restore)",
        )
    tag = f"refs/tags/v{version}^{{commit}}"
    if succeeds([*git, "rev-parse", "--verify", "--quiet", tag]):
        tagged = run([*git, "rev-parse", "--verify", tag], what="release: asking git for the tag").strip()
        if tagged != commit:
            raise DevstackError(
                f"release: the tag v{version} names commit {tagged[:12]}, and this checkout is at {commit[:12]}",
                f"check the tag out (git checkout v{version}), or choose another VERSION",
            )
    epoch = run([*git, "show", "-s", "--format=%ct", commit], what="release: asking git for the commit's time")
    return ReleaseInputs(version, registry, commit, int(epoch), source)


def versions(tree: Path) -> dict[str, str]:
    """Return the version that each file of the project has, by file."""
    with (tree / "pyproject.toml").open("rb") as file:
        found = {"pyproject.toml": str(tomllib.load(file)["project"]["version"])}
    text = (tree / "engine" / "readonly_engine" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    found["engine/readonly_engine/__init__.py"] = match[1] if match else "none"
    chart = yaml.safe_load((tree / "charts" / "pulsar-readonly" / "Chart.yaml").read_text(encoding="utf-8"))
    found["charts/pulsar-readonly/Chart.yaml (version)"] = str(chart["version"])
    found["charts/pulsar-readonly/Chart.yaml (appVersion)"] = str(chart["appVersion"])
    operator = yaml.safe_load((tree / "manifests" / "operator" / "kustomization.yaml").read_text(encoding="utf-8"))
    found["manifests/operator/kustomization.yaml (newTag)"] = str(operator["images"][0]["newTag"])
    return found


def check_versions(tree: Path, version: str) -> None:
    """Check that every file of the project has this version.

    Raises:
        DevstackError: some have another one; names them.
    """
    wrong = {name: found for name, found in versions(tree).items() if found != version}
    if wrong:
        listed = ", ".join(f"{name} has {found}" for name, found in wrong.items())
        raise DevstackError(
            f"release: VERSION is {version}, and {listed}", "write the version into these files, commit, and try again"
        )
