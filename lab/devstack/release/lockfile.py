"""Packages of a lock file: the form that `uv pip compile --generate-hashes` writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from pathlib import Path

_PINNED: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)(?:\s*;[^\\]*)?\s*\\?")
_VIA: Final = re.compile(r"#(?:\s+via)?\s+(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?")
OWN: Final = "pulsar-readonly"


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """A package of a lock file.

    Attributes:
        name: normalized as PEP 503 does.
        version: its one version.
        required_by: names of the packages that need it; `pulsar-readonly` for the project itself.
    """

    name: str
    version: str
    required_by: frozenset[str]


def normalized(name: str) -> str:
    """Return the name of a package as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str, file: str) -> dict[str, LockedPackage]:
    """Return the packages of a lock file by name.

    Args:
        text: its content.
        file: its name, for errors.

    Raises:
        DevstackError: a line is of no known form, or a package is pinned twice: a bill of materials would lie.
    """
    versions: dict[str, str] = {}
    via: dict[str, set[str]] = {}
    name = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("--hash=") or line == "# via":
            continue
        if line.startswith("#"):
            match = _VIA.fullmatch(line.partition(" (")[0])
            if match and name:
                via[name].add(normalized(match["name"]))
            continue
        match = _PINNED.fullmatch(line)
        if match is None or normalized(match["name"]) in versions:
            raise DevstackError(f"release: line {number} of {file} is not one package with one version: {line[:80]}")
        name = normalized(match["name"])
        versions[name], via[name] = match["version"], set()
    return {name: LockedPackage(name, version, frozenset(via[name])) for name, version in versions.items()}


def read(path: Path) -> dict[str, LockedPackage]:
    """Return the packages of a lock file by name; see `parse`."""
    return parse(path.read_text(encoding="utf-8"), path.name)
