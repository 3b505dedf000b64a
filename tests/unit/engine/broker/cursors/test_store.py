"""The store of local cursors: what is stored with which commit, and its end if cursors cannot be encoded."""

import asyncio

import pytest
from readonly_engine.broker.cursors.store import CursorStore, CursorStoreError
from readonly_engine.broker.cursors.topic_records import TopicRecords
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import Position

from tests.support.played_admin import PlayedAdmin

RECORDS = parse_topic_name("persistent://a/b/cursors")


class Producer:
    async def send(self, value, **_):
        await asyncio.sleep(0)

    async def close(self):
        pass


class Reader:
    async def has_message_available(self):
        return False

    async def close(self):
        pass


class Client:
    async def create_producer(self, *_, **__):
        return Producer()

    async def create_reader(self, *_, **__):
        return Reader()


class Damaged:
    """A cursor of a dispatcher with a position that no record can have."""

    mark_delete = Position(1, -(2**63) - 1)
    has_acked_ranges = has_batches = False


async def test_a_cursor_that_cannot_be_encoded_ends_the_store_and_nothing_hangs():
    lost = []
    store = CursorStore(TopicRecords(Client(), RECORDS, PlayedAdmin(compact=None)), lost.append)
    await store.open()
    cursors, others = store.of("persistent://a/b/one"), store.of("persistent://a/b/other")
    cursor = cursors.create("s", Position(1, 1))
    await store.wait_stored(store.changed(cursors))
    cursor.served = Damaged()
    cursors.acked(cursor)
    store.changed(cursors)
    others.create("s", Position(1, 1))
    with pytest.raises(CursorStoreError, match="cannot be encoded"):
        await store.wait_stored(store.changed(others))
    assert len(lost) == 1
    others.create("t", Position(1, 1))
    with pytest.raises(CursorStoreError, match="cannot be encoded"):
        await store.wait_stored(store.changed(others))
    await store.close()


async def test_a_commit_has_a_change_only_if_it_begins_after_it():
    """A guard that does not wait for it is past a cursor whose SEEK forward a crash undoes."""
    store = CursorStore(TopicRecords(Client(), RECORDS, PlayedAdmin(compact=None)), print)
    await store.open()
    cursors = store.of("persistent://a/b/one")
    cursor = cursors.create("s", Position(1, 1))
    await store.wait_stored(store.changed(cursors))
    assert store.commit_of("persistent://a/b/one") == store.commit_of("persistent://a/b/other") == store.commits.begun
    cursors.reset(cursor, Position(9, 9))
    changed = store.changed(cursors)
    assert store.slowest("persistent://a/b/one") == Position(9, 9), "though it is not stored"
    assert store.commit_of("persistent://a/b/one") == changed > store.commits.begun
    assert store.commit_of("persistent://a/b/other") == store.commits.begun
    await store.close()
