"""States as JSON: the same after a round trip, and tolerant of other versions."""

from __future__ import annotations

import json

import pytest
from readonly_engine.status.document import MAX_NUMBER, DocumentError, decode, encode
from readonly_engine.status.state import Status, TopicState

from tests.support.states import ALL_HOSTILE, CLIENTS, SMALL, TOPIC


@pytest.mark.parametrize("status", [Status(), SMALL, TOPIC, CLIENTS, ALL_HOSTILE])
def test_a_state_comes_back(status):
    assert decode(json.loads(json.dumps(encode(status)))) == status


def test_fields_of_a_later_version_are_ignored_and_missing_ones_have_defaults():
    document = {"later": 1, "broker": {"url": "pulsar://a:1", "later": []}, "topics": [{"name": "t"}]}
    status = decode(document)
    assert status.broker.url == "pulsar://a:1"
    assert status.topics == (TopicState("t"),)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the answer must be an object"),
        ({"broker": None}, "broker must be an object"),
        ({"topics": {}}, "topics must be a list"),
        ({"topics": [{"lag": "5"}]}, "lag must be int or null"),
        ({"topics": [{"consumers": True}]}, "consumers must be int"),
        ({"shortened": 1}, "shortened must be bool"),
        ({"broker": {"uptime_s": None}}, "uptime_s must be float"),
        ({"broker": {"uptime_s": float("inf")}}, "uptime_s must be a number of at most 9.2e\\+18"),
        ({"topics": [{"message_rate": float("nan")}]}, "message_rate must be a number of at most"),
        ({"member_count": 1 << 63}, "member_count must be a number of at most"),
    ],
)
def test_another_type_is_one_clear_error(document, message):
    with pytest.raises(DocumentError, match=message):
        decode(document)


def test_the_largest_figure_is_kept():
    assert decode({"member_count": MAX_NUMBER}).member_count == MAX_NUMBER


def test_a_whole_number_is_a_rate_too():
    assert decode({"topics": [{"message_rate": 3}]}).topics[0].message_rate == 3.0
