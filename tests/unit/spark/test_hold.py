"""A subscription that holds messages back: how far it moves, and which entries are read for that."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.owner.cursor_admin import CursorState
from readonly_engine.topic.position import EARLIEST, Position
from readonly_spark.options import HoldOptions
from readonly_spark.plan import open_chunks
from readonly_spark.plan.open_chunks import hold_position
from readonly_spark.plan.topic_state import ReadableLedger, TopicState
from readonly_spark.retention import RetentionSubscription

from tests.unit.spark.stored import entry, metadata

TOPIC = "persistent://a/b/c"


def chunk(uuid, number, of=3, **fields):
    return metadata(uuid=uuid, chunk_id=number, num_chunks_from_msg=of, total_chunk_msg_size=9, **fields)


def searched(ledgers, end, size=1):
    """Where to hold a topic that was read up to an end, and the numbers of entries of each read."""
    sizes = []
    state = TopicState(TOPIC, tuple(ReadableLedger(key, len(one) - 1, len(one) * size) for key, one in ledgers.items()))

    async def read(ledger, first, last):
        sizes.append(last - first + 1)
        found = ledgers[ledger.ledger_id][first : last + 1]
        return [entry(first + index, one, b"v" * size, ledger.ledger_id) for index, one in enumerate(found)]

    return asyncio.run(hold_position(state, end, read)), sizes


PLAIN = metadata()
ENCRYPTED = chunk("e", 0)
ENCRYPTED.encryption_keys.add(key="k", value=b"v")


@pytest.mark.parametrize(
    ("ledgers", "end", "held"),
    [
        ({7: [PLAIN] * 3}, Position(7, 3), Position(7, 3)),
        ({7: []}, Position(7, 0), Position(7, 0)),
        ({7: [PLAIN, chunk("a", 0), PLAIN]}, Position(7, 3), Position(7, 1)),
        ({7: [chunk("a", 0), chunk("a", 1), chunk("a", 2)]}, Position(7, 3), Position(7, 3)),
        ({7: [chunk("a", 0), chunk("a", 1), chunk("a", 2)]}, Position(7, 2), Position(7, 0)),  # the end is before the last
        ({6: [chunk("a", 0)], 7: [], 8: [PLAIN, chunk("a", 1)], 9: [PLAIN]}, Position(8, 2), Position(6, 0)),
        ({7: [chunk("a", 0), chunk("b", 0), chunk("a", 1), chunk("a", 2)]}, Position(7, 4), Position(7, 1)),
        ({7: [chunk("a", 1)]}, Position(7, 1), EARLIEST),  # the first one is not there
        ({7: [chunk("a", 0, 2), chunk("a", 1, 2), chunk("a", 0, 2), chunk("a", 1, 2)]}, Position(7, 4), Position(7, 4)),
        ({7: [chunk("a", 0), chunk("a", 1), chunk("a", 2), chunk("a", 1)]}, Position(7, 4), Position(7, 4)),  # again
        ({7: [ENCRYPTED]}, Position(7, 1), Position(7, 1)),  # a row of its own
    ],
)  # fmt: skip
def test_the_first_chunk_of_an_incomplete_message_is_held(ledgers, end, held):
    assert searched(ledgers, end)[0] == held


@pytest.mark.parametrize("after", [open_chunks.MAX_ENTRIES - 1, open_chunks.MAX_ENTRIES])
def test_an_abandoned_message_is_held_until_so_many_entries_follow(after):
    held, sizes = searched({7: [chunk("a", 0), *[PLAIN] * after]}, Position(7, after + 1))
    assert held == (Position(7, 0) if after < open_chunks.MAX_ENTRIES else Position(7, after + 1))
    assert sum(sizes) == open_chunks.MAX_ENTRIES


def test_large_entries_are_read_one_by_one_up_to_a_size(monkeypatch):
    monkeypatch.setattr(open_chunks, "STEP_BYTES", 1000)
    monkeypatch.setattr(open_chunks, "MAX_BYTES", 5000)
    assert searched({7: [PLAIN] * 50}, Position(7, 50), size=990)[1] == [1] * 5


def test_entries_that_cannot_be_read_now_leave_the_position_unknown():
    async def read(*_):
        return []

    state = TopicState(TOPIC, (ReadableLedger(7, 9, 100),))
    assert asyncio.run(hold_position(state, Position(7, 10), read)) is None


class Admin:
    """The admin API: records moves."""

    def __init__(self, at):
        self.moved, self.at = [], at

    async def cursor(self, *_):
        return CursorState(self.at, ())

    async def describe(self, *_):
        return SimpleNamespace(properties=(("pulsar-readonly", "spark-hold"),), consumers=0)

    async def move_subscription(self, _, __, mark_delete):
        self.moved.append(mark_delete)
        return True


@pytest.mark.parametrize(
    ("kept", "moved", "asked"),
    [
        ([Position(7, 9)], [Position(7, 8)], 1),  # no open message: to the end
        ([Position(7, 5)], [Position(7, 4)], 1),  # and is not looked at again for the same end
        ([EARLIEST], [], 1),  # it stays
        ([Position(7, 1)], [], 1),  # before its place: never backwards
        ([None, Position(7, 9)], [Position(7, 8)], 2),  # later
    ],
)
async def test_a_subscription_moves_to_what_is_to_be_held(kept, moved, asked):
    calls = []

    async def keep(*asked_for):
        calls.append(asked_for)
        return kept[len(calls) - 1]

    admin = Admin(Position(7, 1))
    hold = RetentionSubscription(HoldOptions(subscription="s", urls=("http://h:1",)), keep)
    hold._admin = admin
    await hold.ensure({TOPIC: Position(7, 2)})
    for _ in range(2):
        await hold.move({TOPIC: Position(7, 9)}, now=True)
    await hold.close()
    assert admin.moved == moved
    assert calls == [(TOPIC, Position(7, 9))] * asked


@pytest.mark.parametrize(
    ("start", "at", "moved"),
    [
        (Position(7, 2), Position(7, 1), []),
        (Position(7, 2), Position(6, 9), []),  # what was read before
        (Position(7, 2), Position(7, 40), [Position(7, 1)]),  # its owner died after it had created it
        (EARLIEST, Position(7, 40), [EARLIEST]),
    ],
)
async def test_a_subscription_that_was_made_and_not_moved_is_moved_where_the_query_begins(start, at, moved):
    admin = Admin(at)
    hold = RetentionSubscription(HoldOptions(subscription="s", urls=("http://h:1",)), keep=None)
    hold._admin = admin
    assert await hold.ensure({TOPIC: start}) == {}
    await hold.close()
    assert admin.moved == moved
