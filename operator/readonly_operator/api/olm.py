"""Generate a bundle for the Operator Lifecycle Manager: `python -m readonly_operator.api.olm FOLDER`, run by `make -C lab olm`.

Deployment and rights are those of manifests/, kinds and fields those of the typed specs. No image name is in the sources: the
arguments give them. Facts: bundle format `registry+v1` of the Operator Framework, and its ClusterServiceVersion `v1alpha1`.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from readonly_operator.api.crds import DEFINITIONS, Definition, files
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.values import IMAGE
from readonly_operator.kube.kinds import CHILDREN, POOL
from readonly_operator.kube.names import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from readonly_operator.kube.kinds import Manifest

CHANNEL = "alpha"
MEDIA_TYPE = "registry+v1"
MIN_KUBE_VERSION = "1.30.0"
HEADER = "# Made by `make -C lab olm`; do not edit.\n"
PLACEHOLDER = "OPERATOR_IMAGE"
"""Image in manifests/operator/deployment.yaml."""
EXAMPLES = ("quickstart.yaml", "shared-source.yaml")
"""Files of examples/ with one object of each kind."""
_SPEC, _IO = "urn:alm:descriptor:com.tectonic.ui", "urn:alm:descriptor:io.kubernetes"
INPUTS = {"replicas": [f"{_SPEC}:podCount"], "resources": [f"{_SPEC}:resourceRequirements"]}
OUTPUTS = {"conditions": [f"{_IO}.conditions"], "replicas": [f"{_SPEC}:podCount"]}
"""How the console of OpenShift shows fields of spec and status; without an entry, as text."""


@dataclass(frozen=True, slots=True)
class Release:
    """Input of a bundle.

    Attributes:
        root: folder of the project, with manifests/, examples/ and pyproject.toml.
        operator_image: image of the operator, with a tag or a digest.
        engine_image: image of brokers, with a tag or a digest.
        replaces: version that this one replaces in its channel; empty for the first one.
    """

    root: Path
    operator_image: str
    engine_image: str
    replaces: str = ""

    @property
    def version(self) -> str:
        """Return the project's version."""
        with (self.root / "pyproject.toml").open("rb") as file:
            return str(tomllib.load(file)["project"]["version"])

    def documents(self, path: str) -> list[Manifest]:
        """Return the objects of a file of the project."""
        # That in Python needs seconds for a definition.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return list(yaml.load_all((self.root / path).read_text(encoding="utf-8"), loader))

    def only(self, path: str, kind: str) -> Manifest:
        """Return the one object of a kind in a file of the project."""
        (found,) = [one for one in self.documents(path) if one["kind"] == kind]
        return found


def bundle(release: Release) -> dict[str, str]:
    """Return the files of the bundle: text by path.

    Raises:
        OSError: a file of the project cannot be read.
    """
    budget = release.only("manifests/operator/disruption-budget.yaml", "PodDisruptionBudget")
    del budget["metadata"]["namespace"]  # OLM applies it in the namespace of the operator
    return {
        f"manifests/{OPERATOR}.clusterserviceversion.yaml": _text(service_version(release)),
        f"manifests/{OPERATOR}.poddisruptionbudget.yaml": _text(budget),
        **{f"manifests/{name}": text for name, text in files().items()},
        "metadata/annotations.yaml": _text({"annotations": _annotations()}),
        "bundle.Dockerfile": _dockerfile(),
    }


def service_version(release: Release) -> Manifest:
    """Return the ClusterServiceVersion."""
    version, pinned = release.version, all("@sha256:" in one for one in (release.operator_image, release.engine_image))
    spec: dict[str, Any] = {
        "displayName": "Read-only broker pools for Apache Pulsar",
        "description": _description(release),
        "version": version,
        **({"replaces": f"{OPERATOR}.v{release.replaces}"} if release.replaces else {}),
        "maturity": "alpha",
        "minKubeVersion": MIN_KUBE_VERSION,
        "provider": {"name": "pulsar-readonly"},
        "keywords": ["pulsar", "bookkeeper", "broker", "messaging", "streaming"],
        # an argument of the Deployment chooses the namespaces, and OLM cannot change it by mode
        "installModes": [
            {"type": mode, "supported": mode == "AllNamespaces"}
            for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
        ],
        "customresourcedefinitions": {
            "owned": [_owned(one) for one in DEFINITIONS],
        },
        "install": {"strategy": "deployment", "spec": _install(release)},
        "relatedImages": [
            {"name": "operator", "image": release.operator_image},
            {"name": "engine", "image": release.engine_image},
        ],
    }
    annotations = {
        "alm-examples": json.dumps(list(_examples(release)), indent=2),
        "capabilities": "Seamless Upgrades",
        "categories": "Streaming & Messaging",
        "containerImage": release.operator_image,
        "description": "Runs pools of read-only brokers for Apache Pulsar",
        "features.operators.openshift.io/disconnected": str(pinned).lower(),
        "features.operators.openshift.io/fips-compliant": "false",
        "features.operators.openshift.io/proxy-aware": "false",
        "operatorframework.io/suggested-namespace": "pulsar-readonly-system",
    }
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": f"{OPERATOR}.v{version}", "namespace": "placeholder", "annotations": annotations},
        "spec": spec,
    }


def _description(release: Release) -> str:
    """Return the text for people in a catalogue: the first paragraphs of the kinds' descriptions."""
    kinds = "\n".join(f"- **{one.kind.kind}**: {one.description}" for one in DEFINITIONS)
    return (
        f"Version {release.version} runs pools of read-only brokers for Apache Pulsar. A topic keeps its one writable owner, and "
        f"any number of read-only brokers serve it under the same name.\n\n{kinds}\n"
    )


def _install(release: Release) -> dict[str, Any]:
    """Return the Deployment and the rights, those of manifests/cluster-wide and manifests/operator."""
    deployment = release.only("manifests/operator/deployment.yaml", "Deployment")
    spec = copy.deepcopy(deployment["spec"])
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == PLACEHOLDER
    container["image"] = release.operator_image
    container["args"].append(f"--engine-image={release.engine_image}")
    account = spec["template"]["spec"]["serviceAccountName"]
    everywhere = release.only("manifests/cluster-wide/rbac.yaml", "ClusterRole")["rules"]
    own = release.only("manifests/operator/lease.yaml", "Role")["rules"]
    return {
        "clusterPermissions": [{"serviceAccountName": account, "rules": everywhere}],
        "permissions": [{"serviceAccountName": account, "rules": own}],
        "deployments": [{"name": OPERATOR, "label": deployment["metadata"]["labels"], "spec": spec}],
    }


def _owned(one: Definition) -> dict[str, Any]:
    """Return a kind that the operator owns."""
    schema = one.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    made: dict[str, Any] = {
        "name": f"{one.kind.plural}.{one.kind.group}",
        "version": one.kind.version,
        "kind": one.kind.kind,
        "displayName": _words(one.kind.kind),
        "description": one.description,
        "specDescriptors": list(_descriptors(schema["spec"], INPUTS)),
        "statusDescriptors": list(_descriptors(schema["status"], OUTPUTS)),
    }
    if one.kind == POOL:
        made["resources"] = [{"kind": kind.kind, "name": "", "version": kind.version} for kind in CHILDREN]
    return made


def _descriptors(schema: dict[str, Any], shown: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    for name, field in schema["properties"].items():
        made = {"path": name, "displayName": _words(name), "description": field["description"]}
        yield {**made, "x-descriptors": shown[name]} if name in shown else made


def _words(name: str) -> str:
    """Return a name as words: `minReplicas` is `Min Replicas`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return spaced[:1].upper() + spaced[1:]


def _examples(release: Release) -> Iterator[Manifest]:
    """Yield an example of each kind, without a namespace: the user of the console chooses it."""
    shown = set()
    for path in EXAMPLES:
        for body in release.documents(f"examples/{path}"):
            if body["kind"] in shown:
                continue
            shown.add(body["kind"])
            body["metadata"].pop("namespace", None)
            yield body


def _annotations() -> dict[str, str]:
    prefix = "operators.operatorframework.io.bundle"
    return {
        f"{prefix}.mediatype.v1": MEDIA_TYPE,
        f"{prefix}.manifests.v1": "manifests/",
        f"{prefix}.metadata.v1": "metadata/",
        f"{prefix}.package.v1": OPERATOR,
        f"{prefix}.channels.v1": CHANNEL,
        f"{prefix}.channel.default.v1": CHANNEL,
    }


def _dockerfile() -> str:
    """Return the recipe of the bundle's image: two folders and the same annotations as labels, no program."""
    labels = "".join(f"LABEL {name}={value}\n" for name, value in _annotations().items())
    copies = "".join(f"COPY {name} /{name}/\n" for name in ("manifests", "metadata"))
    return f"{HEADER}# docker build -f bundle.Dockerfile -t IMAGE .\nFROM scratch\n{labels}{copies}"


class _Plain(yaml.SafeDumper):
    """Dumper without anchors, with blocks for texts of several lines."""

    def ignore_aliases(self, data: Any) -> bool:
        """See yaml.SafeDumper."""
        del data
        return True


_Plain.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def _text(manifest: Manifest) -> str:
    return HEADER + yaml.dump(manifest, Dumper=_Plain, sort_keys=False, width=130)


def _image(name: str, value: str) -> str:
    """Return the name of an image.

    Raises:
        ApiSpecError: it is no name of an image, or has neither tag nor digest.
    """
    IMAGE.parse(value, name)
    if not re.search(r":[^/]+$", value):
        example = f"images.example.org/{OPERATOR}:0.1.0"
        raise ApiSpecError(f"{name} must have a tag or a digest, for example {example}, not {value!r}")
    return value


def _replaced(value: str, version: str) -> str:
    """Return the replaced version.

    Raises:
        ApiSpecError: it is no version, or the bundle's own: OLM would find no end of the channel.
    """
    if value and not re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", value):
        raise ApiSpecError(f"--replaces must be a version, for example 0.1.0, not {value!r}")
    if value == version:
        raise ApiSpecError(f"--replaces must be another version than the bundle's own, {version}")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Write the bundle into a folder.

    Returns:
        The exit status: 1 for a bad argument, or a file that cannot be read or written.
    """
    parser = argparse.ArgumentParser(prog="python -m readonly_operator.api.olm", description=__doc__)
    parser.add_argument("folder", type=Path, help="the bundle is written there, for example build/olm")
    parser.add_argument("--operator-image", required=True, metavar="IMAGE", help="the operator, with a tag or a digest")
    parser.add_argument("--engine-image", required=True, metavar="IMAGE", help="brokers, with a tag or a digest")
    parser.add_argument("--replaces", default="", metavar="VERSION", help="the version before, for example 0.1.0")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder (default: this one)")
    options = parser.parse_args(argv)
    try:
        operator_image = _image("--operator-image", options.operator_image)
        release = Release(
            options.root, operator_image, _image("--engine-image", options.engine_image), options.replaces
        )
        _replaced(release.replaces, release.version)
        for name, text in bundle(release).items():
            path = options.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except (OSError, ApiSpecError) as error:
        sys.stderr.write(f"python -m readonly_operator.api.olm: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
