"""Telling whether a live object has what is desired."""

from __future__ import annotations

import pytest
from readonly_operator.apply import covers


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1"}}, {"spec": {"type": "ClusterIP"}}),
        ({"ports": [{"port": 1, "nodePort": 3}]}, {"ports": [{"port": 1}]}),
        ({"selector": {"a": "b"}}, {"selector": {"a": "b"}}),
        ([], []),
    ],
)
def test_covers(live, desired):
    assert covers(live, desired)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({}, {"a": 1}),
        ({"a": 2}, {"a": 1}),
        ({"a": None}, {"a": {}}),
        ({"ports": [{"port": 1}, {"port": 2}]}, {"ports": [{"port": 1}]}),
        ({"ports": []}, {"ports": [{"port": 1}]}),
        ({"selector": {"a": "b", "c": "d"}}, {"selector": {"a": "b"}}),
        ({"a": [1]}, {"a": {"b": 1}}),
    ],
)
def test_does_not_cover(live, desired):
    assert not covers(live, desired)
