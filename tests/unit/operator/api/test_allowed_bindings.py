"""spec.allowedBindings of a pool and spec.poolRef.namespace of a binding."""

import pathlib

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.allowed_bindings import NO_OTHERS, BindingNamespaces, parse_allowed_bindings
from readonly_operator.bindings.admission import denial
from readonly_operator.kube.namespaces import NamespaceLabels

from tests.support.yaml_documents import load_all_yaml


@pytest.mark.parametrize("spec", [{}, {"allowedBindings": {}}, {"allowedBindings": {"namespaces": {}}}])
def test_without_the_field_bindings_of_the_own_namespace_are_served(pool_body, spec):
    pool = Pool.load(pool_body(**spec))
    assert pool.allowed_bindings == NO_OTHERS == parse_allowed_bindings(spec)
    assert pool.allowed_bindings.namespaces.scope == "Same"
    assert pool.allowed_bindings.forbidden(["any/thing"]) == []


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
