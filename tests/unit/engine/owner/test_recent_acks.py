"""Answered acks that an owner may lose, and the resume position of a reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.owner.recent_acks import RecentAcks
from readonly_engine.owner.resume import set_resume_position
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


def kept(recent, end):
    return [answered.ack for answered in recent.before(end)]


def test_acks_outside_the_window_are_dropped():
    recent = RecentAcks(window_s=5.0)
    for at in range(10):
        recent.add(b"%d" % at, float(at))
    assert kept(recent, 9.0) == [b"4", b"5", b"6", b"7", b"8", b"9"]
    assert kept(recent, 13.0) == [b"8", b"9"]
    assert kept(recent, 60.0) == [], "the owner was silent for longer than it takes to store a cursor"
    recent.forget()
    assert kept(recent, 9.0) == []


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 40)), max_size=60), st.integers(0, 100))
def test_the_newest_acks_are_kept_within_the_bound(steps, most):
    recent, now, given_ = RecentAcks(5.0, most), 0.0, []
    for pause, size in steps:
        now += pause
        ack = bytes([len(given_) % 256]) * size
        given_.append(ack)
        recent.add(ack, now)
        found = kept(recent, now)
        assert sum(map(len, found)) <= most
        assert found == given_[len(given_) - len(found) :]


@pytest.mark.parametrize(
    ("mark_delete", "start"),
    [
        (Position(7, 3), (7, 4)),
        (Position(7, -1), (7, 0)),
        (EARLIEST, (-1, -1)),
        (Position(7, (1 << 63) - 1), (7, (1 << 63) - 1)),
    ],
)
def test_a_subscribe_starts_behind_the_mark_delete_position(mark_delete, start):
    subscribe = CommandSubscribe(
        topic="t", subscription="s", consumer_id=1, request_id=1, durable=False, start_message_rollback_duration_sec=60
    )
    subscribe.start_message_id.CopyFrom(CommandSubscribe().start_message_id)
    subscribe.start_message_id.batch_index = 3
    subscribe.start_message_id.ack_set.append(1)
    set_resume_position(subscribe, mark_delete)
    assert (subscribe.start_message_id.ledger_id, subscribe.start_message_id.entry_id) == start
    assert subscribe.start_message_id.batch_index == -1
    assert not subscribe.start_message_id.ack_set
    assert not subscribe.HasField("start_message_rollback_duration_sec")
    assert len(subscribe.SerializeToString()) > 0
