"""Cursors and subscriptions in answers of the owner's admin API."""

import asyncio

import pytest
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.admin import parse_ranges
from readonly_engine.owner.cursor_admin import AckedState, CursorAdmin, CursorState, SubscriptionDescription
from readonly_engine.owner.errors import OwnerRefusedError, OwnerUnavailableError
from readonly_engine.topic.position import EARLIEST, Position

from tests.support.played_admin import PlayedAdmin

TOPIC = parse_topic_name("orders")
INTERNAL = {
    "ledgers": [{"ledgerId": 3, "entries": 5}, {"ledgerId": 4, "entries": 0}],
    "cursors": {
        "a+b": {"markDeletePosition": "3:1", "individuallyDeletedMessages": "[(3:2..3:3]]"},
        "none": {"state": "NoLedger"},
    },
}
STATS = {
    "subscriptions": {
        "a b": {"isDurable": True, "isReplicated": True, "subscriptionProperties": {"k": "v"}, "consumers": [{}, {}]},
        "reader": {"isDurable": False},
    }
}


def cursor_admin(stats=STATS, **sizes):
    return CursorAdmin(PlayedAdmin(internal_stats=INTERNAL | sizes, stats=stats))


def run(coroutine):
    return asyncio.run(coroutine)


def test_acks_of_a_subscription():
    admin = cursor_admin()
    assert run(admin.acked(TOPIC, "a b")) == AckedState(
        ((EARLIEST, Position(3, 1)), (Position(3, 2), Position(3, 3))), ((3, 5), (4, 0))
    )
    assert run(admin.acked(TOPIC, "other")) is None
    with pytest.raises(OwnerUnavailableError, match="no position of subscription none"):
        run(admin.acked(TOPIC, "none"))


@pytest.mark.parametrize(
    ("sizes", "entry_bytes"),
    [
        ({}, 0),
        ({"currentLedgerEntries": 3, "currentLedgerSize": 10, "numberOfEntries": 8, "totalSize": 800}, 4),
        ({"currentLedgerEntries": 0, "currentLedgerSize": 0, "numberOfEntries": 8, "totalSize": 800}, 100),
        ({"currentLedgerEntries": 0, "currentLedgerSize": 0, "numberOfEntries": 0, "totalSize": 0}, 0),
    ],
)
def test_where_a_subscription_is_and_how_large_entries_are(sizes, entry_bytes):
    admin = cursor_admin(**sizes)
    assert run(admin.cursor(TOPIC, "a b")) == CursorState(Position(3, 1), ((3, 5), (4, 0)), entry_bytes)
    assert run(admin.cursor(TOPIC, "other")).mark_delete is None


def test_the_description_of_a_durable_subscription():
    admin = cursor_admin()
    assert run(admin.describe(TOPIC, "a b")) == SubscriptionDescription((("k", "v"),), replicated=True, consumers=2)
    assert run(admin.describe(TOPIC, "reader")) is None
    assert run(admin.describe(TOPIC, "other")) is None
    assert run(admin.exists(TOPIC))


def test_a_missing_topic():
    admin = cursor_admin(None)
    assert not run(admin.exists(TOPIC))
    with pytest.raises(OwnerRefusedError, match=f"there is no topic {TOPIC}"):
        run(admin.describe(TOPIC, "s"))


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("[]", []),
        ("", []),
        ("[(4:0..4:1]]", [((4, 0), (4, 1))]),
        ("[(4:-1..4:1],(4:5..7:12]]", [((4, -1), (4, 1)), ((4, 5), (7, 12))]),
    ],
)
def test_ranges_of_internal_stats_are_parsed(text, ranges):
    assert parse_ranges(text) == ranges
