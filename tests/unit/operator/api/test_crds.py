"""The custom resource definitions: documented, structural, and in step with the typed specs."""

import functools
import json
import pathlib
import re

import pytest
from readonly_operator.api import crds, reference
from readonly_operator.api.pool import Pool
from readonly_operator.kube.kinds import BINDING, POOL, SOURCE
from readonly_operator.kube.names import GROUP, VERSION

from tests.support.yaml_documents import load_yaml

CRDS = pathlib.Path(__file__).parents[4] / "crds"
EXAMPLES = pathlib.Path(__file__).parents[4] / "examples"


@functools.cache
def load(kind) -> dict:
    return load_yaml((CRDS / f"{kind.plural}.yaml").read_text())


def schema(kind) -> dict:
    return load(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def walk(node: dict, path: str = ""):
    yield path, node
    for name, child in (node.get("properties") or {}).items():
        yield from walk(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from walk(node[key], f"{path}[]")


KINDS = pytest.mark.parametrize("kind", [POOL, BINDING, SOURCE], ids=lambda kind: kind.plural)


@KINDS
def test_the_definition_is_the_kind_that_the_operator_watches(kind):
    definition = load(kind)
    assert definition["metadata"]["name"] == f"{kind.plural}.{kind.group}"
    assert definition["spec"]["group"] == kind.group
    assert definition["spec"]["scope"] == "Namespaced"
    assert definition["spec"]["names"]["kind"] == kind.kind
    assert definition["spec"]["names"]["categories"] == ["pulsar"]
    (version,) = definition["spec"]["versions"]
    assert (version["name"], version["served"], version["storage"]) == (kind.version, True, True)
    assert version["subresources"]["status"] == {}


COPY = ".status.source.spec."
"""Below it are the fields of spec.source, which are described there."""


@KINDS
def test_kubectl_explain_has_a_word_on_every_field(kind):
    silent = [
        path
        for path, node in walk(schema(kind))
        if not path.endswith("[]") and path != ".metadata" and not path.startswith(COPY) and not node.get("description")
    ]
    assert silent == []


@KINDS
def test_every_field_has_a_type(kind):
    untyped = [
        path for path, node in walk(schema(kind)) if "type" not in node and not node.get("x-kubernetes-int-or-string")
    ]
    assert untyped == []


@KINDS
def test_nothing_is_kept_that_the_schema_does_not_know(kind):
    assert not any(node.get("x-kubernetes-preserve-unknown-fields") for _, node in walk(schema(kind)))


@KINDS
def test_every_rule_has_a_message_and_every_text_a_limit(kind):
    for path, node in walk(schema(kind)["properties"]["spec"]):
        for rule in node.get("x-kubernetes-validations", ()):
            assert rule["message"], path
        if node.get("type") == "string":
            assert "maxLength" in node or "enum" in node, path


def repeated(node: dict, times: int = 1):
    """Yield the parts of a schema with how often one object may have them."""
    yield node, times
    for child in (node.get("properties") or {}).values():
        yield from repeated(child, times)
    for key, most in (("items", "maxItems"), ("additionalProperties", "maxProperties")):
        if isinstance(node.get(key), dict):
            yield from repeated(node[key], times * node.get(most, 10**6))


@KINDS
def test_kubernetes_1_30_accepts_the_cost_of_rules_of_numbers_or_texts(kind):
    """It refused the definition of pools: it takes such a text for one of 3 MB, and a regular expression for 5 million units of
    10 million. Measured with `kubectl apply --dry-run=server`: isQuantity is accepted 15 times, and refused 16 times."""
    for node, times in repeated(schema(kind)):
        if node.get("x-kubernetes-int-or-string"):
            (rule,) = (one["rule"] for one in node["x-kubernetes-validations"])
            assert times <= (1 if "matches" in rule else 15), rule


@KINDS
def test_every_field_that_may_be_left_out_says_what_then(kind):
    silent = [
        path
        for path, node in walk(schema(kind)["properties"]["spec"])
        if node.get("type") not in {"object", "array"}
        and not re.search("Required|Default|[Ww]ithout", node.get("description", "Required"))
    ]
    assert silent == []


MAX_APPLIED_BYTES = 250_000
"""The API server allows 262,144 bytes in the annotations of an object. The rest is for keys and for the next fields."""


def applied(definition: dict) -> bytes:
    """Return the annotation of `kubectl apply`: compact JSON in Go's form, which escapes three characters for HTML."""
    text = json.dumps(definition, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode() + b"\n"


@pytest.mark.parametrize("path", sorted(CRDS.glob("read*.yaml")), ids=lambda path: path.stem)
def test_kubectl_apply_can_keep_its_copy_of_the_definition(path):
    size = len(applied(load_yaml(path.read_text())))
    assert size <= MAX_APPLIED_BYTES, f"{path.name}: {size:,} bytes; shorten descriptions, or leave out foreign fields"


def test_the_copy_of_kubectl_is_counted_with_its_escapes():
    assert applied({"rule": "a<b && c>d", "e": "é"}) == (
        '{"rule":"a\\u003cb \\u0026\\u0026 c\\u003ed","e":"é"}\n'.encode()
    )


def test_examples_and_pages_use_the_version_of_the_definitions():
    root = CRDS.parent
    named = {
        str(path.relative_to(root)): set(re.findall(rf"apiVersion: {re.escape(GROUP)}/(\w+)", path.read_text()))
        for path in (*EXAMPLES.rglob("*.yaml"), *(root / "docs").rglob("*.md"))
    }
    assert {name: found for name, found in named.items() if found - {VERSION}} == {}
    assert {"examples/quickstart.yaml", "docs/how-to/pools.md"} <= {name for name, found in named.items() if found}


def test_the_files_are_what_the_typed_specs_say():
    for name, text in crds.files().items():
        assert (CRDS / name).read_text() == text, f"crds/{name} is behind operator/readonly_operator/api: make crds"


def test_the_api_reference_is_what_the_typed_specs_say():
    assert (CRDS.parent / "docs" / "reference" / "api.md").read_text() == reference.page(), (
        "docs/reference/api.md is behind: make crds"
    )


def test_the_api_reference_has_every_field():
    page = reference.page()
    for kind in (POOL, BINDING, SOURCE):
        for path, _ in walk(schema(kind)["properties"]["spec"], "spec"):
            top = path.removesuffix("[]")
            if top != "spec" and not any(top.startswith(foreign) for foreign in reference.FOREIGN):
                assert f"`{top}`" in page, path


def test_examples_in_messages_are_right_by_their_own_rules():
    source = schema(POOL)["properties"]["spec"]["properties"]["source"]
    for name, field in source["properties"].items():
        if field["type"] != "string":
            continue
        rule, message = field["x-kubernetes-validations"][0]["rule"], field["x-kubernetes-validations"][0]["message"]
        pattern = re.fullmatch(r"self\.matches\('(.*)'\)", rule)[1]
        assert re.match(pattern, message.rpartition(" ")[2]), name


def test_the_pages_about_pools_show_what_the_definitions_allow():
    pages = ("pools.md", "pool-network.md", "pool-pods.md")
    text = "".join((CRDS.parent / "docs" / "how-to" / page).read_text() for page in pages)
    whole, listeners, *others = (load_yaml(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    whole["metadata"]["uid"] = "uid"
    pool = Pool.load(whole)
    assert (pool.cache.size, pool.replicas, pool.autoscaling.max_replicas) == ("1Gi", 2, 12)
    whole["spec"]["listeners"] = listeners["listeners"]
    assert Pool.load(whole).listeners.external.host == "{broker}.pulsar.example.com"
    known = {path for path, _ in walk(schema(POOL)["properties"]["spec"])}
    assert set(fields_of(whole["spec"])) <= known
    for part in others:
        changed = {**whole, "spec": {**whole["spec"], **part}}
        Pool.load(changed)
        assert set(fields_of(changed["spec"])) <= known


def fields_of(value, path: str = ""):
    """Paths of all fields of an object whose schema names its fields."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if not any(
            path.endswith(end) for end in ("resources.requests", "resources.limits", "Labels", "labels", "annotations")
        ):
            yield f"{path}.{key}"
        yield from fields_of(inner, f"{path}.{key}")
