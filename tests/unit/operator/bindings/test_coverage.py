"""Topics that only a deleted binding claims."""

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.bindings.coverage import Coverage, Uncovered


@pytest.mark.parametrize(
    ("topic", "covered"),
    [
        ("persistent://shop/eu/orders", True),
        ("persistent://shop/eu/orders-partition-3", True),
        ("persistent://shop/eu/clicks-a-partition-3", True),
        ("persistent://shop/eu/clicks", False),
        ("persistent://shop/us/orders", False),
        ("persistent://all/of/it", True),
        ("persistent://all/of/__change_events", False),
    ],
)
def test_names_expressions_and_namespaces(make_binding, binding_body, topic, covered):
    body = binding_body(topics=["persistent://shop/eu/orders", "persistent://shop/eu/clicks-.*"])
    body["spec"]["namespaces"] = ["all/of"]
    found = Coverage.of([Binding.load(body)])
    assert found.covers(topic) is covered
    assert found.namespaces == ("all/of", "shop/eu")


def test_others_of_other_namespaces_do_not_change_the_value(make_binding):
    leaving = make_binding("a", "persistent://shop/eu/orders")
    far = make_binding("b", "persistent://shop/us/orders")
    assert Uncovered.of(leaving, [far], []) == Uncovered.of(leaving, [], [])


def test_another_binding_keeps_a_topic(make_binding):
    leaving = make_binding("a", "persistent://shop/eu/orders-.*")
    staying = make_binding("b", "persistent://shop/eu/orders-b")
    found = Uncovered.of(leaving, [staying], [])
    assert found.includes("persistent://shop/eu/orders-a")
    assert not found.includes("persistent://shop/eu/orders-b-partition-0")
    assert not found.includes("persistent://shop/eu/clicks")


def test_a_binding_that_cannot_be_read_keeps_its_namespaces(make_binding, binding_body):
    leaving = make_binding("a", "persistent://shop/eu/orders", "persistent://shop/us/orders")
    broken = binding_body(topics=["persistent://shop/eu/(", 7])
    found = Uncovered.of(leaving, [], [broken, {"spec": None}, {}])
    assert not found.includes("persistent://shop/eu/orders")
    assert found.includes("persistent://shop/us/orders")
