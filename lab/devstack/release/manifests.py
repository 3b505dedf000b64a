"""Manifests with the image names of a release: one YAML to apply, the definitions alone, and a bundle for kustomize.

`install.yaml` has the objects of manifests/cluster-wide. The bundle has manifests/ unchanged, and overlays that name the images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from devstack.errors import DevstackError
from devstack.release.archives import Member, folder_members, text_members

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from devstack.release.inputs import ReleaseInputs

PLACEHOLDER: Final = "OPERATOR_IMAGE"
"""Image in manifests/operator/deployment.yaml."""
_UNDERSTOOD: Final = {"apiVersion", "kind", "resources", "images"}
_LEFT_OUT: Final = "overlays/"
"""Folder of manifests/ for the project's own tests."""
_COMPONENT: Final = "kustomize.config.k8s.io/v1alpha1"
_KUSTOMIZATION: Final = "kustomize.config.k8s.io/v1beta1"


def definitions(tree: Path) -> str:
    """Return the custom resource definitions in one YAML."""
    return "---\n".join(path.read_text(encoding="utf-8") for path in sorted((tree / "crds").glob("readonly*.yaml")))


def install_yaml(tree: Path, inputs: ReleaseInputs) -> str:
    """Return everything that an installation for all namespaces needs, in one YAML.

    Raises:
        DevstackError: manifests/cluster-wide uses a feature of kustomize that is not rendered here, or has no Deployment.
    """
    texts = [_with_images(path, inputs) for path in _files(tree / "manifests" / "cluster-wide")]
    made = "---\n".join(text if text.endswith("\n") else f"{text}\n" for text in texts)
    if made.count(inputs.image("operator")) != 1 or PLACEHOLDER in made:
        raise DevstackError("release: manifests/cluster-wide has no Deployment of the operator, or more than one")
    head = f"# pulsar-readonly {inputs.version}, commit {inputs.commit}. kubectl apply --server-side -f install.yaml\n"
    return head + made


def kustomize_members(tree: Path, inputs: ReleaseInputs) -> dict[str, Member]:
    """Return the files of the bundle for kustomize, in one folder."""
    top = f"pulsar-readonly-{inputs.version}/"
    manifests = folder_members(tree / "manifests")
    kept = {f"{top}manifests/{name}": member for name, member in manifests.items() if not name.startswith(_LEFT_OUT)}
    overlays = {
        "images/kustomization.yaml": _images(inputs),
        "kustomization.yaml": _overlay("All namespaces", "manifests/cluster-wide", "images"),
        "namespaced/kustomization.yaml": _overlay("One namespace", "../manifests/namespaced", "../images"),
    }
    return {**folder_members(tree / "crds", f"{top}crds/"), **kept, **text_members(overlays, top)}


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that a kustomization includes, in its order."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    images = kustomization.get("images", [])
    if set(kustomization) - _UNDERSTOOD or [one for one in images if one["name"] != PLACEHOLDER or "newName" in one]:
        raise DevstackError(f"release: {folder.name}/kustomization.yaml has fields that install.yaml would lack")
    for name in kustomization["resources"]:
        path = folder / name
        if path.is_dir():
            yield from _files(path.resolve())
        else:
            yield path


def _with_images(path: Path, inputs: ReleaseInputs) -> str:
    """Return the text of a file, with image and arguments of the operator's Deployment."""
    text = path.read_text(encoding="utf-8")
    if PLACEHOLDER not in text:
        return text
    body: dict[str, Any] = yaml.safe_load(text)
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["image"] = inputs.image("operator")
    container["args"].append(_engine_argument(inputs))
    return yaml.safe_dump(body, sort_keys=False, width=130)


def _engine_argument(inputs: ReleaseInputs) -> str:
    return f"--engine-image={inputs.image('engine')}"


def _images(inputs: ReleaseInputs) -> str:
    """Return the kustomize component that names the images; each overlay includes it."""
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": _engine_argument(inputs)}]
    body = {
        "apiVersion": _COMPONENT,
        "kind": "Component",
        "images": [{"name": PLACEHOLDER, "newName": inputs.repository("operator"), "newTag": inputs.version}],
        "patches": [
            {
                "target": {"kind": "Deployment", "name": "pulsar-readonly-operator"},
                "patch": yaml.safe_dump(patch, sort_keys=False, width=200),
            }
        ],
    }
    return "# Images of this release.\n" + yaml.safe_dump(body, sort_keys=False, width=200)


def _overlay(scope: str, resource: str, component: str) -> str:
    body = {
        "apiVersion": _KUSTOMIZATION,
        "kind": "Kustomization",
        "resources": [resource],
        "components": [component],
    }
    return f"# {scope}, with the images of this release.\n" + yaml.safe_dump(body, sort_keys=False)
