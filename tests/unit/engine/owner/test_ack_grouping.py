"""AckGroupingTracker: consumers open and close, commands are answered or lost."""

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.owner.ack_grouping import MAX_ENTRIES, AckGroupingTracker

DELAY = 0.01


def ids(*numbers):
    """Return bytes in the place of encoded message ids, one each."""
    return bytes(numbers)


def sent(outgoing):
    return [(one.channel, sorted(one.ids)) for one in outgoing]


def two_consumers():
    batches = AckGroupingTracker(DELAY)
    batches.channel_opened("a", "line", 0.0)
    batches.channel_opened("b", "line", 0.0)
    return batches


def test_acks_of_one_connection_go_together_through_the_first_consumer():
    batches = two_consumers()
    assert batches.next_timer() is None
    batches.add("b", ids(1), 1, 1.0)
    batches.add("a", ids(2, 3), 2, 1.005)
    assert batches.next_timer() == 1.0 + DELAY
    assert sent(batches.on_timer(1.009)) == []
    assert sent(batches.on_timer(1.01)) == [("b", [1, 2, 3])]
    assert batches.next_timer() is None
    assert batches.unanswered == ids(1, 2, 3)
    batches.answered(1)
    assert batches.unanswered == b""
    assert batches.first_unanswered is None


def test_a_full_command_is_due_at_once():
    batches = two_consumers()
    batches.add("a", ids(1), 1, 1.0)
    batches.add("b", ids(2), MAX_ENTRIES, 1.001)
    assert batches.next_timer() == 1.001


def test_first_unanswered_is_the_oldest_unanswered_ack():
    batches = two_consumers()
    batches.add("a", ids(1), 1, 1.0)
    before = batches.added
    (first,) = batches.flush_all()
    batches.add("a", ids(2), 1, 1.0)
    assert batches.first_unanswered <= before
    batches.lost(first.number, 1.0)
    assert batches.first_unanswered <= before, "it goes again, and is as old as it was"
    (again,) = batches.on_timer(2.0)
    batches.add("b", ids(3), 1, 2.0)
    batches.answered(again.number)
    assert batches.first_unanswered > before


def test_forget_drops_all_acks():
    batches = two_consumers()
    batches.add("a", ids(1), 1, 1.0)
    (first,) = batches.flush_all()
    batches.add("a", ids(2), 1, 1.0)
    batches.forget()
    batches.lost(first.number, 1.0)
    assert (batches.next_timer(), batches.unanswered) == (None, b"")


WAYS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), WAYS, st.sampled_from(["line", "other line"])),
        st.tuples(st.sampled_from(["part", "close", "ack"]), WAYS, st.none()),
        st.tuples(st.sampled_from(["take", "answer", "lose", "flush"]), st.integers(0, 5), st.none()),
    ),
    max_size=60,
)


@given(STEPS)
def test_every_ack_reaches_the_owner_at_least_once_whatever_closes_in_between(steps):
    batches = AckGroupingTracker(DELAY)
    there, taken, under_way = {}, set(), {}
    acked, now = 0, 0.0

    def send(outgoing):
        for one in outgoing:
            assert one.channel in there, "nothing goes through a consumer that is not there"
            under_way[one.number] = one

    for what, way, line in steps:
        now += 0.004
        if what == "open" and way not in there:
            there[way] = line
            batches.channel_opened(way, line, now)
        elif what == "part" and way in there:
            del there[way]
            batches.channel_closing(way, now)
        elif what == "close":
            there.pop(way, None)
            batches.channel_closed(way, now)
        elif what == "ack" and acked < 255:
            acked += 1
            batches.add(way, ids(acked), 1, now)
        elif what == "take":
            send(batches.on_timer(now))
            assert batches.next_timer() is None or batches.next_timer() > now
        elif what == "flush":
            send(batches.flush("line"))
        elif what in {"answer", "lose"} and under_way:
            number = sorted(under_way)[way % len(under_way)]
            one = under_way.pop(number)
            if what == "answer":
                taken |= set(one.ids)
                batches.answered(number)
            else:
                batches.lost(number, now)
        assert taken | set(batches.unanswered) == set(range(1, acked + 1))
    for way in "abc":
        batches.channel_closed(way, now)  # answers that never come
    there = {"d": "last line"}
    batches.channel_opened("d", "last line", now)
    send(batches.on_timer(now))
    assert taken | {number for one in under_way.values() for number in one.ids} == set(range(1, acked + 1))
    for number, one in list(under_way.items()):
        if one.channel == "d":
            taken |= set(one.ids)
        batches.answered(number)
    assert taken == set(range(1, acked + 1))
    assert batches.first_unanswered is None
