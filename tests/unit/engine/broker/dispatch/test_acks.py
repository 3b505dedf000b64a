"""Acks of batches, message by message, as the owner takes them with acknowledgmentAtBatchIndexLevelEnabled and without."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.dispatch.acks import apply_ack, without_unknown_entries
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.key_shared import KeySharedDispatcher
from readonly_engine.broker.dispatch.multiple import DEFAULT_LIMITS, UnackedLimits
from readonly_engine.broker.dispatch.shared import SharedDispatcher
from readonly_engine.broker.dispatch.single_active import SingleActiveDispatcher
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.bit_set import MAX_ACK_SET_WORDS, words_of
from readonly_engine.wire.pulsar_pb2 import CommandAck, CommandSubscribe

SHARED, EXCLUSIVE = CommandSubscribe.Shared, CommandSubscribe.Exclusive
NOW = 0


class Scene:
    """A topic, a cursor and a consumer that has got everything."""

    def __init__(self, topic, kind=SHARED, limits=DEFAULT_LIMITS, batch_acks=True):
        self.topic, self.kind, self.batch_acks = topic, kind, batch_acks
        self.cursor = CursorReplica(topic.chain, EARLIEST)
        self.receiver = ConsumerState(permits=1000)
        self.dispatcher = (
            SharedDispatcher(topic.chain, self.cursor, limits)
            if kind == SHARED
            else SingleActiveDispatcher(topic.chain, self.cursor, elected=False)
        )
        self.dispatcher.add(self.receiver)
        self.deliveries = self.read_more()

    def read_more(self):
        found = []
        while (want := self.dispatcher.next_read(NOW)) is not None:
            entries = self.topic.read(*want)
            if not entries:
                break
            found += self.dispatcher.dispatch(entries, NOW)
        return found

    def ack(self, position, unacked=None, *, cumulative=False):
        kind = CommandAck.Cumulative if cumulative else CommandAck.Individual
        ack = CommandAck(ack_type=kind)
        words = () if unacked is None else words_of(unacked) or [0]
        ack.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id, ack_set=words)
        return apply_ack(ack, self.kind, self.cursor, self.dispatcher, self.receiver, batch_acks=self.batch_acks)


def test_what_is_left_of_a_batch_is_delivered_again_and_costs_its_permits(topic):
    position = topic.write(messages=10)
    scene = Scene(topic)
    assert scene.receiver.permits == 990
    scene.ack(position, 0b1111100000)
    assert scene.receiver.pending == {position: 5}
    assert scene.receiver.unacked == 5
    scene.dispatcher.redeliver(scene.receiver, [position])
    (delivery,) = scene.read_more()
    assert (delivery.redelivery_count, delivery.unacked) == (1, 0b1111100000)
    assert scene.receiver.permits == 985
    assert scene.receiver.pending == {position: 5}


def test_parts_of_several_acks_add_up_to_the_whole(topic):
    position = topic.write(messages=4)
    scene = Scene(topic)
    assert scene.ack(position, 0b1010).completed == []
    assert scene.ack(position, 0b0111).completed == []
    assert scene.cursor.unacked_bits(position) == 0b0010
    assert scene.receiver.acked == 3
    assert scene.ack(position, 0b1101).completed == [position]
    assert scene.receiver.acked == 4
    assert scene.cursor.is_acked(position)
    assert scene.receiver.pending == {}
    assert scene.ack(position, 0b1111).completed == [], "acked is acked"


def test_without_the_setting_a_batch_is_acked_whole_or_not_at_all(topic):
    first, second = topic.write(messages=4), topic.write(messages=4)
    scene = Scene(topic, batch_acks=False)
    scene.ack(first, 0b1000)
    scene.ack(first, 0b0000)
    assert not scene.cursor.is_acked(first)
    assert scene.receiver.pending == {first: 4, second: 4}
    scene.ack(first)
    assert scene.cursor.mark_delete == first


@pytest.mark.parametrize("batch_acks", [False, True])
def test_a_cumulative_ack_within_a_batch(topic, batch_acks):
    first, second, third = (topic.write(messages=4) for _ in range(3))
    scene = Scene(topic, EXCLUSIVE, batch_acks=batch_acks)
    scene.ack(second, 0b1100, cumulative=True)
    assert scene.cursor.mark_delete == first
    assert scene.cursor.unacked_bits(second) == (0b1100 if batch_acks else 0)
    scene.ack(second, 0b1110, cumulative=True)
    assert scene.cursor.unacked_bits(second) == (0b1100 if batch_acks else 0), "it does not go back"
    scene.dispatcher.redeliver(scene.receiver, [])
    assert [(d.entry.position, d.unacked) for d in scene.read_more()] == [(second, 0b1100 * batch_acks), (third, 0)]
    scene.ack(third, cumulative=True)
    assert scene.cursor.unacked_bits(second) == 0


def test_a_cumulative_ack_means_nothing_where_consumers_share_the_work(topic):
    topic.write()
    last = topic.write()
    scene = Scene(topic)
    scene.ack(last, cumulative=True)
    assert scene.cursor.mark_delete == EARLIEST


def test_acks_let_a_consumer_go_on_that_has_too_much_unacked(topic):
    positions = [topic.write() for _ in range(8)]
    scene = Scene(topic, limits=UnackedLimits(consumer=4, subscription=0))
    assert [d.entry.position for d in scene.deliveries] == positions[:4]
    assert scene.receiver.blocked
    assert not scene.ack(positions[0]).unblocked
    assert scene.read_more() == []
    assert scene.ack(positions[1]).unblocked, "half is acked"
    assert [d.entry.position for d in scene.read_more()] == positions[4:6]


def test_a_subscription_with_too_much_unacked_gets_nothing_new_but_what_is_delivered_again(topic):
    positions = [topic.write() for _ in range(8)]
    scene = Scene(topic, limits=UnackedLimits(consumer=0, subscription=4))
    assert len(scene.deliveries) == 4
    other = ConsumerState(permits=1000)
    scene.dispatcher.add(other)
    assert scene.read_more() == []
    scene.dispatcher.redeliver(scene.receiver, [positions[0]])
    assert [d.entry.position for d in scene.read_more()] == [positions[0]]
    scene.ack(positions[1])
    scene.ack(positions[2])
    assert scene.read_more() == []
    assert scene.ack(positions[3]).unblocked, "less than half is left"
    assert len(scene.read_more()) == 3


def test_the_owners_stored_parts_are_taken(topic):
    first, second = topic.write(messages=3), topic.write(messages=3)
    cursor = CursorReplica(topic.chain, first)
    cursor.load_batches([(first, 0b1), (second, 0b110), (Position(9, 9), 0)])
    assert cursor.unacked_bits(first) == 0
    assert cursor.unacked_bits(second) == 0b110
    cursor.load_batches([(second, 0b011)])
    assert cursor.unacked_bits(second) == 0b010


@given(st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=12, unique=True), max_size=12), st.booleans())
def test_acks_of_entries_together_come_to_what_they_come_to_one_by_one(make_topic, acks, keyed):
    def scene():
        topic = make_topic()
        for number in range(30):
            if number in {11, 12, 20}:
                topic.roll()
            topic.write(messages=1 + number % 3, key=b"k%d" % (number % 4))
        cursor = CursorReplica(topic.chain, EARLIEST)
        make = KeySharedDispatcher if keyed else SharedDispatcher
        dispatcher = make(topic.chain, cursor, UnackedLimits(consumer=12, subscription=20))
        receivers = [ConsumerState(permits=1000, name=name) for name in "ab"]
        for receiver in receivers:
            dispatcher.add(receiver)
        return topic, cursor, dispatcher, receivers

    one, two = scene(), scene()

    def read_more(topic, cursor, dispatcher, receivers):
        found = []
        while (want := dispatcher.next_read(NOW)) is not None:
            entries = topic.read(*want)
            if not entries:
                break
            before = len(found)
            found += [(d.consumer.name, d.entry.position) for d in dispatcher.dispatch(entries, NOW)]
            if len(found) == before:
                break
        return found

    assert read_more(*one) == read_more(*two)
    for chosen in acks:
        entries = [one[0].positions[number] for number in chosen]
        for which, receiver in enumerate(one[3]):
            mine = [tuple(entry) for entry in entries if entry in receiver.pending]
            other = two[3][which]
            pending = dict(other.pending)
            assert two[2].take_pending(other, [*mine, (99, 1)]) is None
            assert not mine or two[2].take_pending(other, [*mine, mine[0]]) is None
            assert other.pending == pending
            if not mine:
                continue
            unblocked = False
            for entry in mine:
                one[1].ack(Position(*entry))
                unblocked |= one[2].acked(Position(*entry), receiver)
            two[1].ack_entries(mine)
            messages = two[2].take_pending(other, mine)
            assert messages is not None
            assert two[2].acked_entries(other, mine, messages) == unblocked
            assert (one[1].mark_delete, list(one[1]._acked)) == (two[1].mark_delete, list(two[1]._acked))
            assert (receiver.pending, receiver.unacked, receiver.blocked, receiver.acked) == (
                other.pending,
                other.unacked,
                other.blocked,
                other.acked,
            )
        assert read_more(*one) == read_more(*two)


@pytest.mark.parametrize("unacked", [None, 0b10])
@pytest.mark.parametrize(("ledger_id", "entry_id"), [(1, 2), (1, 1000), (2, 0), (2**62, 2**62)])
def test_a_cumulative_ack_beyond_the_last_entry_does_not_count(topic, unacked, ledger_id, entry_id):
    first, second = topic.write(), topic.write()
    scene = Scene(topic, EXCLUSIVE)
    scene.ack(Position(ledger_id, entry_id), unacked, cumulative=True)
    assert scene.cursor.first_unacked() == first
    scene.ack(second, cumulative=True)
    assert scene.cursor.mark_delete == second


def test_entries_that_are_acked_together_end_with_the_last_entry(topic):
    first, second = topic.write(), topic.write()
    cursor = CursorReplica(topic.chain, EARLIEST)
    cursor.ack_entries([first, second, (1, 2), (1, 3), (7, 0)])
    third = topic.write()
    assert cursor.mark_delete == second
    assert cursor.first_unacked() == third
    assert not cursor.has_acked_ranges


def test_acks_of_foreign_entries_are_bounded(topic, monkeypatch):
    monkeypatch.setattr("readonly_engine.broker.dispatch.cursor.MAX_RANGES_WITH_UNKNOWN", 3)
    topic.write()
    topic.roll(step=10)
    last = topic.write()
    scene = Scene(topic)
    for entry_id in range(0, 2000, 2):
        scene.ack(Position(5, entry_id))  # a ledger between the two, of another topic
        scene.ack(Position(1, 2 + entry_id))  # behind the end of a full ledger
    assert len(list(scene.cursor._acked)) == 3
    scene.ack(last)
    assert scene.cursor.is_acked(last)


@pytest.mark.parametrize("cumulative", [True, False])
def test_an_ack_in_a_transaction_does_not_withhold_what_is_still_to_come(topic, cumulative):
    known = topic.write()
    cursor = CursorReplica(topic.chain, EARLIEST)
    kind = CommandAck.Cumulative if cumulative else CommandAck.Individual
    ack = CommandAck(ack_type=kind, txnid_most_bits=1, txnid_least_bits=2)
    for entry_id in (known.entry_id, known.entry_id + 1):
        ack.message_id.add(ledger_id=known.ledger_id, entry_id=entry_id)
    taken = without_unknown_entries(ack, cursor)
    assert [(m.ledger_id, m.entry_id) for m in taken.message_id] == [known]
    assert (taken.ack_type, taken.txnid_least_bits) == (kind, 2)


@pytest.mark.parametrize("kind", [SHARED, EXCLUSIVE])
def test_bits_of_messages_that_a_batch_does_not_have_are_bounded_and_not_counted(topic, kind):
    """A legal frame has room for 2.6 million words in one ack set."""
    position = topic.write(messages=4)
    scene = Scene(topic, kind)
    before = scene.receiver.unacked, scene.receiver.acked
    ack = CommandAck(ack_type=CommandAck.Individual)
    ack.message_id.add(ledger_id=position.ledger_id, entry_id=position.entry_id, ack_set=[-1] * (MAX_ACK_SET_WORDS + 1))
    apply_ack(ack, kind, scene.cursor, scene.dispatcher, scene.receiver, batch_acks=True)
    assert scene.cursor.unacked_bits(position).bit_length() == 64 * MAX_ACK_SET_WORDS
    assert (scene.receiver.unacked, scene.receiver.acked) == before


@pytest.mark.parametrize("entry_id", [-(2**63), -2, -1, 0])
@pytest.mark.parametrize("batch_acks", [False, True])
def test_an_ack_of_a_batch_that_no_ledger_has_leaves_a_position_that_can_be_stored(topic, entry_id, batch_acks):
    topic.write(messages=4)
    topic.roll()
    topic.write(messages=4)
    scene = Scene(topic, EXCLUSIVE, batch_acks=batch_acks)
    newest = topic.write().ledger_id
    scene.ack(Position(newest, entry_id), 0b1100, cumulative=True)
    assert scene.cursor.mark_delete.entry_id >= -1
    if entry_id < -1:
        assert scene.cursor.mark_delete == EARLIEST
