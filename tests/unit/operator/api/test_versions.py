"""Versions of the API group: served alike, stored in one that the release before knows, and documented."""

from __future__ import annotations

import copy
import json
import pathlib
import re

import pytest
from readonly_operator.api.crds import DEFINITIONS
from readonly_operator.api.structure import without
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.names import GROUP
from readonly_operator.kube.versions import SERVED, STORAGE, VERSION

from tests.support.yaml_documents import load_yaml

ROOT = pathlib.Path(__file__).parents[4]
FILES = sorted(
    [*(ROOT / "crds").glob("readonly*.yaml"), *(ROOT / "charts" / "pulsar-readonly" / "crds").glob("*.yaml")]
)
PAGE = (ROOT / "docs" / "reference" / "api-versions.md").read_text()
ANNOTATION_LIMIT = 262_144
"""Bytes of all annotations of an object. `kubectl apply` without --server-side keeps a copy of the definition there."""


def differences(definition: dict) -> list[str]:
    """Versions of a definition that differ from its first one in more than name and `storage`."""
    first, *others = map(compared, versions(definition))
    return [other["name"] for other in others if {**other, "name": first["name"]} != first]


def compared(version: dict) -> dict:
    """A version without what may differ: `storage`, and descriptions, which not every one has."""
    made = {key: one for key, one in version.items() if key != "storage"}
    made["schema"] = {"openAPIV3Schema": without(version["schema"]["openAPIV3Schema"], {"description"})}
    made["additionalPrinterColumns"] = [without(one, {"description"}) for one in version["additionalPrinterColumns"]]
    return made


def versions(definition: dict) -> list[dict]:
    return definition["spec"]["versions"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_serves_all_versions_alike_and_stores_one(path):
    definition = load_yaml(path.read_text())
    assert [one["name"] for one in versions(definition)] == list(SERVED)
    assert all(one["served"] for one in versions(definition))
    assert [one["name"] for one in versions(definition) if one["storage"]] == [STORAGE]
    assert definition["spec"]["conversion"] == {"strategy": "None"}, "it changes apiVersion alone"
    assert differences(definition) == []


def test_a_version_that_drifts_is_found():
    definition = next(one for one in DEFINITIONS if one.kind == POOL).manifest()
    for path in (("schema", "openAPIV3Schema", "properties", "spec", "properties", "replicas"), ("subresources",)):
        drifted = copy.deepcopy(definition)
        place = versions(drifted)[-1]
        for name in path:
            place = place[name]
        place["maximum"] = 1
        assert differences(drifted) == [SERVED[-1]]
        assert differences(definition) == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind.plural)
def test_the_newest_version_is_the_one_that_kubectl_explains(definition):
    counts = {one["name"]: json.dumps(one).count('"description": ') for one in versions(definition.manifest())}
    newest = counts.pop(SERVED[-1])
    assert newest > 20
    assert set(counts.values()) == {newest if definition.selectable else 0}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_api_server_finds_a_schema_beside_selectable_fields(path):
    """It moves what is the same in all versions out of them, and refuses selectable fields there without the schema."""
    found = versions(load_yaml(path.read_text()))
    fields = [one.get("selectableFields") for one in found]
    if fields[0] and all(one == fields[0] for one in fields):
        assert all(one["schema"] == found[0]["schema"] for one in found)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind.plural)
def test_every_definition_is_small_enough_for_kubectl_apply(definition):
    size = len(json.dumps(definition.manifest(), separators=(",", ":")))
    assert size < 0.9 * ANNOTATION_LIMIT


def test_the_operator_uses_a_version_that_the_release_before_serves_too():
    """Helm leaves old definitions in place, and a rollback brings them back: both know v1alpha1 only."""
    assert {POOL.version, BINDING.version, VERSION, STORAGE} == {"v1alpha1"}
    assert {VERSION, STORAGE} <= set(SERVED)


def test_the_page_has_each_version_and_the_stored_one():
    rows = dict(re.findall(r"^\| `(v\w+)` \| yes \| (yes|no) \|", PAGE, re.MULTILINE))
    assert rows == {name: "yes" if name == STORAGE else "no" for name in SERVED}
    assert f"Objects are stored as `{STORAGE}`, and the operator uses `{VERSION}`." in PAGE


def test_examples_and_pages_use_the_newest_version():
    named = {
        str(path.relative_to(ROOT)): set(re.findall(rf"apiVersion: {re.escape(GROUP)}/(\w+)", path.read_text()))
        for path in (*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "docs").rglob("*.md"))
    }
    assert {name: found for name, found in named.items() if found - {SERVED[-1]}} == {}
    assert {"examples/quickstart.yaml", "docs/how-to/pools.md"} <= {name for name, found in named.items() if found}
