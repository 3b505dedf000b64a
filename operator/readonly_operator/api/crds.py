"""Generate the custom resource definitions from the typed specs: `python -m readonly_operator.api.crds`, run by `make crds`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from readonly_operator.api import binding_definition, source_definition
from readonly_operator.api.binding import BindingSpec
from readonly_operator.api.pool import PoolSpec, Source, definition
from readonly_operator.api.schema import Declared, Nested, Rule, Schema, described
from readonly_operator.api.status import NO_STATUS
from readonly_operator.kube.kinds import BINDING, POOL, SOURCE, Kind, Manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_operator.api.status import Column

HEADER = "# Made by `make crds` from operator/readonly_operator/api/; do not edit.\n"
WIDTH = 130

KEPT = {
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "helm.sh/resource-policy": "keep",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}
"""Annotations of a definition. A tool that prunes must leave it in place: the API server deletes every pool and binding with it.

Sources: sync options of Argo CD (Prune, Delete), `spec.prune` of a Flux Kustomization, resource policy in the tips of Helm.
"""


@dataclass(frozen=True, slots=True)
class Definition:
    """Input of a custom resource definition.

    Attributes:
        kind: of its objects.
        short: short name for kubectl.
        description: description of an object.
        spec: its spec.
        wanted: description of its spec.
        status: schema of its status.
        columns: of `kubectl get`.
        rules: of the whole object.
        scale: paths of its scale subresource; None for none.
        selectable: fields for field selectors.
    """

    kind: Kind
    short: str
    description: str
    spec: Schema
    wanted: str
    status: Schema
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    scale: dict[str, str] | None = None
    selectable: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        """Return the CustomResourceDefinition."""
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{self.kind.plural}.{self.kind.group}",
                "labels": {"app.kubernetes.io/name": "pulsar-readonly", "app.kubernetes.io/component": "crds"},
                "annotations": dict(KEPT),
            },
            "spec": {
                "group": self.kind.group,
                "scope": "Namespaced",
                "names": {
                    "kind": self.kind.kind,
                    "listKind": f"{self.kind.kind}List",
                    "plural": self.kind.plural,
                    "singular": self.kind.kind.lower(),
                    "shortNames": [self.short],
                    "categories": ["pulsar"],
                },
                "versions": [self._version()],
            },
        }

    def _version(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "name": self.kind.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}, **({"scale": self.scale} if self.scale else {})},
        }
        if self.selectable:
            made["selectableFields"] = [{"jsonPath": path} for path in self.selectable]
        made["additionalPrinterColumns"] = [column.openapi() for column in self.columns]
        made["schema"] = {"openAPIV3Schema": self._schema()}
        return made

    def _schema(self) -> dict[str, Any]:
        made: dict[str, Any] = {"description": self.description, "type": "object", "required": ["spec"]}
        if self.rules:
            made["x-kubernetes-validations"] = [rule.openapi() for rule in self.rules]
        made["properties"] = {
            "apiVersion": {
                "description": f"Group and version of the API: {self.kind.api_version}.",
                "type": "string",
            },
            "kind": {"description": f"{self.kind.kind}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": described(Declared(self.spec, self.wanted)),
            "status": described(Declared(self.status, "Last observed state. Do not edit it.")),
        }
        status = made["properties"]["status"]
        if NO_STATUS.keys() <= status["properties"].keys():
            status["default"] = dict(NO_STATUS)
        return made


DEFINITIONS = (
    Definition(
        POOL,
        "robp",
        definition.DESCRIPTION,
        Nested(PoolSpec),
        "Desired pool.",
        definition.STATUS,
        definition.COLUMNS,
        definition.RULES,
        scale=definition.SCALE,
    ),
    Definition(
        BINDING,
        "rotb",
        binding_definition.DESCRIPTION,
        Nested(BindingSpec),
        "Topics, and the pool that serves them.",
        binding_definition.STATUS,
        binding_definition.COLUMNS,
        selectable=binding_definition.SELECTABLE,
    ),
    Definition(
        SOURCE,
        "ros",
        source_definition.DESCRIPTION,
        Nested(Source),
        "The source Pulsar cluster that owns the topics.",
        source_definition.STATUS,
        source_definition.COLUMNS,
    ),
)


def files() -> dict[str, str]:
    """Return the definitions as files: text by name."""
    return {
        f"{one.kind.plural}.yaml": HEADER + yaml.dump(one.manifest(), Dumper=_Plain, sort_keys=False, width=WIDTH)
        for one in DEFINITIONS
    }


class _Plain(yaml.SafeDumper):
    """Dumper without anchors: repeated values are written repeatedly."""

    def ignore_aliases(self, data: Any) -> bool:
        """See yaml.SafeDumper."""
        del data
        return True


def main(argv: Sequence[str] | None = None) -> int:
    """Write the definitions into folders.

    Returns:
        The exit status: 1 when a folder cannot be written to.
    """
    parser = argparse.ArgumentParser(prog="python -m readonly_operator.api.crds", description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path, help="they are written there, for example crds")
    folders = parser.parse_args(argv).folder
    made = files()
    try:
        for folder in folders:
            for name, text in made.items():
                (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"python -m readonly_operator.api.crds: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
