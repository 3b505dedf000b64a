from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readonly_engine.broker.cursors import topic_cursors
from readonly_engine.broker.cursors.topic_cursors import MAX_DEFINITION_BYTES, CursorLimitError, TopicCursors, by_topic
from readonly_engine.topic.position import EARLIEST, Position, PositionRanges
from readonly_engine.wire.cursor_records import PAGE, decode_key
from readonly_engine.wire.errors import MalformedFrameError

from tests.support.examples import examples

if TYPE_CHECKING:
    import random

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


def test_a_subscription_is_stored_with_its_start():
    cursors = TopicCursors(TOPIC)
    cursors.create("s", Position(3, 4), 17, [("k", "v")])
    log = cursors.take_changes()
    assert [key for key, _ in log] == [f"d|0|{TOPIC}"]
    assert state(restored(log)) == {"s": (Position(3, 4), (), (), (("k", "v"),), 17)}
    assert not cursors.has_changes
    assert cursors.take_changes() == []


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


def test_acks_of_before_a_move_hide_nothing_after_it():
    cursors = TopicCursors(TOPIC)
    cursor = cursors.create("s", EARLIEST)
    cursor.served = Served(Position(5, 0), [(Position(5, 3), Position(5, 9))])
    cursors.acked(cursor)
    log = cursors.take_changes()
    cursors.reset(cursor, Position(5, 1))
    changes = cursors.take_changes()
    for count in range(1, len(changes) + 1):  # a crash after any record
        assert state(restored(log + changes[:count]))["s"][:3] == (Position(5, 1), (), ())


def test_a_deleted_subscription_leaves_nothing_for_the_next_one_in_its_place():
    cursors = TopicCursors(TOPIC)
    old = cursors.create("old", EARLIEST)
    old.served = Served(Position(5, 0), [(Position(5, 3), Position(5, 9))])
    cursors.acked(old)
    log = cursors.take_changes()
    cursors.delete(old)
    new = cursors.create("new", EARLIEST)
    assert (new.page, new.definition.number) == (old.page, old.definition.number)
    changes = cursors.take_changes()
    for count in range(1, len(changes) + 1):
        assert state(restored(log + changes[:count])) == {"new": (EARLIEST, (), (), (), 0)}
    assert [key.kind for key in by_topic(log + changes)[TOPIC]] == ["m", "d"]


def test_a_place_is_never_used_twice_with_one_generation():
    log = []
    other = TopicCursors(TOPIC)
    other.create("other", EARLIEST)
    log += other.take_changes()
    generations = {1}
    for _ in range(5):
        cursors = restored(log)
        cursor = cursors.create("s", EARLIEST)
        assert cursor.generation not in generations
        generations.add(cursor.generation)
        cursors.reset(cursor, Position(1, 1))
        generations.add(cursor.generation)
        log += cursors.take_changes()
        cursors = restored(log)
        cursors.delete(cursors.find("s"))
        log += cursors.take_changes()
    assert len(generations) == 11


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


def test_acks_without_a_subscription_are_removed():
    cursors = TopicCursors(TOPIC)
    cursor = cursors.create("s", EARLIEST)
    cursor.served = Served(Position(5, 0), [(Position(5, 3), Position(5, 9))])
    cursors.acked(cursor)
    log = cursors.take_changes()
    cursors.delete(cursor)
    log += cursors.take_changes()[:1]  # the crash is before the record that removes the acks
    again = restored(log)
    assert len(again) == 0
    assert again.take_changes() == [(f"a|0|0|0|{TOPIC}", b""), (f"m|0|{TOPIC}", b"")]


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


def test_one_page_is_stored_for_many_acks():
    cursors = TopicCursors(TOPIC)
    all_ = [cursors.create(f"s{number}", EARLIEST) for number in range(2 * PAGE + 1)]
    assert [key for key, _ in cursors.take_changes()] == [f"d|{page}|{TOPIC}" for page in range(3)]
    for cursor in all_[: PAGE + 1]:
        cursor.served = Served(Position(1, 1))
        cursors.acked(cursor)
    assert [key for key, _ in cursors.take_changes()] == [f"m|{page}|{TOPIC}" for page in range(2)]
    assert cursors.slowest == EARLIEST


def test_the_slowest_cursor_is_that_of_the_last_list_of_changes():
    cursors = TopicCursors(TOPIC)
    assert cursors.slowest is None
    one, other = cursors.create("a", Position(1, 1)), cursors.create("b", Position(2, 2))
    one.served = Served(Position(3, 3))
    cursors.acked(one)
    assert cursors.slowest == Position(1, 1)
    cursors.take_changes()
    assert cursors.slowest == Position(2, 2)
    cursors.delete(other)
    assert cursors.slowest == Position(3, 3)


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


def test_records_of_several_topics_are_separate():
    log = []
    for topic in ("a", "b|c"):
        cursors = TopicCursors(topic)
        cursors.create("s", EARLIEST)
        log += cursors.take_changes()
    found = by_topic(log)
    assert {topic: list(map(str, records)) for topic, records in found.items()} == {
        topic: [str(decode_key(f"d|0|{topic}"))] for topic in ("a", "b|c")
    }
    assert by_topic([*log, ("d|0|a", b"")]).keys() == {"b|c"}
    with pytest.raises(MalformedFrameError):
        by_topic([("nonsense", b"")])


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


def test_a_cursor_is_moved_with_acked_ranges():
    cursors = TopicCursors(TOPIC)
    cursor = cursors.create("s", Position(3, 4))
    ranges = ((Position(3, 6), Position(3, 9)), (Position(4, 0), Position(4, 2)))
    cursors.reset(cursor, Position(3, 5), ranges=ranges)
    assert state(restored(cursors.take_changes())) == {"s": (Position(3, 5), ranges, (), (), 0)}


def test_acks_that_follow_do_not_change_records_that_are_made_later():
    """The store makes the records of acks one by one, with turns of others between them."""
    cursors = TopicCursors(TOPIC)
    cursor = cursors.create("s", Position(1, -1))
    log = cursors.take_changes()
    served = cursor.served = Served(Position(1, -1), [(Position(1, 2 * n), Position(1, 2 * n + 1)) for n in range(9)])
    cursors.acked(cursor)
    begun = cursors.begin_changes()
    served.ranges = served.ranges[:3]
    cursors.reset(cursor, Position(7, 7))
    log += [(key, value if isinstance(value, bytes) else value()) for key, value in begun]
    assert len(restored(log).find("s").ranges) == 9
    assert restored(log + cursors.take_changes()).find("s").mark_delete == Position(7, 7)
