from hypothesis import example, given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.topic.position import EARLIEST, Position


def test_batches_that_the_owner_has_as_acked_are_acked_in_part_no_more(topic):
    for _ in range(6):
        topic.write(4)
    cursor = CursorReplica(topic.chain, EARLIEST)
    cursor.load_batches([(Position(1, entry), 0b0011) for entry in (1, 3, 5)])
    cursor.load_acked_ranges([(EARLIEST, Position(1, 1)), (Position(1, 2), Position(1, 3))])
    assert cursor.batches == [(Position(1, 5), 0b0011)]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["ack", "ack", "ack up to", "write", "write", "roll", "trim", "holes"]),
        st.integers(0, 30),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(OPERATIONS)
@example([("write", 0, 0)] * 3 + [("ack", 2, 0), ("ack", 1, 0), ("ack", 0, 0)])
@example([("write", 0, 0), ("roll", 0, 0), ("roll", 0, 1), ("write", 0, 0), ("ack", 1, 0), ("ack", 0, 0)])
@example([("write", 0, 0)] * 2 + [("ack", 1, 0), ("ack up to", 0, 0)])
def test_the_cursor_is_the_set_of_what_was_acked(make_topic, operations):
    topic, acked = make_topic(), set()
    cursor = CursorReplica(topic.chain, EARLIEST)
    for operation, number, size in operations:
        positions = topic.positions
        if operation == "write":
            topic.write()
        elif operation == "roll":
            topic.roll(1 + size % 2)
        elif operation == "trim":
            topic.trim()
        elif positions:
            chosen = positions[number % len(positions)]
            if operation == "ack":
                cursor.ack(chosen)
                acked.add(chosen)
            elif operation == "ack up to":
                cursor.ack_cumulative(chosen)
                acked |= {position for position in positions if position <= chosen}
            else:
                upper = positions[min(number % len(positions) + size, len(positions) - 1)]
                cursor.load_acked_ranges([(chosen, upper)])
                acked |= {position for position in positions if chosen < position <= upper}
        positions = topic.positions
        assert [p for p in positions if cursor.is_acked(p)] == [p for p in positions if p in acked]
        left = [p for p in positions if p not in acked]
        tail = topic.chain.after(positions[-1]) if positions else topic.chain.at_or_after(EARLIEST)
        if not left:
            assert cursor.first_unacked() >= tail
            assert not topic.chain.readable(cursor.first_unacked())
        else:
            assert cursor.first_unacked() == left[0]
        if min(topic.ledgers) == 1:  # once something was trimmed, it moves on with the next ack only
            assert not cursor.is_acked(topic.chain.after(cursor.mark_delete))
        for position in positions:
            following = [p for p in left if p >= position]
            found = cursor.next_unacked(position)
            assert found == following[0] if following else found >= tail


def test_entries_that_are_acked_together_have_no_parts_left_and_may_be_acked_already(topic):
    positions = [topic.write(messages=4) for _ in range(6)]
    cursor = CursorReplica(topic.chain, EARLIEST)
    cursor.ack_partially(positions[1], 0b1)
    cursor.ack_cumulative(positions[0])
    cursor.ack_entries([tuple(position) for position in (*positions[:3], positions[2], positions[4])])
    assert cursor.mark_delete == positions[2]
    assert isinstance(cursor.mark_delete, Position)
    assert cursor.batches == []
    assert [cursor.is_acked(position) for position in positions] == [True, True, True, False, True, False]
