import asyncio

import pytest
from readonly_engine.broker.cursors.deletions import TopicDeletions
from readonly_engine.broker.cursors.topic_cursors import TopicCursors
from readonly_engine.metadata.cluster import StoredTopic
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.cursor_admin import CursorState
from readonly_engine.topic.position import EARLIEST, Position

from tests.support.ledgers import ledger_list
from tests.support.played_admin import PlayedAdmin

TOPIC = parse_topic_name("orders")


def topic(created_ms, *ledgers):
    return StoredTopic(created_ms, ledger_list(*ledgers))


def cursors(created_ms, *starts):
    found = TopicCursors(str(TOPIC))
    found.created(created_ms)
    for number, start in enumerate(starts):
        found.create(f"s{number}", start)
    return found


def was_deleted(stored, known, *, exists=True, guard=None):
    owner = PlayedAdmin(exists=exists, cursor=CursorState(guard, ()))
    store = PlayedAdmin(topic=stored)
    deleted = asyncio.run(TopicDeletions(store.topic, owner, "guard-0").was_deleted(TOPIC, known))
    assert store.asked == [("topic", TOPIC)]
    assert {("exists", TOPIC), ("cursor", TOPIC, "guard-0")} >= {*owner.asked}
    return deleted


@pytest.mark.parametrize("exists", [True, False])
def test_a_missing_topic_was_deleted_if_its_owner_says_so_too(exists):
    assert was_deleted(None, cursors(7, Position(3, 4)), exists=exists) != exists


def test_a_topic_that_was_created_again_was_deleted():
    known = cursors(7, Position(3, 4), EARLIEST)
    assert was_deleted(topic(9, 5), known)
    assert known.created_ms == 9


@pytest.mark.parametrize(
    ("stored", "known", "guard"),
    [
        (topic(7, 5), cursors(7, Position(3, 4)), None),  # its ledgers are trimmed, and somebody has deleted the guard
        (topic(9, 3, 5), cursors(7, Position(3, 4)), None),  # a copied metadata store
        (topic(9, 5), cursors(7, Position(3, 4)), Position(5, -1)),  # the same, and a trimmed ledger
        (topic(9, 5), cursors(0, Position(3, 4)), None),  # records of an earlier version
        (topic(9, 5), cursors(7), None),
    ],
)
def test_a_topic_that_may_be_the_same_keeps_its_subscriptions(stored, known, guard):
    assert not was_deleted(stored, known, guard=guard)
    assert known.created_ms == stored.created_ms
