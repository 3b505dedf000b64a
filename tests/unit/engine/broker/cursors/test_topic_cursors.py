import random
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readonly_engine.broker.cursors import topic_cursors
from readonly_engine.broker.cursors.topic_cursors import MAX_DEFINITION_BYTES, CursorLimitError, TopicCursors, by_topic
from readonly_engine.topic.position import EARLIEST, Position, PositionRanges
from readonly_engine.wire.cursor_records import PAGE

from tests.support.examples import examples

TOPIC = "persistent://public/default/t"


@dataclass
class Served:
    mark_delete: Position
    ranges: list = field(default_factory=list)
    batches: list = field(default_factory=list)

    @property
    def has_acked_ranges(self):
        return bool(self.acked_after_mark_delete)

    @property
    def has_batches(self):
        return bool(self.batches)

    @property
    def acked_after_mark_delete(self):
        acked = PositionRanges()
        acked.add_ranges((max(lower, self.mark_delete), upper) for lower, upper in self.ranges)
        return tuple(acked)


def restored(log):
    cursors = TopicCursors(TOPIC)
    cursors.restore(by_topic(log).get(TOPIC, {}).items())
    return cursors


def state(cursors):
    return {
        one.name: (one.mark_delete, one.ranges, one.batches, one.definition.properties, one.definition.created_ms)
        for one in cursors
    }


def test_the_time_of_the_topics_creation_is_stored_with_its_subscriptions():
    cursors = TopicCursors(TOPIC)
    cursors.created(7)
    assert not cursors.has_changes, "nobody needs it"
    for number in range(PAGE + 1):
        cursors.create(f"s{number}", Position(3, 4))
    log = cursors.take_changes()
    assert restored(log).created_ms == 7
    cursors.created(7)
    assert not cursors.has_changes
    cursors.created(9)
    later = cursors.take_changes()
    assert restored(log + later).created_ms == 9
    assert restored(log + later[:1]).created_ms == 7, "the topic is compared with it again"


def test_acks_are_stored():
    cursors = TopicCursors(TOPIC)
    cursor = cursors.create("s", Position(3, 4))
    cursor.served = served = Served(Position(3, 4))
    log = cursors.take_changes()
    served.mark_delete, served.ranges = Position(3, 7), [(Position(3, 8), Position(3, 9))]
    served.batches = [(Position(3, 11), 0b101)]
    cursors.acked(cursor)
    assert cursors.has_changes
    log += cursors.take_changes()
    assert state(restored(log)) == {
        "s": (Position(3, 7), ((Position(3, 8), Position(3, 9)),), ((Position(3, 11), 0b101),), (), 0)
    }
    served.mark_delete, served.ranges, served.batches = Position(3, 11), [], []
    cursors.released(cursor)
    changes = cursors.take_changes()
    assert (f"a|0|0|0|{TOPIC}", b"") in changes
    assert state(restored(log + changes)) == {"s": (Position(3, 11), (), (), (), 0)}


def test_a_subscription_that_moved_to_another_page_exists_once(monkeypatch):
    monkeypatch.setattr(topic_cursors, "PAGE", 1)
    cursors = TopicCursors(TOPIC)
    free, old = cursors.create("free", EARLIEST), cursors.create("s", EARLIEST)
    old.served = Served(Position(5, 0), [(Position(5, 3), Position(5, 9))])
    cursors.acked(old)
    log = cursors.take_changes()
    cursors.delete(free)
    cursors.delete(old)
    assert cursors.create("s", EARLIEST).page == 0
    changes = cursors.take_changes()
    for count in range(1, len(changes) + 1):  # a crash may leave the old one in its page
        again = restored(log + changes[:count])
        assert state(again) == {"s": (EARLIEST, (), (), (), 0)}
        other_order = TopicCursors(TOPIC)
        other_order.restore(reversed(by_topic(log + changes[:count])[TOPIC].items()))
        assert state(other_order) == state(again)
        healed = log + changes[:count] + again.take_changes()
        assert [key.kind for key in by_topic(healed)[TOPIC]].count("a") == 0
        assert state(restored(healed)) == state(again)


def test_a_topic_without_subscriptions_has_no_records_and_begins_anew(monkeypatch):
    monkeypatch.setattr(topic_cursors, "PAGE", 1)
    cursors = TopicCursors(TOPIC)
    both = [cursors.create(name, EARLIEST) for name in "ab"]
    for cursor in both:
        cursor.served = Served(Position(5, 0), [(Position(5, 3), Position(5, 9))])
        cursors.acked(cursor)
    log = cursors.take_changes()
    for cursor in both:
        cursors.delete(cursor)
    changes = cursors.take_changes()
    assert by_topic(log + changes) == {}
    assert not cursors.has_changes
    for count in range(len(changes) + 1):  # a crash after any record
        again = restored(log + changes[:count])
        healed = log + changes[:count] + again.take_changes()
        for cursor in list(again):
            again.delete(cursor)
        healed += again.take_changes()
        assert by_topic(healed) == {}, f"after {count} records"


def test_limits(monkeypatch):
    monkeypatch.setattr(topic_cursors, "MAX_PAGES", 1)
    cursors = TopicCursors(TOPIC)
    with pytest.raises(CursorLimitError, match=f"have {MAX_DEFINITION_BYTES + 1} bytes"):
        cursors.create("n" * (MAX_DEFINITION_BYTES + 1), EARLIEST)
    first = cursors.create("n" * MAX_DEFINITION_BYTES, EARLIEST)
    with pytest.raises(CursorLimitError, match="may have"):
        cursors.set_properties(first, [("", "")])
    for number in range(PAGE - 1):
        cursors.create(f"s{number}", EARLIEST)
    with pytest.raises(CursorLimitError, match="has 256 local subscriptions"):
        cursors.create("more", EARLIEST)
    cursors.delete(first)
    assert cursors.create("more", EARLIEST).definition.number == 0
    with pytest.raises(ValueError, match="exists"):
        cursors.create("more", EARLIEST)


def acked_entries(mark, ranges):
    """The acked ones of the ledger's first entries."""
    return {e for e in range(100) if (0, e) <= mark or any(low < (0, e) <= up for low, up in ranges)}


@pytest.mark.parametrize("page", [1, 2, PAGE])
@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(rng=st.randoms(use_true_random=False), steps=st.integers(1, 80))
def test_after_crashes_nothing_counts_as_acked_that_was_not(monkeypatch, page, rng: random.Random, steps: int):
    """A broker dies after any record, again and again; what it stored completely is exact."""
    monkeypatch.setattr(topic_cursors, "PAGE", page)
    cursors, log = TopicCursors(TOPIC), []
    acked: dict[tuple[str, int], set[int]] = {}

    def began(cursor):
        acked[cursor.name, cursor.generation] = acked_entries(cursor.mark_delete, ())

    for _ in range(steps):
        name = rng.choice("ab")
        cursor = cursors.find(name)
        action = rng.randrange(10)
        if action == 0:
            changes = cursors.take_changes()
            log += changes[: rng.randrange(len(changes) + 1)]
            cursors = restored(log)
            for one in cursors:
                assert acked_entries(one.mark_delete, one.ranges) <= acked[one.name, one.generation]
        elif action == 1:
            log += cursors.take_changes()
            assert state(restored(log)) == state(cursors)
        elif cursor is None:
            began(cursors.create(name, Position(0, rng.randrange(5))))
        elif action == 2:
            cursors.delete(cursor)
        elif action == 3:
            cursors.reset(cursor, Position(0, rng.randrange(5)))
            began(cursor)
        else:
            served = cursor.served
            if served is None:
                cursor.served = served = Served(cursor.mark_delete, list(cursor.ranges))
            if rng.random() < 0.3:
                served.mark_delete = Position(0, served.mark_delete.entry_id + rng.randrange(4))
                served.ranges = [row for row in served.ranges if row[1] > served.mark_delete]
            else:
                low = served.mark_delete.entry_id + rng.randrange(1, 40)
                served.ranges.append((Position(0, low), Position(0, low + 1)))
            acked[name, cursor.generation] |= acked_entries(served.mark_delete, served.ranges)
            cursors.acked(cursor)
