"""Provenance of a release: which commit and which inputs its files were made from.

Facts: in-toto Statement v1 with SLSA's predicate of build provenance v1. It has no times and no host, so that the same commit
gives the same statement. `make -C lab release` does not sign it; the release workflow does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devstack.errors import DevstackError
from devstack.release.checksums import digests, sha256
from devstack.release.outcome import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from devstack.release.inputs import ReleaseInputs

FILE: Final = "provenance.intoto.json"
BUILD_TYPE: Final = "urn:pulsar-readonly:make-release:1"
LOCAL_BUILDER: Final = "urn:pulsar-readonly:local-machine"
"""Builder outside of the workflow: nobody vouches for it."""
_BASE: Final = "base image"
_INPUTS: Final = ("requirements/*.txt", "lab/devstack/jars/locks/*.sha512", "Dockerfile", "pyproject.toml")


def statement(
    tree: Path, out: Path, inputs: ReleaseInputs, builder: str, bases: dict[str, str], outcome: Outcome
) -> dict[str, Any]:
    """Return the statement about all files of a release.

    Args:
        tree: the commit's files.
        out: the release; SHA256SUMS and an earlier statement are no subjects.
        inputs: the release's input.
        builder: URI of the builder; empty for a local machine.
        bases: hexadecimal SHA-256 of the base images' configurations by name.
        outcome: what is missing.
    """
    source = {"uri": f"git+{inputs.source}" if inputs.source else "git", "digest": {"gitCommit": inputs.commit}}
    files = sorted(path for pattern in _INPUTS for path in tree.glob(pattern))
    locks = [{"uri": path.relative_to(tree).as_posix(), "digest": {"sha256": sha256(path)}} for path in files]
    images = [{"uri": name, "name": _BASE, "digest": {"sha256": digest}} for name, digest in sorted(bases.items())]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests(out, FILE).items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "version": inputs.version,
                    "registry": inputs.registry,
                    "source": inputs.source,
                },
                "internalParameters": {
                    "SOURCE_DATE_EPOCH": inputs.epoch,
                    "made": sorted(outcome.made),
                    "missing": dict(sorted(outcome.missing.items())),
                },
                "resolvedDependencies": [source, *locks, *images],
            },
            "runDetails": {"builder": {"id": builder or LOCAL_BUILDER}},
        },
    }


def write(tree: Path, out: Path, inputs: ReleaseInputs, builder: str, bases: dict[str, str], outcome: Outcome) -> None:
    """Write the statement into the release; see `statement`."""
    made = statement(tree, out, inputs, builder, bases, outcome)
    (out / FILE).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Statement:
    """What a release says of itself.

    Attributes:
        commit: full hash.
        version: X.Y.Z.
        registry: the registry that its images are named for.
        bases: SHA-256 of the base images by name.
        outcome: what was made and what is missing.
    """

    commit: str
    version: str
    registry: str
    bases: dict[str, str]
    outcome: Outcome


def read(out: Path) -> Statement:
    """Return what the statement of a release says.

    Raises:
        DevstackError: there is none, or it has another form.
    """
    try:
        body = json.loads((out / FILE).read_text(encoding="utf-8"))
        definition = body["predicate"]["buildDefinition"]
        needed = definition["resolvedDependencies"]
        internal, external = definition["internalParameters"], definition["externalParameters"]
        return Statement(
            commit=needed[0]["digest"]["gitCommit"],
            version=external["version"],
            registry=external["registry"],
            bases={one["uri"]: one["digest"]["sha256"] for one in needed if one.get("name") == _BASE},
            outcome=Outcome(dict(internal["missing"]), set(internal["made"])),
        )
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise DevstackError(f"release: {out / FILE} is no provenance of make -C lab release ({error!r})") from error
