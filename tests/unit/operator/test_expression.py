"""Regular expressions that users write, in the operator: the same as in brokers."""

import time

import pytest
from readonly_engine.broker.pool import bindings
from readonly_operator.api import binding as api_binding
from readonly_operator.api.binding import Binding
from readonly_operator.bindings import overlap
from readonly_operator.bindings.overlap import find_overlap

DEADLINE_S = 5.0
"""Python's own engine takes years for such an expression."""


def test_the_worst_expression_stops_nobody(make_binding):
    older = make_binding("a", "persistent://t/n/(a+)+b", "persistent://t/n/" + "a" * 200)
    younger = make_binding("b", "persistent://t/n/(a|aa)+b", "persistent://t/n/" + "a" * 201)
    began = time.monotonic()
    assert find_overlap(older, younger, lambda: ["persistent://t/n/" + "a" * 2000]) == ""
    assert find_overlap(older, younger, lambda: ["persistent://t/n/aab"]) == "persistent://t/n/aab"
    assert time.monotonic() - began < DEADLINE_S


def test_operator_and_brokers_use_the_same():
    assert api_binding.Expression is overlap.Expression is bindings.Expression


def test_what_is_refused_is_not_printed(capfd, binding_body):
    body = binding_body()
    body["spec"]["subscriptions"] = ["(?<=a)b"]
    with pytest.raises(ValueError, match="RE2 syntax"):
        Binding.load(body)
    assert capfd.readouterr() == ("", "")
