"""spec.allowedBindings of a pool and spec.poolRef.namespace of a binding."""

import pathlib

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.api.crds import DEFINITIONS
from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.allowed_bindings import NO_OTHERS, BindingNamespaces, parse_allowed_bindings
from readonly_operator.bindings.admission import denial
from readonly_operator.kube.names import PoolKey
from readonly_operator.kube.namespaces import NamespaceLabels

from tests.support.yaml_documents import load_all_yaml


def spec_schema(kind):
    (found,) = [one for one in DEFINITIONS if one.kind.kind == kind]
    return found.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


@pytest.mark.parametrize("spec", [{}, {"allowedBindings": {}}, {"allowedBindings": {"namespaces": {}}}])
def test_without_the_field_bindings_of_the_own_namespace_are_served(pool_body, spec):
    pool = Pool.load(pool_body(**spec))
    assert pool.allowed_bindings == NO_OTHERS == parse_allowed_bindings(spec)
    assert pool.allowed_bindings.namespaces.scope == "Same"
    assert pool.allowed_bindings.forbidden(["any/thing"]) == []


def test_the_definition_wants_a_selector_exactly_where_it_counts():
    schema = spec_schema("ReadOnlyBrokerPool")["properties"]["allowedBindings"]["properties"]["namespaces"]
    assert schema["properties"]["from"]["default"] == "Same"
    rules = {rule["rule"]: rule["message"] for rule in schema["x-kubernetes-validations"]}
    assert rules["(has(self.from) && self.from == 'Selector') == has(self.selector)"] == (
        "must be given with from: Selector, and only then"
    )


def test_the_field_changes_nothing_where_it_is_absent():
    assert "default" not in spec_schema("ReadOnlyBrokerPool")["properties"]["allowedBindings"]
    reference = spec_schema("ReadOnlyTopicBinding")["properties"]["poolRef"]
    assert reference["required"] == ["name"]
    assert "default" not in reference["properties"]["namespace"]


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({}, {}, True),
        ({"matchLabels": {"tier": "gold"}}, {"tier": "gold", "a": "b"}, True),
        ({"matchLabels": {"tier": "gold"}}, {"tier": "silver"}, False),
        ({"matchLabels": {"tier": "gold", "a": "b"}}, {"tier": "gold"}, False),
        (
            {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]},
            {"tier": "silver"},
            True,
        ),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]}, {}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}, {"tier": "gold"}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}, {}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, {"tier": ""}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, {"tier": "x"}, False),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}, {"a": "b"}, False),
        # the schema refuses these: they must not open the pool
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn"}]}, {}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": []}]}, {"tier": "x"}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist", "values": ["x"]}]}, {}, False),
        (None, {"tier": "gold"}, False),
    ],
)
def test_a_selector_matches_labels_as_in_kubernetes(selector, labels, selected):
    assert BindingNamespaces("Selector", selector).selects(labels) is selected


def test_tenants_and_single_namespaces_of_them():
    allowed = parse_allowed_bindings({"allowedBindings": {"tenants": ["shop", "web/clicks"]}})
    named = ["shop/eu", "shop/us", "web/clicks", "web/orders", "shopping/eu", "web/clicks2"]
    assert allowed.forbidden(named) == ["shopping/eu", "web/clicks2", "web/orders"]


def test_a_reference_may_name_a_pool_of_another_namespace(binding_body):
    body = binding_body()
    assert Binding.load(body).pool == PoolKey("team", "demo")
    assert Binding.load(body).pool_name == "demo"
    body["spec"]["poolRef"]["namespace"] = "platform"
    binding = Binding.load(body)
    assert (binding.full_name, binding.pool, binding.pool_name) == (
        "team/orders",
        PoolKey("platform", "demo"),
        "platform/demo",
    )


def test_the_namespace_of_a_pool_cannot_be_set_changed_or_removed():
    (rule,) = spec_schema("ReadOnlyTopicBinding")["properties"]["poolRef"]["x-kubernetes-validations"]
    assert rule["fieldPath"] == ".namespace"
    assert "has(self.__namespace__) == has(oldSelf.__namespace__)" in rule["rule"], "also from absent to present"
    assert "self.__namespace__ == oldSelf.__namespace__" in rule["rule"]


def test_the_example_is_a_binding_of_another_namespace_that_the_pool_allows():
    path = pathlib.Path(__file__).parents[4] / "examples" / "shared-pool.yaml"
    bodies = list(load_all_yaml(path.read_text()))
    for body in bodies:
        body["metadata"]["uid"] = "uid"
    pool, binding = Pool.load(bodies[0]), Binding.load(bodies[1])
    known = NamespaceLabels()
    known.put({"metadata": {"name": "shop-team", "resourceVersion": "1", "labels": {"pulsar-readers": "shared"}}})
    assert (binding.pool, binding.namespace) == (pool.key, "shop-team")
    assert denial(pool.allowed_bindings, binding, known) == ""
