"""What editors and GitOps checks see: the definitions without their rules refuse most mistakes, and nothing that is right."""

import pathlib
import re
from typing import Any

import pytest
from hypothesis import given
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError

from tests.support.yaml_documents import load_all_yaml, load_yaml
from tests.unit.operator.api.structural import violations
from tests.unit.operator.examples import leaves, replaced, schema, wrong_values
from tests.unit.operator.model.test_children import EVERYTHING, PLATFORM, SECURE_STORES
from tests.unit.operator.model.test_engine import specs

ROOT = pathlib.Path(__file__).parents[4]
SOURCE = {
    "serviceUrl": "pulsar://pulsar-broker.pulsar:6650",
    "adminUrl": "http://pulsar-broker.pulsar:8080",
    "metadataStoreUrl": "zk:pulsar-zookeeper.pulsar:2181",
}
POOL, BINDING, READ_ONLY_SOURCE = "ReadOnlyBrokerPool", "ReadOnlyTopicBinding", "ReadOnlySource"
KINDS = {"pool": POOL, "binding": BINDING, "source": READ_ONLY_SOURCE}
EXAMPLES = [
    pytest.param(body, id=f"{path.name}-{body['metadata']['name']}")
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    for body in load_all_yaml(path.read_text())
    if body.get("kind") in KINDS.values()
]
CASES = load_yaml((ROOT / "tests" / "e2e" / "rejected.yaml").read_text())


def nodes(node: Any):
    """Every schema in a schema."""
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from nodes(inner)


@pytest.mark.parametrize("body", EXAMPLES)
def test_examples_are_accepted(body):
    assert list(violations(body["spec"], schema(body["kind"]))) == []


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"source": None, "sourceRef": {"name": "pulsar"}},
        {**EVERYTHING},
        {**SECURE_STORES},
        {**PLATFORM},
        {"explicitLac": {"interval": "90s"}},
        {"explicitLac": {"interval": "10ms", "target": {"configMap": {"name": "c"}, "statefulSet": {"name": "s"}}}},
        {"resources": {"requests": {"cpu": 1, "memory": "1.5Gi"}, "limits": {"memory": "1e9"}}},
        {"disruptionBudget": {"maxUnavailable": 2}, "updateStrategy": {"maxUnavailable": "100%"}},
        {"source": {**SOURCE, "metadataStoreUrl": "zk:a:2181/pulsar/one", "adminUrl": "https://proxy,other:8443/"}},
        {"source": {**SOURCE, "metadataStoreUrl": "oxia://a:6648", "bookkeeperMetadataStoreUrl": "oxia://a:6648/bk"}},
        {"podTemplate": {"metadata": {"labels": {"a": ""}}, "securityContext": {"runAsUser": 1000}}},
        {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "fd00::/8"}}]}},
    ],
)
def test_pools_that_the_operator_accepts_are_accepted(spec):
    given_fields = {name: value for name, value in {"source": SOURCE, **spec}.items() if value is not None}
    assert list(violations(given_fields, schema(POOL))) == []


@pytest.mark.nightly
@given(specs())
def test_whatever_the_operator_accepts_is_accepted(spec):
    assert list(violations(spec, schema(POOL))) == []


@pytest.mark.parametrize(
    "topic",
    ["persistent://public/default/orders-.*", "persistent://a.b-c/d=e:f%25/(x|y)[0-9]{2}", "persistent://a/b/c"],
)
def test_bindings_that_the_operator_accepts_are_accepted(topic):
    spec = {
        "poolRef": {"name": "demo"},
        "topics": [topic],
        "namespaces": ["public/default"],
        "subscriptions": ["ml-.*"],
    }
    assert list(violations(spec, schema(BINDING))) == []


def completed(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of a case, as tests/e2e/test_rejected.py completes it."""
    source = spec.get("source")
    if source == "good":
        return {**spec, "source": SOURCE}
    if isinstance(source, dict) and source.get("good"):
        return {**spec, "source": {**SOURCE, **{key: value for key, value in source.items() if key != "good"}}}
    return spec


def kind_of(case: dict[str, Any]) -> str:
    return KINDS[case["mistake"].partition(":")[0]]


def mistakes(case: dict[str, Any]) -> list[str]:
    return list(violations(completed(case["spec"]), schema(kind_of(case))))


def relational(kind: str) -> set[str]:
    """Messages of the rules that say more than a pattern: about several fields, expressions, or a change."""
    rules = [rule for one in nodes(schema(kind)) for rule in one.get("x-kubernetes-validations", ())]
    plain = re.compile(r"(self|string\(self\))\.matches\('.*'\)", re.DOTALL)
    return {rule["message"] for rule in rules if not plain.fullmatch(rule["rule"])}


@pytest.mark.parametrize("case", CASES, ids=[case["mistake"] for case in CASES])
def test_a_mistake_is_found_unless_only_a_rule_can_find_it(case):
    if mistakes(case):
        return
    names = "metadata.name" in case["reads"]
    _, _, beginning = case["reads"].partition("Required value: ")
    assert names or any(
        message in case["reads"] or (beginning and message.startswith(beginning))
        for message in relational(kind_of(case))
    )


def test_every_rule_about_several_fields_has_its_mistake():
    """What a field's own schema refuses needs no row: the test below makes it. test_explicit_lac.py has the immutable field."""
    for kind in (POOL, BINDING, READ_ONLY_SOURCE):
        said = [case["reads"] for case in CASES if kind_of(case) == kind or kind == READ_ONLY_SOURCE]
        unshown = {message for message in relational(kind) if not any(message[:60] in one for one in said)}
        assert {one for one in unshown if not one.startswith("is immutable")} == set(), "add a row to rejected.yaml"


EACH_FIELD = [
    pytest.param(kind, path, of, spec, id=f"{kind}-{'.'.join(path)}")
    for kind in (POOL, BINDING)
    for path, of, spec in leaves(schema(kind))
]


@pytest.mark.parametrize(("kind", "path", "of", "spec"), EACH_FIELD)
def test_each_field_refuses_what_is_wrong_and_takes_what_is_right(kind, path, of, spec):
    """Schema and operator name the same field."""
    spec = {
        **(
            {"topics": ["persistent://public/default/orders"]}
            if kind == BINDING
            else {}
            if path[0] == "sourceRef"
            else {"source": SOURCE}
        ),
        **spec,
    }
    body = {"metadata": {"name": "demo", "namespace": "team", "uid": "uid", "generation": 1}}
    assert list(violations(spec, schema(kind))) == []
    if path[0] != "sourceRef":
        READABLE[kind].load({**body, "spec": spec})
    field = ".".join(("spec", *path))
    wrong = wrong_values(of)
    assert wrong
    for value in wrong:
        given_spec = replaced(spec, path, value)
        found = list(violations(given_spec, schema(kind)))
        assert [one for one in found if one.startswith((f"{field}:", f"{field}["))], value
        with pytest.raises(ApiSpecError, match=rf"^{re.escape(field)}(?!\w)"):
            READABLE[kind].load({**body, "spec": given_spec})


READABLE = {POOL: Pool, BINDING: Binding}
SEEN_BY_THE_OPERATOR = [
    pytest.param(case, found[0].partition(":")[0], id=case["mistake"])
    for case in CASES
    if kind_of(case) in READABLE
    if (found := [one for one in mistakes(case) if not one.endswith((": unknown", ": duplicate"))])
]


@pytest.mark.parametrize(("case", "field"), SEEN_BY_THE_OPERATOR)
def test_the_operator_names_the_same_field(case, field):
    """Where it reads an object that an older definition let through."""
    metadata = {"name": case.get("name", "demo"), "namespace": "team", "uid": "uid", "generation": 1}
    with pytest.raises(ApiSpecError, match=rf"^{re.escape(field)}(?!\w)"):
        READABLE[kind_of(case)].load({"metadata": metadata, "spec": completed(case["spec"])})


@pytest.mark.parametrize("kind", [POOL, BINDING, READ_ONLY_SOURCE])
def test_every_pattern_rule_is_a_pattern_too(kind):
    for node in nodes(schema(kind)):
        for rule in node.get("x-kubernetes-validations", ()):
            if re.fullmatch(r"(self|string\(self\))\.matches\('.*'\)", rule["rule"], re.DOTALL):
                assert "pattern" in node, rule
