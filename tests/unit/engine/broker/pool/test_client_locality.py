"""The locality that a client gives in its LOOKUP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.pool.client_locality import (
    MAX_LOCALITY_CHARS,
    MAX_PROPERTIES,
    client_locality,
    names_locality,
)
from readonly_engine.config.kinds import is_locality
from readonly_engine.wire.pulsar_pb2 import CommandLookupTopic


def lookup(listener="", **properties):
    command = CommandLookupTopic(topic="t", request_id=1, advertised_listener_name=listener)
    for key, value in properties.items():
        command.properties.add(key=key, value=value)
    return command


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (lookup(), ""),
        (lookup(rack="/eu-1/eu-1a"), "/eu-1/eu-1a"),
        (lookup(rack="eu-1a"), "/eu-1a"),
        (lookup(rack=" eu-1/eu-1a/ "), "/eu-1/eu-1a"),
        (lookup(listener="/eu-1a"), "/eu-1a"),
        (lookup(listener="external"), ""),
        (lookup(listener="eu-1a"), ""),
        (lookup(listener="/eu-1b", rack="eu-1a"), "/eu-1a"),
        (lookup(listener="external", rack="eu-1a"), "/eu-1a"),
        (lookup(listener="/eu-1b", rack=""), "/eu-1b"),
        (lookup(rack="the rack"), ""),
        (lookup(rack="/"), ""),
        (lookup(zone="eu-1a"), ""),
    ],
)
def test_the_property_wins_and_the_name_of_a_listener_may_be_a_locality(command, expected):
    assert client_locality(command) == expected


def test_a_long_locality_counts_as_none():
    longest = "/" + "a" * (MAX_LOCALITY_CHARS - 1)
    assert client_locality(lookup(rack=longest)) == client_locality(lookup(listener=longest)) == longest
    assert client_locality(lookup(rack=longest + "a")) == client_locality(lookup(listener=longest + "a")) == ""
    assert not names_locality("/a" * (1 << 20))


@pytest.mark.parametrize(("others", "expected"), [(MAX_PROPERTIES - 1, "/eu-1a"), (MAX_PROPERTIES, "")])
def test_a_property_behind_many_others_is_not_looked_for(others, expected):
    properties = {f"p{number}": "x" for number in range(others)} | {"rack": "eu-1a"}
    assert client_locality(lookup(**properties)) == expected


@given(st.text(), st.text())
def test_any_text_gives_a_locality_or_none(listener, rack):
    found = client_locality(lookup(listener, rack=rack))
    assert found == "" or is_locality(found)
