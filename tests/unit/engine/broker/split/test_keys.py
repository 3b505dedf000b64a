"""Coordinator and members of a split Key_Shared subscription, as a conversation over real chains, cursors and dispatchers."""

import base64
import random

import pytest
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.key_selectors import ConsistentHashSelector, HashRangeSelector
from readonly_engine.broker.dispatch.leased_keys import (
    ALL_SLOTS,
    ConsistentHashRing,
    HashRanges,
    LeasedKeyDispatcher,
    LocalSelector,
)
from readonly_engine.broker.dispatch.multiple import UnackedLimits
from readonly_engine.broker.split.key_codec import (
    decode_key_grant,
    decode_key_report,
    encode_key_grant,
    encode_key_report,
)
from readonly_engine.broker.split.key_coordinator import KeyCoordinator
from readonly_engine.broker.split.key_member import MAX_GAPS, SLOTS_S, KeyMember
from readonly_engine.broker.split.keys import (
    MAX_ALL_PENDING,
    MAX_CONSUMERS,
    MAX_HASH_RANGES,
    MAX_LOCAL_CONSUMERS,
    MAX_LOCAL_HASH_RANGES,
    MAX_NAME_BYTES,
    MAX_PENDING,
    KeyConsumer,
    KeyGrant,
    KeyPolicy,
    KeyReport,
    LocalConsumer,
)
from readonly_engine.broker.split.leases import LEASE_S, MAX_COUNTS, MAX_MEMBERS, MAX_RANGES, RENEW_S, Run
from readonly_engine.topic.position import Position
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.varint import encode_varint

from tests.support.split_pool import dispatched

EPOCH = 7
AUTO_SPLIT, STICKY, ANY_ORDER = KeyPolicy(), KeyPolicy(sticky=True), KeyPolicy(any_order=True)
CLAIM_UNTIL = 1e9


class Host:
    """A member's broker, with consumers."""

    def __init__(self, scene, name):
        self.scene, self.name = scene, name
        self.cursor = CursorReplica(scene.topic.chain, Position(1, -1))
        self.read_cursor(scene.at_owner)
        self.dispatcher = LeasedKeyDispatcher(scene.topic.chain, self.cursor, **scene.policy._asdict())
        self.member = KeyMember(name, self.dispatcher, self.cursor, self.receipt)
        self.unanswered, self.counts = [], {}
        self.reading = None  # the owner's cursor, while it is on its way here

    def receipt(self):
        acks = list(self.unanswered)
        return lambda: not any(one in self.unanswered for one in acks)

    def subscribe(self, name, permits=3, ranges=()):
        consumer = ConsumerState(permits=permits, name=name, ranges=ranges)
        self.dispatcher.add(consumer)
        self.member.add(consumer)
        return consumer

    def close(self, consumer):
        self.dispatcher.remove(consumer)
        self.member.remove(consumer)

    def dispatch(self, now=0):
        """As DeliveryLoop.read_more."""
        if self.member.epoch == 0 or self.member.expired(self.scene.now):
            return
        while (read := self.dispatcher.next_read(now)) is not None and self.scene.topic.chain.readable(read[0]):
            for one in dispatched(self.dispatcher, self.scene.topic.read(*read), now):
                self.counts[one.entry.position] = one.redelivery_count
                self.scene.on_delivered(one.entry, one.consumer)

    def ack(self, consumer, position):
        """The client acks; the owner answers later."""
        consumer.permits += consumer.pending[position]
        self.cursor.ack(position)
        self.dispatcher.acked(position, consumer)
        self.unanswered.append(position)
        self.scene.acked.add(position)

    def nack(self, consumer, position):
        consumer.permits += consumer.pending[position]
        self.dispatcher.redeliver(consumer, [position])

    def answer(self):
        """The owner takes and answers the acks."""
        self.scene.at_owner |= set(self.unanswered)
        self.unanswered.clear()

    def read_cursor(self, acked):
        self.cursor.load_acked_ranges((Position(p.ledger_id, p.entry_id - 1), p) for p in sorted(acked))


class Scene:
    """A coordinator with members, whose frames arrive at once."""

    def __init__(self, topic, names="ab", policy=AUTO_SPLIT):
        self.topic, self.policy = topic, policy
        self.now = 100.0
        self.at_owner, self.acked, self.delivered = set(), set(), []
        self.slow = lambda: False  # whether the owner takes longer to answer
        self.coordinator = KeyCoordinator(EPOCH, (), policy)
        self.hosts = {}
        for name in names:
            assert self.coordinator.join(name, self.now)
            self.hosts[name] = Host(self, name)

    def on_delivered(self, entry, consumer):
        """Check what a consumer of Key_Shared may trust."""
        assert entry.position not in self.acked, "it was acked"
        assert not any(entry.position in one.pending for _, one in self.live() if one is not consumer), (
            "it is elsewhere"
        )
        self.delivered.append(entry.position)
        if self.policy.any_order:
            return
        key = entry.sticky_hash
        for host in self.hosts.values():
            if host.member.expired(self.now):
                continue
            for other in host.dispatcher.consumers:
                held = [p for p in other.pending if self.hash_of(p) == key and p != entry.position]
                assert not held or other is consumer, "two consumers have a key"
        earlier = [one for one in self.topic.entries if one.position < entry.position and one.sticky_hash == key]
        waiting = [one.position for one in earlier if one.position not in self.acked | set(consumer.pending)]
        assert not waiting, "an earlier message of the key was passed over"

    def live(self):
        return [one for one in self.consumers() if not one[0].member.expired(self.now)]

    def hash_of(self, position):
        return self.topic.ledgers[position.ledger_id][position.entry_id].sticky_hash

    def report(self, name):
        report = self.hosts[name].member.report(self.now)
        if report is not None:
            sent = decode_key_report(encode_key_report(report))
            assert sent == (report if report.held is None else report._replace(released=0))
            assert self.coordinator.report(name, sent, self.now)

    def grant(self):
        for name, grant in self.coordinator.grants(self.now, CLAIM_UNTIL).items():
            sent = decode_key_grant(encode_key_grant(grant))
            assert sent == grant
            assert self.hosts[name].member.on_grant(sent, self.now)
        for host in self.hosts.values():
            if host.member.needs_cursor and host.reading is None:
                host.member.reading_cursor()
                host.reading = set(self.at_owner)
            if host.reading is not None and not self.slow():
                host.read_cursor(host.reading)
                host.dispatcher.cursor_moved()
                host.reading = None
                host.member.cursor_read()

    def round(self, seconds=RENEW_S):
        """Let all report, and give out what can be leased."""
        self.now += seconds
        for name in self.hosts:
            self.report(name)
        lost = self.coordinator.on_timer(self.now)
        self.grant()
        for host in self.hosts.values():
            host.dispatch()
        return lost

    def consumers(self):
        return [(host, consumer) for host in self.hosts.values() for consumer in host.dispatcher.consumers]


def test_the_ring_of_all_brokers_is_that_of_one():
    one, consumers = ConsistentHashSelector(), []
    for name in "abcab":
        consumers.append(ConsumerState(permits=1, name=name))
        one.add(consumers[-1])
    placed = [KeyConsumer("m", number, name, number // 3) for number, name in enumerate("abcab")]
    ring = ConsistentHashRing(placed)
    parts = ring.slots([0, 1, 2, 3, 4], 5)
    for slot in range(1, 1 << 16):
        assert consumers[ring.number(slot)] is one.select(slot)
    assert sum(parts) == ALL_SLOTS
    assert all(parts[ring.number(slot)] >> slot & 1 for slot in range(1, 1 << 16, 97))
    assert ConsistentHashRing(()).slots((), 2) == [0, 0]
    assert ConsistentHashRing(()).number(1) == -1


def test_the_ranges_of_all_brokers_are_those_of_one():
    ranges = [((0, 99), (40_000, 40_000)), ((200, 300), (65_000, 65_535)), ((100, 150),)]
    one, consumers = HashRangeSelector(), []
    for each in ranges:
        consumers.append(ConsumerState(permits=1, ranges=each))
        one.add(consumers[-1])
    late = KeyConsumer("m", 9, "c", 3, ((90, 210),))  # of those that have left, and are still here
    ring = HashRanges([*(KeyConsumer("m", n, "c", n, each) for n, each in enumerate(ranges)), late])
    parts = ring.slots([0, 1, 2, 3], 4)
    for slot in range(1, 1 << 16):
        owner, number = one.select(slot), ring.number(slot)
        if 150 < slot < 200:
            assert number == 3
        else:
            assert (None if number < 0 else consumers[number]) is owner
        assert [number] * (number >= 0) == [part for part, slots in enumerate(parts) if slots >> slot & 1]
    assert sum(parts) & ~ALL_SLOTS == 0
    assert HashRanges(()).slots((), 2) == [0, 0]
    assert [(ring.slot(hash_), one.slot(hash_)) for hash_ in (0, 65_535, 65_536, 65_600)] == [
        (1, 1),
        (65_535, 65_535),
        (1, 1),
        (64, 64),
    ]


PARTS = 8


def free_ranges(scene):
    """The parts of all hashes that no consumer has, of one that has not left."""
    taken = {first for _, consumer in scene.consumers() for first, _ in consumer.ranges}
    parts = [(part << 13, (part + 1 << 13) - 1) for part in range(PARTS)]
    return [part for part in parts if part[0] not in taken]


@pytest.mark.parametrize("policy", [AUTO_SPLIT, STICKY, ANY_ORDER])
@pytest.mark.parametrize("seed", range(6))
def test_each_key_has_one_consumer_and_comes_in_order_while_consumers_come_and_go(topic, seed, policy):
    dice = random.Random(seed)
    scene = Scene(topic, policy=policy)
    scene.slow = lambda: dice.random() < 0.5
    keys = [f"key-{number}" for number in range(12)]
    names = iter(f"c{number}" for number in range(1000))

    def subscribe(host, permits=3, parts=1):
        free = free_ranges(scene) if policy.sticky else ()
        host.subscribe(next(names), permits, tuple(dice.sample(free, min(parts, len(free)))))

    subscribe(scene.hosts["a"])
    for _ in range(150):
        event = dice.random()
        if event < 0.4:
            for _ in range(dice.randint(1, 6)):
                topic.write(key=dice.choice(keys))
        elif event < 0.5 and len(scene.consumers()) < 5:
            subscribe(dice.choice(list(scene.hosts.values())), dice.choice((1, 3, 10)), dice.randint(1, 3))
        elif event < 0.57 and len(scene.consumers()) > 1:
            host, consumer = dice.choice(scene.consumers())
            host.close(consumer)
        elif event < 0.75:
            for host in scene.hosts.values():
                if dice.random() < 0.5:
                    host.answer()
        for host, consumer in scene.consumers():
            for position in sorted(consumer.pending):
                if dice.random() < 0.4:
                    host.ack(consumer, position)
                elif policy.any_order and dice.random() < 0.1:
                    host.nack(consumer, position)
        scene.round(dice.choice((SLOTS_S / 2, SLOTS_S, RENEW_S)))
    if policy.sticky:
        subscribe(scene.hosts["b"], parts=PARTS)
    for _ in topic.positions:  # each round serves one at least
        if scene.acked == set(topic.positions):
            break
        for host, consumer in scene.consumers():
            for position in sorted(consumer.pending):
                host.ack(consumer, position)
        for host in scene.hosts.values():
            host.answer()
        scene.round()
    assert scene.acked == set(topic.positions)


def scene_of_move(topic, policy):
    """A scene in which a key of consumer c0 on broker a, with a pending message, will move to c1 on broker b."""
    scene = Scene(topic, policy=policy)
    scene.first = scene.hosts["a"].subscribe("c0", permits=1)
    scene.round()
    ring = ConsistentHashRing([KeyConsumer("a", 1, "c0", 0), KeyConsumer("b", 1, "c1", 0)])
    for number in range(100):
        position = topic.write(key=f"key-{number}")
        if ring.number(ring.slot(scene.hash_of(position))) == 1:
            break
    scene.key = f"key-{number}"
    scene.hosts["a"].dispatch()
    while scene.first.pending != {position: 1}:
        for one in list(scene.first.pending):
            scene.hosts["a"].ack(scene.first, one)
        scene.hosts["a"].dispatch()
    scene.hosts["a"].answer()
    topic.write(key=scene.key)
    scene.position = position
    scene.second = scene.hosts["b"].subscribe("c1", permits=10)
    return scene


@pytest.fixture
def moved(topic):
    """The scene while the key drains."""
    scene = scene_of_move(topic, AUTO_SPLIT)
    for _ in range(5):
        scene.round()
    assert not scene.second.pending, "the key drains"
    return scene


@pytest.mark.parametrize(
    "end", ["an ack", "an ack in a lost report", "a negative ack", "its consumer leaves", "its member is lost"]
)
def test_out_of_order_a_key_moves_at_once_and_an_entry_that_comes_back_goes_to_its_new_consumer(topic, end):
    scene = scene_of_move(topic, ANY_ORDER)
    for _ in range(4):
        scene.round(SLOTS_S)
    (later,) = scene.second.pending
    assert later > scene.position
    assert scene.first.pending == {scene.position: 1}
    a = scene.hosts["a"]
    acked = end.startswith("an ack")
    if acked:
        a.ack(scene.first, scene.position)
        a.answer()
    if end == "an ack in a lost report":
        scene.now += RENEW_S
        assert a.member.report(scene.now).pending == ()
        scene.coordinator.disconnect("a")
        assert scene.coordinator.join("a", scene.now)
        assert a.member.connected()
    elif end == "a negative ack":
        a.nack(scene.first, scene.position)
    elif end == "its consumer leaves":
        a.close(scene.first)
    elif end == "its member is lost":
        del scene.hosts["a"]
        scene.coordinator.disconnect("a")
    for _ in range(7):
        scene.round(SLOTS_S if end == "a negative ack" else RENEW_S)
    assert list(scene.second.pending) == [later] + [scene.position] * (not acked)
    assert scene.delivered.count(scene.position) == 1 + (not acked)
    assert not any(one.dispatcher.elsewhere for one in scene.hosts.values())
    assert {position: count for position, count in scene.hosts["b"].counts.items() if count} == (
        {scene.position: 1} if end == "a negative ack" else {}
    )


@pytest.mark.parametrize("comes", ["while the cursor is read", "before the entry is met"])
def test_out_of_order_an_ack_counts_that_the_owner_answers_after_the_move(topic, comes):
    scene = scene_of_move(topic, ANY_ORDER)
    a, b = scene.hosts.values()
    if comes == "before the entry is met":
        scene.second.permits = 0
        for _ in range(4):
            scene.round(SLOTS_S)
    scene.slow = lambda: True
    for _ in range(4):
        scene.round(SLOTS_S)
    assert (b.reading is None) == (comes == "before the entry is met")
    a.ack(scene.first, scene.position)
    a.answer()
    for _ in range(2):
        scene.round(RENEW_S)
    scene.second.permits = 10
    b.dispatch()
    scene.slow = lambda: False
    for _ in range(4):
        scene.round(RENEW_S)
    assert len(scene.second.pending) == 1
    assert scene.delivered.count(scene.position) == 1


def test_out_of_order_slots_with_many_pending_entries_drain(topic):
    scene = Scene(topic, policy=ANY_ORDER)
    first = scene.hosts["a"].subscribe("c0", permits=10_000)
    scene.round()
    scene.on_delivered = lambda *_: None  # it takes long with so many entries
    for number in range(4 * MAX_PENDING):
        topic.write(key=f"key-{number}")
    scene.round()
    second = scene.hosts["b"].subscribe("c1", permits=10_000)
    for _ in range(5):
        scene.round()
    member, left = scene.hosts["a"].member, scene.coordinator._members["a"].leaving
    assert len(member._pending) == MAX_PENDING
    assert left
    before = topic.positions[-1]
    for number in range(4 * MAX_PENDING):
        topic.write(key=f"key-{number}")
    scene.round()
    moved = {scene.hash_of(position) % 65_535 + 1 for position in second.pending}
    assert moved
    assert not any(left >> slot & 1 for slot in moved)
    for position in list(first.pending):
        if position <= before:
            scene.hosts["a"].ack(first, position)
    scene.hosts["a"].answer()
    for _ in range(3):
        scene.round()
    assert not member._pending
    assert not scene.coordinator._members["a"].leaving
    assert len(first.pending) + len(second.pending) == 4 * MAX_PENDING


def test_pending_entries_of_all_members_are_bounded(topic):
    coordinator = KeyCoordinator(EPOCH, (), ANY_ORDER)
    for name, count in (("a", MAX_ALL_PENDING - 1), ("b", 1), ("c", 1)):
        assert not coordinator.indivisible
        coordinator.join(name, 0.0)
        pending = tuple(Position(1, number) for number in range(count))
        assert coordinator.report(name, KeyReport(0, 1, pending=pending), 0.0)
    assert coordinator.indivisible


def test_a_key_moves_after_the_owner_has_answered_its_last_ack(moved):
    a, _ = moved.hosts.values()
    a.ack(moved.first, moved.position)
    for _ in range(3):
        moved.round()
    assert not moved.second.pending
    a.answer()
    for _ in range(3):
        moved.round()
    assert [moved.hash_of(position) for position in moved.second.pending] == [moved.hash_of(moved.position)]
    assert moved.delivered.count(moved.position) == 1


def test_a_key_moves_when_its_consumer_has_left(moved):
    a, _ = moved.hosts.values()
    a.close(moved.first)
    for _ in range(3):
        moved.round()
    assert next(iter(moved.second.pending)) == moved.position
    assert len(moved.second.pending) == 2


@pytest.mark.parametrize("leaves", ["by its slots", "with its last consumer", "as the coordinator"])
def test_a_key_moves_with_its_redelivery_counts(moved, leaves):
    a, b = moved.hosts.values()
    a.dispatcher.redeliver(moved.first, [moved.position])
    if leaves == "by its slots":
        for _ in range(3):
            moved.round()
    else:
        a.close(moved.first)
        report = decode_key_report(encode_key_report(a.member.last_report()))
        assert moved.coordinator.report("a", report, moved.now)
        moved.coordinator.leave("a")
        del moved.hosts["a"]
    if leaves == "as the coordinator":
        b.member.inherit(decode_key_grant(encode_key_grant(moved.coordinator.last_grant())))
        moved.coordinator = KeyCoordinator(EPOCH, b.member.redelivery_counts)
        assert moved.coordinator.join("b", moved.now)
        moved.hosts = {"b": Host(moved, "b")}
        moved.second = moved.hosts["b"].subscribe("c1", permits=10)
    for _ in range(3):
        moved.round()
    assert next(iter(moved.second.pending)) == moved.position
    assert {position: count for position, count in moved.hosts["b"].counts.items() if count} == {moved.position: 1}


@pytest.mark.parametrize("connected", [False, True])
def test_the_keys_of_a_lost_member_move_at_the_end_of_its_lease(moved, connected):
    lost = moved.hosts.pop("a")
    if not connected:
        moved.coordinator.disconnect("a")
    moved.round(LEASE_S - 2 * RENEW_S)
    assert not moved.second.pending
    assert moved.coordinator.next_timer("b") > moved.now
    assert moved.round(3 * RENEW_S) == ["a"] * connected
    assert lost.member.expired(moved.now)
    moved.round()
    assert next(iter(moved.second.pending)) == moved.position
    assert moved.coordinator.may_resign(moved.now, "b")


def test_neither_counts_what_is_of_another_epoch(moved):
    a, _ = moved.hosts.values()
    report = KeyReport(EPOCH + 1, 99)
    assert not moved.coordinator.report("a", report, moved.now)
    moved.now += RENEW_S
    moved.report("a")
    grant = moved.coordinator.grants(moved.now, CLAIM_UNTIL)["a"]
    assert not a.member.on_grant(grant._replace(epoch=EPOCH + 1), moved.now)
    assert not a.member.forget_coordinator()
    moved.coordinator.leave("a")
    assert moved.coordinator.join("a", moved.now)
    assert not moved.coordinator.report("a", KeyReport(EPOCH, 100, (), held=ALL_SLOTS), moved.now), (
        "it was away too long"
    )


def test_no_lease_outlasts_the_claim_and_a_late_grant_does_not_count(topic):
    scene = Scene(topic, "a")
    member = scene.hosts["a"].member
    scene.report("a")
    grant = scene.coordinator.grants(scene.now, scene.now + 1)["a"]
    assert grant.valid_s == 1
    assert member.on_grant(grant, scene.now)
    assert scene.coordinator.grants(scene.now, scene.now) == {}
    assert not member.on_grant(grant, scene.now + 1)
    assert member.forget_coordinator()


def test_the_copy_of_the_cursor_gets_the_acks_of_others_before_it_has_many_gaps(topic):
    """One entry stays unacked. The acks of the other broker are known to the owner only."""
    scene = Scene(topic)
    scene.on_delivered = lambda *_: None  # it takes long with so many entries
    for number, host in enumerate(scene.hosts.values()):
        host.subscribe(f"c{number}", permits=100_000)
    for _ in range(3):
        scene.round()
    gaps = []
    for number in range(6 * MAX_GAPS):
        topic.write(key=f"key-{number}")
        if number % 500 == 499:
            for host, consumer in [*scene.consumers(), *scene.consumers()]:
                host.dispatch()
                for position in [one for one in consumer.pending if one != topic.positions[0]]:
                    host.ack(consumer, position)
                host.answer()
            gaps.append(max(host.cursor.acked_ranges for host in scene.hosts.values()))
            scene.round(RENEW_S)
    assert MAX_GAPS <= max(gaps) < MAX_GAPS + 500
    assert gaps[gaps.index(max(gaps)) + 1] < MAX_GAPS


def test_each_broker_has_its_consumers_part_of_the_limit_of_unacked_messages(topic):
    chain = topic.chain
    dispatcher = LeasedKeyDispatcher(chain, CursorReplica(chain, Position(1, -1)), UnackedLimits(50, 20))
    consumer = ConsumerState(permits=100, name="c")
    dispatcher.add(consumer)
    for number in range(30):
        topic.write(key=f"key-{number}")
    ring = ConsistentHashRing([KeyConsumer("a", 1, "c", 0)])
    for consumers, delivered in ((4, 5), (2, 10), (1, 20)):
        dispatcher.assign(LocalSelector(ring, {0: consumer}), ALL_SLOTS, consumers)
        while (read := dispatcher.next_read(0)) is not None and chain.readable(read[0]):
            for entry in topic.read(read[0], 1):
                dispatcher.dispatch([entry], 0)
        assert consumer.unacked == delivered
    dispatcher.follow(UnackedLimits(50, 0), delayed=True)
    assert dispatcher.next_read(0) is not None


def test_delayed_entries_of_a_slot_that_is_left_are_forgotten(topic):
    scene = Scene(topic, "a")
    host = scene.hosts["a"]
    consumer = host.subscribe("c")
    scene.round()
    topic.write(key="k", deliver_at=1000)
    host.dispatch()
    assert host.dispatcher.next_timer() == 1000
    host.dispatcher.assign(LocalSelector(ConsistentHashRing(()), {}), 0, 1)
    assert host.dispatcher.next_timer() is None
    assert not consumer.pending


def test_a_member_gets_nothing_before_it_has_reported(topic):
    scene = Scene(topic, "a")
    assert scene.coordinator.grants(scene.now, CLAIM_UNTIL) == {}
    scene.report("a")
    assert list(scene.coordinator.grants(scene.now, CLAIM_UNTIL)) == ["a"]


def test_members_and_consumers_are_bounded():
    coordinator = KeyCoordinator(EPOCH)
    assert all(coordinator.join(str(number), 0.0) for number in range(MAX_MEMBERS))
    assert not coordinator.join("one more", 0.0)
    many = tuple(LocalConsumer(number, "c") for number in range(MAX_CONSUMERS + 1))
    assert coordinator.report("0", KeyReport(0, 1, many[1:]), 0.0)
    assert not coordinator.indivisible
    assert coordinator.report("1", KeyReport(0, 1, many[:1]), 0.0)
    assert coordinator.indivisible


def test_ranges_of_hashes_are_bounded(topic):
    scene = Scene(topic, "a", STICKY)
    member = scene.hosts["a"].member
    for ranges in (MAX_LOCAL_HASH_RANGES - 1, 1):
        scene.hosts["a"].subscribe("c", ranges=((0, 0),) * ranges)
    assert len(member.report(scene.now).consumers) == 2
    scene.hosts["a"].subscribe("c", ranges=((0, 0),))
    report = member.report(scene.now + RENEW_S)
    assert report.indivisible
    assert report.consumers == ()
    for name, ranges in (("a", MAX_HASH_RANGES - 1), ("b", 1), ("c", 1)):
        assert not scene.coordinator.indivisible
        scene.coordinator.join(name, scene.now)
        assert scene.coordinator.report(name, KeyReport(0, 1, (LocalConsumer(1, "c", ((0, 0),) * ranges),)), scene.now)
    assert scene.coordinator.indivisible


def test_the_longest_frames_are_small():
    longest = "n" * MAX_NAME_BYTES
    ranges = ((60_000, 65_535),) * (MAX_LOCAL_HASH_RANGES // MAX_LOCAL_CONSUMERS)
    local = tuple(LocalConsumer(1 << 40, longest, ranges) for _ in range(MAX_LOCAL_CONSUMERS))
    counts = tuple(Run(1 << 40, number << 20, number << 20, 200) for number in range(MAX_COUNTS))
    pending = tuple(Position(1 << 40, 1 << 27) for _ in range(MAX_ALL_PENDING))
    report = KeyReport(1 << 62, 1 << 40, local, 0, ALL_SLOTS, indivisible=True, counts=counts)
    named = tuple(one._replace(ranges=()) for one in local)
    for each in (report, report._replace(consumers=named, pending=pending[:MAX_PENDING])):  # never both
        assert decode_key_report(encode_key_report(each)) == each
        assert len(encode_key_report(each)) < 32 << 10  # a longer ACK is split
    ranges = ranges[: MAX_HASH_RANGES // MAX_CONSUMERS]
    consumers = tuple(KeyConsumer(f"m{number % 100}", 1 << 40, longest, 999, ranges) for number in range(MAX_CONSUMERS))
    grant = KeyGrant(1 << 62, 1 << 40, 5.0, consumers, ALL_SLOTS, counts, pending)
    assert decode_key_grant(encode_key_grant(grant)) == grant
    assert len(encode_key_grant(grant)) < 160 << 10


def _encoded(*parts):
    return b"".join(part if isinstance(part, bytes) else encode_varint(part) for part in parts)


LONG_NAME = b"n" * (MAX_NAME_BYTES + 1)


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        (_encoded(2, 1, 1, 0, 0, 0, 0, 0, 0, 9), "bytes after them"),
        (_encoded(2, 1, 1, 0, 0, 0, 0, 0, MAX_PENDING + 1), "251 pending entries, at most 250"),
        (_encoded(2, 1, 1, 0, 0, 0, 0, MAX_RANGES + 1), f"{MAX_RANGES + 1} runs"),
        (_encoded(2, 1, 1, 0, 0, 0, 8193), "8193 bytes in leases .* at most 8192"),
        (_encoded(2, 1, 1, 0, 0, 0, 2, b"x"), "end early"),
        (_encoded(2, 1, 1, 0, 0, 0, 1, b"\x01"), "slot 0"),
        (_encoded(2, 1, 1, 0, 1, 0, 0, MAX_LOCAL_CONSUMERS + 1), "101 consumers of a member"),
        (_encoded(2, 1, 1, 0, 1, 0, 0, 1, 1, len(LONG_NAME), LONG_NAME), "101 bytes"),
        (_encoded(2, 1, 1, 0, 1, 0, 0, 1, 1, 1, b"\xff"), "no UTF-8"),
        (_encoded(2, 1, 1, 0, 2, 0, 0, 1, 1, 0, MAX_LOCAL_HASH_RANGES + 1), "501 more ranges of hashes, at most 500"),
        (_encoded(2, 1, 1, 0, 2, 0, 0, 1, 1, 0, 1, 65_535, 1), "a range of hashes from 65535 to 65536"),
    ],
)
def test_a_malformed_report_is_refused(encoded, error):
    with pytest.raises(MalformedFrameError, match=error):
        decode_key_report(base64.b64encode(encoded).decode())


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        (_encoded(1), "version 1"),
        (_encoded(2, 1, 1, 1, 1, 0, MAX_MEMBERS + 1), "101 members"),
        (_encoded(2, 1, 1, 1, 0, 0, MAX_ALL_PENDING + 1), "501 pending entries, at most 500"),
        (_encoded(2, 1, 1, 1, 1, 0, 0, MAX_CONSUMERS + 1), "1001 consumers of a subscription"),
        (_encoded(2, 1, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, b"n"), "member 0 of a split subscription, there are 0"),
    ],
)
def test_a_malformed_grant_is_refused(encoded, error):
    with pytest.raises(MalformedFrameError, match=error):
        decode_key_grant(encoded)


def test_text_that_is_no_base64_is_no_report():
    with pytest.raises(MalformedFrameError, match="base64"):
        decode_key_report("no, it is not")
