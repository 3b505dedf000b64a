"""The locality that a client gives in its LOOKUP."""

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.pool.client_locality import MAX_LOCALITY_CHARS, client_locality, names_locality
from readonly_engine.config.kinds import is_locality
from readonly_engine.wire.pulsar_pb2 import CommandLookupTopic


def lookup(listener="", **properties):
    command = CommandLookupTopic(topic="t", request_id=1, advertised_listener_name=listener)
    for key, value in properties.items():
        command.properties.add(key=key, value=value)
    return command


def test_a_long_locality_counts_as_none():
    longest = "/" + "a" * (MAX_LOCALITY_CHARS - 1)
    assert client_locality(lookup(rack=longest)) == client_locality(lookup(listener=longest)) == longest
    assert client_locality(lookup(rack=longest + "a")) == client_locality(lookup(listener=longest + "a")) == ""
    assert not names_locality("/a" * (1 << 20))


@given(st.text(), st.text())
def test_any_text_gives_a_locality_or_none(listener, rack):
    found = client_locality(lookup(listener, rack=rack))
    assert found == "" or is_locality(found)
