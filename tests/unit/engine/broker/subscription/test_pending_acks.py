"""Acks in transactions against a model: what is acked, what is withheld, what comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch.acks import apply_ack
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.make import DispatchSettings, make_consumer_state, make_dispatcher
from readonly_engine.broker.subscription.pending_acks import PendingAcks, ack_of_record, pending_ack_log_name
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.bit_set import words_of
from readonly_engine.wire.pending_ack import TxnAckRecord
from readonly_engine.wire.pending_ack_pb2 import Operation
from readonly_engine.wire.pulsar_pb2 import CommandAck, CommandSubscribe

NOW = 0


def ack(*positions, cumulative=False, unacked=None):
    made = CommandAck(ack_type=CommandAck.Cumulative if cumulative else CommandAck.Individual)
    for position in positions:
        words = [] if unacked is None else words_of(unacked) or [0]
        made.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id, ack_set=words)
    return made


@pytest.fixture
def cursor(topic):
    for _ in range(10):
        topic.write()
    return CursorReplica(topic.chain, EARLIEST)


def test_the_owners_note_of_an_ack_that_was_relayed_changes_nothing(cursor):
    acks = PendingAcks(cursor)
    position = Position(1, 3)
    acks.add((0, 1), ack(position))
    note = TxnAckRecord(Operation.ACK, (0, 1), cumulative=False, acked=((tuple(position), 0),))
    assert acks.add((0, 1), ack_of_record(note)) == []
    assert acks.end((0, 1), committed=True).acks == [ack(position)]


def test_messages_of_a_batch_are_acked_in_part_until_all_are(cursor):
    acks = PendingAcks(cursor)
    batch = Position(1, 3)
    assert acks.add((0, 1), ack(batch, unacked=0b110)) == []
    assert acks.add((0, 1), ack(batch, unacked=0b101)) == []
    assert not cursor.is_acked(batch)
    assert acks.end((0, 1), committed=True).acks == [ack(batch, unacked=0b100)]
    acks.add((0, 2), ack(batch, unacked=0b01))
    assert acks.add((0, 2), ack(batch, unacked=0b10)) == [batch]
    assert acks.end((0, 2), committed=True).acks == [ack(batch)]


def test_a_cumulative_ack_is_of_one_transaction_and_counts_with_its_commit(cursor):
    acks = PendingAcks(cursor)
    assert acks.add((0, 1), ack(Position(1, 3), cumulative=True)) == []
    acks.add((0, 2), ack(Position(1, 7), cumulative=True))
    assert cursor.first_unacked() == Position(1, 0), "the owner continues delivering it"
    assert acks.end((0, 2), committed=True).acks == []
    assert acks.end((0, 1), committed=True).acks == [ack(Position(1, 3), cumulative=True)]


def test_the_log_is_named_as_the_owner_names_it():
    topic = parse_topic_name("persistent://t/n/orders-partition-2")
    assert str(pending_ack_log_name(topic, "s")) == "persistent://t/n/orders-partition-2-s__transaction_pending_ack"


@given(st.lists(st.tuples(st.sampled_from("acen"), st.integers(0, 2), st.integers(0, 9)), max_size=60))
def test_every_message_is_withheld_acked_or_deliverable_as_the_transactions_say(make_topic, steps):
    topic = make_topic()
    for _ in range(10):
        topic.write()
    cursor = CursorReplica(topic.chain, EARLIEST)
    acks = PendingAcks(cursor)
    acked, held = set(), {}
    for step, txn, number in steps:
        position = Position(1, number)
        if step == "a":
            acks.add((0, txn), ack(position))
            if position not in acked and position not in held:
                held[position] = txn
        elif step == "n":
            if position not in held:
                cursor.ack(position)
                acked.add(position)
        else:
            ended = acks.end((0, txn), committed=step == "c")
            mine = {one for one, by in held.items() if by == txn}
            if step == "c":
                for one in ended.acks:
                    for message_id in one.message_id:
                        cursor.ack(Position(message_id.ledger_id, message_id.entry_id))
                acked |= mine
            else:
                assert set(ended.released) == mine
            held = {one: by for one, by in held.items() if by != txn}
        for one in topic.positions:
            assert cursor.is_acked(one) == (one in acked or one in held)
        left = [one for one in topic.positions if one not in acked and one not in held]
        assert cursor.first_unacked() == (left[0] if left else Position(1, 10))
        beyond = cursor.acked_beyond(EARLIEST)
        assert [one for one in topic.positions if one in beyond] == sorted(acked)


@pytest.mark.parametrize("kind", [CommandSubscribe.Shared, CommandSubscribe.Key_Shared, CommandSubscribe.Exclusive])
def test_dispatchers_deliver_again_what_an_aborted_transaction_had_acked(topic, cursor, kind):
    subscribe = CommandSubscribe(sub_type=kind, subscription="s", consumer_name="c")
    dispatcher = make_dispatcher(subscribe, topic.chain, cursor, DispatchSettings())
    acks = PendingAcks(cursor)
    receiver = make_consumer_state(subscribe, writable=True)
    receiver.permits = 100
    dispatcher.add(receiver)

    def delivered():
        found = []
        while (want := dispatcher.next_read(NOW)) is not None:
            position, count = want
            entries = topic.read(position, count)
            if not entries:
                break
            found += [
                (delivery.entry.position.entry_id, delivery.redelivery_count)
                for delivery in dispatcher.dispatch(entries, NOW)
            ]
        return found

    assert [number for number, _ in delivered()] == list(range(10))
    positions = [Position(1, 2), Position(1, 5)]
    for position in acks.add((0, 1), ack(*positions)):
        dispatcher.withhold(position, receiver)
    dispatcher.redeliver(receiver, [])
    assert [number for number, _ in delivered()] == [0, 1, 3, 4, 6, 7, 8, 9]
    assert dispatcher.restore(acks.end((0, 1), committed=False).released)
    again = delivered()
    if kind == CommandSubscribe.Exclusive:
        assert [number for number, _ in again] == list(range(10)), "it starts over"
    else:
        assert again == [(2, 1), (5, 1)]
    for one in range(10):
        apply_ack(ack(Position(1, one)), kind, cursor, dispatcher, receiver, batch_acks=False)
    assert cursor.first_unacked() == Position(1, 10)


@pytest.mark.parametrize(
    ("kind", "reached"),
    [(CommandSubscribe.Shared, False), (CommandSubscribe.Shared, True), (CommandSubscribe.Key_Shared, True)],
)
def test_what_was_withheld_before_it_was_ever_delivered_comes_when_it_is_reached_or_by_itself(
    topic, cursor, kind, reached
):
    acks = PendingAcks(cursor)
    acks.add((0, 1), ack(Position(1, 2)))
    subscribe = CommandSubscribe(sub_type=kind, subscription="s", consumer_name="c")
    dispatcher = make_dispatcher(subscribe, topic.chain, cursor, DispatchSettings())
    receiver = make_consumer_state(subscribe, writable=True)
    receiver.permits = 10 if reached else 1
    dispatcher.add(receiver)
    dispatcher.dispatch(topic.read(*dispatcher.next_read(NOW)), NOW)
    released = acks.end((0, 1), committed=False).released
    assert released == [Position(1, 2)]
    shared = kind == CommandSubscribe.Shared
    assert dispatcher.restore(released) == shared, "which consumer has the key is not known"
    receiver.permits = 10
    while shared and len(receiver.pending) < 10:
        assert dispatcher.dispatch(topic.read(*dispatcher.next_read(NOW)), NOW)
    assert not shared or sorted(receiver.pending) == [Position(1, number) for number in range(10)]
