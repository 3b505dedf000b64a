"""Sentences about a state."""

from __future__ import annotations

import pytest
from readonly_engine.status.state import OWNER, SubscriptionState
from readonly_engine.status.words import served_text

COORDINATOR = "pulsar://broker-0:6650"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({}, "this broker"),
        ({"served_by": OWNER}, OWNER),
        ({"split": "coordinating", "members": 2}, "this broker, which leases it to 2 more"),
        ({"split": "following", "coordinator": COORDINATOR}, f"this broker, by leases of {COORDINATOR}"),
        ({"split": "claiming"}, "this broker, split: claiming"),
    ],
)
def test_who_serves_a_subscription(state, text):
    assert served_text(SubscriptionState(**state)) == text
