"""States as JSON: the same after a round trip, and tolerant of other versions."""

import json

import pytest
from readonly_engine.status.document import MAX_ITEMS, MAX_NUMBER, DocumentError, decode, encode
from readonly_engine.status.state import Status
from readonly_engine.top.observed import Observed
from readonly_engine.top.screen import render

from tests.support.states import ALL_HOSTILE, CLIENTS, SMALL, TOPIC


@pytest.mark.parametrize("status", [Status(), SMALL, TOPIC, CLIENTS, ALL_HOSTILE])
def test_a_state_comes_back(status):
    assert decode(json.loads(json.dumps(encode(status)))) == status


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
        ({"broker": {"uptime_s": float("nan")}}, "uptime_s must be a number between"),
        ({"broker": {"uptime_s": float("inf")}}, "uptime_s must be a number between"),
        ({"broker": {"uptime_s": 10**400}}, "uptime_s must be a number between"),
        ({"relief": {"delivered_bytes": 10**400}}, "delivered_bytes must be a number between"),
        ({"topics": [{"message_rate": float("-inf")}]}, "message_rate must be a number between"),
        ({"topics": [{"lag": 1 << 63}]}, "lag must be a number between"),
        ({"topics": [{}] * (MAX_ITEMS + 1)}, "topics must have at most 1000 items"),
    ],
)
def test_another_type_is_one_clear_error(document, message):
    with pytest.raises(DocumentError, match=message):
        decode(document)


def test_the_greatest_numbers_and_lists_can_be_shown():
    largest = MAX_NUMBER - 1
    document = {"topics": [{"lag": largest, "byte_rate": 9e18}] * MAX_ITEMS, "relief": {"delivered_bytes": largest}}
    status = decode({**document, "broker": {"uptime_s": 9e18}})
    assert len(status.topics) == MAX_ITEMS
    assert render([Observed("http://a", status)], 120)


def test_a_whole_number_is_a_rate_too():
    assert decode({"topics": [{"message_rate": 3}]}).topics[0].message_rate == 3.0
