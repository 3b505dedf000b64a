"""Software bills of materials: CycloneDX 1.6 JSON of the locked packages, and of what an image really holds.

Identifiers and times depend on the commit alone. Facts: CycloneDX 1.6; package URLs of types pypi, deb and generic.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from devstack.errors import DevstackError
from devstack.release.lockfile import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devstack.release.inputs import ReleaseInputs
    from devstack.release.lockfile import LockedPackage
    from devstack.release.oci import DebianPackage, ImageContent

SPEC_VERSION: Final = "1.6"
LICENSE: Final = "Apache-2.0"


def of_lock(inputs: ReleaseInputs, name: str, locked: Mapping[str, LockedPackage]) -> str:
    """Return the bill of one part of the project: it and its locked packages, with what needs what.

    Args:
        inputs: the release.
        name: the part, such as engine.
        locked: packages of its lock file.
    """
    own = _pypi(OWN, inputs.version)
    refs = {OWN: own, **{one.name: _pypi(one.name, one.version) for one in locked.values()}}
    needs: dict[str, list[str]] = {ref: [] for ref in refs.values()}
    for one in locked.values():
        for needing in one.required_by:
            if needing not in refs:
                raise DevstackError(
                    f"release: requirements/{name}.txt says that {needing} needs {one.name}, and lacks it"
                )
            needs[refs[needing]].append(refs[one.name])
    components = [_library(one.name, one.version, refs[one.name]) for one in locked.values()]
    root = {**_library(OWN, inputs.version, own), "licenses": [{"license": {"id": LICENSE}}]}
    return _document(inputs, f"lock {name}", root, components, needs)


def of_image(inputs: ReleaseInputs, name: str, content: ImageContent) -> str:
    """Return the bill of an image: its packages of Debian and Python, and its jars.

    Args:
        inputs: the release.
        name: the image, such as engine.
        content: what it holds.
    """
    image = {
        "type": "container",
        "bom-ref": f"image:{inputs.image(name)}:{content.architecture}",
        "name": inputs.repository(name),
        "version": inputs.version,
    }
    python = [_library(one, version, _pypi(one, version)) for one, version in content.python.items()]
    debian = [_library(one.name, one.version, _deb(one, content.distribution)) for one in content.debian]
    jars = [
        {
            "type": "file",
            "bom-ref": f"jar:{file}",
            "name": file,
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for file, digest in content.jars.items()
    ]
    return _document(inputs, f"image {name} {content.architecture}", image, [*python, *debian, *jars], {})


def check_image(name: str, version: str, content: ImageContent, locked: Mapping[str, LockedPackage]) -> None:
    """Check that an image holds the project and its locked packages, no others and no other versions.

    Raises:
        DevstackError: it differs; names the packages.
    """
    expected = {OWN: version, **{one.name: one.version for one in locked.values()}}
    differing = sorted(
        f"{one} ({content.python.get(one, 'not installed')} instead of {expected.get(one, 'not locked')})"
        for one in expected.keys() | content.python.keys()
        if expected.get(one) != content.python.get(one)
    )
    if differing:
        raise DevstackError(f"release: the image {name} differs from requirements/{name}.txt: {', '.join(differing)}")


def _document(
    inputs: ReleaseInputs,
    subject: str,
    root: dict[str, Any],
    components: list[dict[str, Any]],
    needs: dict[str, list[str]],
) -> str:
    identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{OWN} {inputs.version} {inputs.commit} {subject}")
    made: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(inputs.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": root,
            "properties": [{"name": f"{OWN}:commit", "value": inputs.commit}],
        },
        "components": sorted(components, key=lambda one: str(one["bom-ref"])),
    }
    if needs:
        made["dependencies"] = [{"ref": ref, "dependsOn": sorted(needs[ref])} for ref in sorted(needs)]
    return json.dumps(made, indent=2) + "\n"


def _library(name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _pypi(name: str, version: str) -> str:
    return f"pkg:pypi/{quote(name)}@{quote(version)}"


def _deb(one: DebianPackage, distribution: str) -> str:
    distro = f"&distro={quote(distribution)}" if distribution else ""
    return f"pkg:deb/debian/{quote(one.name, safe='')}@{quote(one.version)}?arch={quote(one.architecture)}{distro}"
