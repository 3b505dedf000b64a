"""Coordinator and members of a split subscription, as a conversation over real chains, cursors and dispatchers."""

import random

import pytest
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.leased import LeasedDispatcher
from readonly_engine.broker.dispatch.multiple import UnackedLimits
from readonly_engine.broker.split.codec import decode_grant, decode_report, encode_grant, encode_report
from readonly_engine.broker.split.coordinator import Coordinator
from readonly_engine.broker.split.leases import (
    LEASE_S,
    MAX_DEFERRED,
    MAX_ENTRIES,
    MAX_HELD_RANGES,
    MAX_MEMBERS,
    MAX_RANGES,
    MAX_WANTED,
    RENEW_S,
    RUN_ENTRIES,
    TURN_ENTRIES,
    Deferred,
    Grant,
    Report,
    Run,
    ranges_of,
    runs_of,
)
from readonly_engine.broker.split.member import ACKS_S, REPORT_S, RETURN_S, SOON_MS, Member
from readonly_engine.broker.split.reported_acks import KEPT_S, ReportedAcks
from readonly_engine.topic.position import Position
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.varint import encode_varint

from tests.support.split_pool import dispatched

EPOCH = 7


class Host:
    """A member's broker, with consumers."""

    def __init__(self, topic, *, permits=(1000,)):
        self.topic = topic
        self.cursor = CursorReplica(topic.chain, Position(1, -1))
        self.dispatcher = LeasedDispatcher(topic.chain, self.cursor)
        self.consumers = [ConsumerState(permits=count) for count in permits]
        for consumer in self.consumers:
            self.dispatcher.add(consumer)
        self.acks = self.answered = self.priority = 0
        self.holds_answers = False  # of the owner, to acks
        self.now_ms = 0
        self.member = Member(self.dispatcher, self.cursor, self.receipt, self.demand, self)
        self.delivered = []

    def receipt(self):
        count = self.acks
        return lambda: count <= self.answered

    def demand(self, undelivered):
        permits = sum(max(one.permits, 0) for one in self.consumers)
        return self.priority, max(permits - undelivered, 0), sum(one.unacked for one in self.consumers)

    def delivery_ms(self):
        return self.now_ms

    def report(self, now):
        return self.member.report(now)

    def dispatch(self):
        """As DeliveryLoop.read_more; return the new deliveries."""
        now = self.now_ms
        before = len(self.delivered)
        while (read := self.dispatcher.next_read(now)) is not None and self.topic.chain.readable(read[0]):
            sent = dispatched(self.dispatcher, self.topic.read(*read), now)
            self.delivered += [(one.entry.position, one.consumer, one.redelivery_count) for one in sent]
            if self.dispatcher.indivisible:
                break
        return self.delivered[before:]

    def ack(self, position):
        self.cursor.ack(position)
        self.dispatcher.acked(position)
        self.acks += 1
        self.answered += not self.holds_answers


class Scene:
    """A coordinator with members, whose frames arrive at once."""

    def __init__(self, topic, *, limit=0, **hosts):
        self.topic = topic
        self.now = 100.0
        self.claim_until = 1e9
        self.cursor = CursorReplica(topic.chain, Position(1, -1))
        self.coordinator = Coordinator(EPOCH, topic.chain, self.cursor, limit)
        self.hosts = {name: Host(topic, permits=permits) for name, permits in hosts.items()}
        for name in self.hosts:
            assert self.coordinator.join(name, self.now)

    def report(self, name):
        report = self.hosts[name].report(self.now)
        if report is None:
            return False
        assert self.coordinator.report(name, decode_report(encode_report(report)), self.now)
        return True

    def grant(self):
        leased = {}
        for name, grant in self.coordinator.grants(self.now, self.claim_until).items():
            sent = decode_grant(encode_grant(grant))
            assert sent == grant._replace(valid_s=sent.valid_s)
            assert self.hosts[name].member.on_grant(sent, self.now)
            leased[name] = sent.leases
        return leased

    def round(self, seconds=RENEW_S):
        """Let all report, and give out what can be leased."""
        self.now += seconds
        for name, host in self.hosts.items():
            host.now_ms += int(seconds * 1000)
            self.report(name)
        self.coordinator.on_timer(self.now)
        return self.grant()


@pytest.mark.parametrize("seed", range(8))
def test_every_entry_is_delivered_once_and_by_both(topic, seed):
    dice = random.Random(seed)
    scene = Scene(topic, a=(3, 2), b=(4,))
    for _ in range(300):
        topic.write(dice.choice((1, 1, 3)), marker=dice.random() < 0.05)
        if dice.random() < 0.02:
            topic.roll()
    for _ in range(2_000):
        host = scene.hosts[dice.choice("ab")]
        scene.round(dice.choice((ACKS_S, RENEW_S)))
        host.dispatch()
        for entry in topic.entries:  # a marker is acked where it was leased, as DeliveryLoop does
            if entry.marker and entry.position in host.member._held and not host.dispatcher._left:
                host.ack(entry.position)
        for consumer in host.consumers:
            for position in [one for one in consumer.pending if dice.random() < 0.7]:
                consumer.permits += consumer.pending[position]
                host.ack(position)
    scene.round()
    scene.round()
    delivered = [position for host in scene.hosts.values() for position, _, _ in host.delivered]
    assert sorted(delivered) == topic.messages
    assert all(len(host.delivered) > 30 for host in scene.hosts.values())
    assert scene.cursor.first_unacked() > topic.positions[-1]
    assert not any(host.member.holds for host in scene.hosts.values())


def test_what_one_member_can_take_no_more_goes_to_another_with_its_redelivery_counts(topic):
    scene = Scene(topic, a=(4,), b=(0,))
    for _ in range(4):
        topic.write()
    scene.round()
    host = scene.hosts["a"]
    first, second, *_ = (position for position, _, _ in host.dispatch())
    host.dispatcher.redeliver(host.consumers[0], [second])
    assert host.dispatch() == []  # the consumer has no permits
    scene.hosts["b"].consumers[0].permits = 2
    assert not any(scene.round(2 * ACKS_S).values())
    assert scene.round(RETURN_S)["b"] == (Run(*second, second.entry_id, 1),)
    assert [(position, count) for position, _, count in scene.hosts["b"].dispatch()] == [(second, 1)]
    host.ack(first)
    scene.hosts["b"].ack(second)
    scene.round()
    assert scene.cursor.mark_delete == second


def test_new_entries_go_to_the_next_member_not_to_all(topic):
    """Each broker that gets some of them reads and dispatches them, for ten entries as for a hundred."""
    scene = Scene(topic, a=(MAX_WANTED,), b=(MAX_WANTED,))
    scene.round()
    leased = []
    for new in (60, 40, TURN_ENTRIES, 150):
        for _ in range(new):
            topic.write()
        leased.append({name: sum(run.entries for run in runs) for name, runs in scene.grant().items() if runs})
    assert leased == [{"a": 60}, {"b": 40}, {"a": TURN_ENTRIES}, {"b": 150}]


def test_inherited_counts_and_long_ranges_fit_the_lists_that_brokers_exchange(topic):
    positions = [topic.write() for _ in range(RUN_ENTRIES + 50)]
    counts = tuple(Run(*one, one.entry_id, 1) for one in positions)
    coordinator = Coordinator(EPOCH, topic.chain, CursorReplica(topic.chain, Position(1, -1)), counts=counts)
    assert coordinator.join("a", 1.0)
    wanted = Report(EPOCH, 1, 0, MAX_WANTED, 0, 0)
    assert coordinator.report("a", wanted, 1.0)
    grant = coordinator.grants(1.0, 1e9)["a"]
    assert [run.entries for run in decode_grant(encode_grant(grant)).leases] == [RUN_ENTRIES, 50]
    acked = runs_of(ranges_of((Run(1, 0, 2 * MAX_ENTRIES),)))
    assert [run.entries for run in acked] == [MAX_ENTRIES, MAX_ENTRIES, 1]
    assert decode_report(encode_report(wanted._replace(acked=acked))).acked == acked


def test_leases_that_continue_each_other_are_read_at_once(topic):
    host = Host(topic)
    for first, last in ((0, 9), (10, 14), (16, 16)):
        host.dispatcher.lease(Position(1, first), Position(1, last))
    assert host.dispatcher.next_read(0) == (Position(1, 0), 15)


def test_the_redelivery_counts_of_a_coordinator_that_stops_go_to_the_next_one(topic):
    scene = Scene(topic, a=(8,), b=(8,))
    positions = [topic.write() for _ in range(4)]
    scene.hosts["b"].consumers[0].permits = 0
    scene.round()
    host, consumer = scene.hosts["a"], scene.hosts["a"].consumers[0]
    host.dispatch()
    for counted in (positions[1:3], positions[2:3]):
        host.dispatcher.redeliver(consumer, counted)
        host.dispatch()
    host.ack(positions[1])
    host.dispatcher.remove(consumer)
    assert scene.coordinator.report("a", host.member.last_report(), scene.now)
    last = decode_grant(encode_grant(scene.coordinator.last_grant()))
    assert last.leases == (Run(*positions[2], positions[2].entry_id, 2),)
    member = scene.hosts["b"].member
    member.inherit(last)
    cursor = CursorReplica(topic.chain, Position(1, -1))
    cursor.ack(positions[1])
    scene.coordinator = Coordinator(EPOCH, topic.chain, cursor, counts=member.redelivery_counts)
    assert scene.coordinator.join("b", scene.now)
    del scene.hosts["a"]
    scene.hosts["b"].consumers[0].permits = 8
    scene.round()
    scene.round()
    delivered = [(position, count) for position, _, count in scene.hosts["b"].dispatch()]
    assert delivered == [(positions[0], 0), (positions[2], 2), (positions[3], 0)]


def test_entries_on_their_way_are_not_leased_again_for_the_same_permits(topic):
    scene = Scene(topic, a=(10,), b=(10,))
    for _ in range(40):
        topic.write()
    host = scene.hosts["a"]
    first = host.report(scene.now)
    assert scene.coordinator.report("a", first, scene.now)
    late = scene.coordinator.grants(scene.now, scene.claim_until)["a"]
    scene.now += RENEW_S
    assert scene.coordinator.report("a", host.report(scene.now), scene.now)  # made before the grant has arrived
    assert scene.grant()["a"] == ()
    assert host.member.on_grant(late, scene.now)
    assert len(host.dispatch()) == 10
    host.consumers[0].permits = 3
    assert [run.entries for run in scene.round()["a"]] == [3]


@pytest.mark.parametrize("connected", [False, True])
def test_a_lost_member_keeps_its_entries_to_the_end_of_its_lease_and_the_owner_knows_its_last_acks(topic, connected):
    """It is lost without a connection, or with one when it stands still."""
    scene = Scene(topic, a=(2,), b=(2,))
    for _ in range(4):
        topic.write()
    scene.round()
    lost = scene.hosts.pop("b")
    acked, unacked = (position for position, _, _ in lost.dispatch())
    if not connected:
        scene.coordinator.disconnect("b")
    end = scene.coordinator.next_timer("a")
    assert end == scene.now + LEASE_S >= lost.member.until
    for position, _, _ in scene.hosts["a"].dispatch():
        scene.hosts["a"].ack(position)
    scene.hosts["a"].consumers[0].permits = 2
    assert scene.round(LEASE_S - 0.1)["a"] == ()
    assert not scene.coordinator.may_resign(scene.now, "a")
    scene.now = end
    assert lost.member.expired(scene.now)
    assert scene.coordinator.on_timer(scene.now, "a") == ["b"] * connected
    assert scene.coordinator.may_resign(scene.now, "a")
    assert scene.coordinator.lost == 1
    assert scene.coordinator.needs_cursor
    scene.coordinator.reading_cursor()
    assert not any(scene.round(0.1).values())
    scene.cursor.load_acked_ranges([(Position(1, acked.entry_id - 1), acked)])  # by the owner's answer
    scene.coordinator.cursor_read()
    assert scene.round()["a"] == (Run(*unacked, unacked.entry_id),)


def test_a_member_reports_an_ack_after_the_owner_has_answered_it(topic):
    scene = Scene(topic, a=(4,))
    positions = [topic.write() for _ in range(4)]
    scene.round()
    host = scene.hosts["a"]
    host.dispatch()
    host.ack(positions[0])
    scene.round()
    host.holds_answers = True
    for position in positions[1:3]:
        host.ack(position)
        scene.round()
    assert scene.cursor.mark_delete == positions[0], "what the owner lacks may be lost with it"
    host.answered += 1  # to the second ack, and not to the third
    scene.round()
    scene.round()
    assert scene.cursor.mark_delete == positions[1]
    host.dispatcher.remove(host.consumers[0])
    last = host.member.last_report()
    assert (last.acked, last.returned) == ((), (Run(1, 3, 3),)), "the third is neither acked nor free"
    assert scene.coordinator.report("a", last, scene.now)
    scene.coordinator.leave("a")
    assert scene.coordinator.needs_cursor


def test_a_member_reports_acks_of_as_many_ranges_as_a_report_has(topic):
    scene = Scene(topic, a=(MAX_WANTED,))
    positions = [topic.write() for _ in range(MAX_WANTED)]
    for _ in range(3):
        topic.roll()
    scene.round()
    host = scene.hosts["a"]
    host.dispatch()
    for position in positions[1::2]:
        host.ack(position)
    host.ack(positions[0])
    scene.now += RENEW_S
    assert len(host.report(scene.now).acked) == MAX_RANGES


def test_reported_acks_are_kept_for_a_while_and_so_many():
    kept = ReportedAcks()
    kept.add((Run(1, 0, 1),), 0.0)
    kept.add((), 1.0)
    kept.add((Run(1, 4, 4), Run(1, 7, 7)), KEPT_S)
    assert kept.before(KEPT_S) == [Position(1, number) for number in (0, 1, 4, 7)]
    assert kept.before(KEPT_S + 0.1) == [Position(1, 4), Position(1, 7)]
    kept.add((Run(1, 8, 7 + MAX_ENTRIES - 2),), KEPT_S + 0.1)
    assert len(kept.before(KEPT_S + 0.1)) == MAX_ENTRIES
    kept.add((Run(2, 0, 0),), KEPT_S + 0.1)
    assert len(kept.before(KEPT_S + 0.1)) == MAX_ENTRIES - 1


def test_a_member_returns_within_its_lease_with_what_it_has(topic):
    scene = Scene(topic, a=(4,))
    for _ in range(4):
        topic.write()
    scene.round()
    host = scene.hosts["a"]
    host.ack(host.dispatch()[0][0])
    scene.coordinator.disconnect("a")
    scene.now += LEASE_S - 1
    assert scene.coordinator.join("a", scene.now)
    assert host.member.connected()
    report = host.report(scene.now)
    assert report.acked == (Run(1, 0, 0),)
    assert report.held == (Run(1, 1, 3),)
    assert scene.coordinator.report("a", report, scene.now)
    assert not scene.coordinator.needs_cursor
    assert scene.coordinator.held_by("a") == (Run(1, 1, 3),)


def test_a_member_that_returns_after_its_lease_begins_again(topic):
    scene = Scene(topic, a=(4,), b=(4,))
    for _ in range(4):
        topic.write()
    scene.round()
    host = scene.hosts["a"]
    scene.coordinator.disconnect("a")
    scene.now += LEASE_S
    scene.coordinator.on_timer(scene.now)
    assert scene.coordinator.join("a", scene.now)
    assert host.member.connected()
    report = host.report(scene.now)
    assert report.held
    assert not scene.coordinator.report("a", report, scene.now)
    assert host.member.expired(scene.now)
    assert not host.member.on_grant(Grant(EPOCH, report.number, LEASE_S, Position(1, -1)), scene.now)


def test_neither_counts_what_is_of_another_epoch(topic):
    scene = Scene(topic, a=(4,))
    topic.write()
    scene.round()
    host = scene.hosts["a"]
    report = host.report(scene.now + RENEW_S)
    assert not scene.coordinator.report("a", report._replace(epoch=EPOCH + 1), scene.now)
    run = Run(1, 0, 0)
    assert not host.member.on_grant(Grant(EPOCH + 1, report.number, LEASE_S, Position(1, -1), (run,)), scene.now)
    assert host.member.epoch == EPOCH


def test_no_lease_outlasts_the_claim(topic):
    scene = Scene(topic, a=(4,))
    topic.write()
    scene.claim_until = scene.now + 3
    scene.round()
    assert scene.hosts["a"].member.until == pytest.approx(scene.claim_until, abs=0.01)
    scene.now = scene.claim_until
    scene.report("a")
    assert scene.grant() == {}


def test_the_limit_of_unacked_messages_counts_all_members(topic):
    scene = Scene(topic, limit=6, a=(4,), b=(4,))
    for _ in range(20):
        topic.write()
    leased = scene.round()
    assert {name: sum(run.entries for run in runs) for name, runs in leased.items()} == {"a": 4, "b": 2}
    for host in scene.hosts.values():
        host.dispatch()
        host.consumers[0].permits = 4
    assert scene.round() == {"a": (), "b": ()}
    for position in list(scene.hosts["a"].consumers[0].pending)[:3]:
        scene.hosts["a"].ack(position)
    assert scene.round() == {"a": (), "b": ()}  # 3 of 6: not yet fewer than half
    scene.hosts["b"].ack(next(iter(scene.hosts["b"].consumers[0].pending)))
    assert any(scene.round().values())


def test_a_broker_stops_at_the_limit_of_the_subscription_inside_a_lease_of_batches(topic):
    scene = Scene(topic, limit=30, a=(1000,))
    host = scene.hosts["a"]
    host.dispatcher.follow(UnackedLimits(0, 30), delayed=True)
    for _ in range(20):
        topic.write(10)
    scene.round()
    assert len(host.dispatch()) == 3
    for position in list(host.consumers[0].pending)[:2]:
        host.ack(position)
    assert len(host.dispatch()) == 2, "fewer than half are unacked"


def test_a_member_at_its_limit_of_ranges_gets_no_more(topic, monkeypatch):
    limit = 700
    assert MAX_RANGES < limit < MAX_HELD_RANGES
    monkeypatch.setattr("readonly_engine.broker.split.coordinator.MAX_HELD_RANGES", limit)
    scene = Scene(topic, a=(0,), b=(0,))
    host = scene.hosts["a"]
    for _ in range(limit // 100):  # every second message stays unacked
        for _ in range(200):
            topic.write()
        host.consumers[0].permits = 200
        scene.round()
        for position, _, _ in host.dispatch():
            if position.entry_id % 2:
                host.ack(position)
        scene.round()
        scene.round()
    assert len(scene.coordinator.held_by("a")) == limit
    topic.write()
    host.consumers[0].permits = 200
    assert scene.round()["a"] == ()
    host.ack(next(iter(host.consumers[0].pending)))
    scene.round()
    scene.round()
    assert host.dispatch()


def test_undelivered_entries_of_many_ranges_come_back_in_several_reports(topic):
    scene = Scene(topic, a=(2 * MAX_WANTED,), b=(0,))
    host, other = scene.hosts["a"], scene.hosts["b"]
    for _ in range(2 * MAX_WANTED):
        topic.write()
    for _ in range(3):
        scene.round()
        host.dispatch()
    for position in list(host.consumers[0].pending)[::2]:
        host.ack(position)
    for _ in range(3):
        scene.round()
    counted = [one for one in host.consumers[0].pending if one.entry_id % 4 == 1]
    host.dispatcher.redeliver(host.consumers[0], counted)
    host.dispatcher.redeliver(host.consumers[0], counted)  # not pending any more: ignored
    for position in list(host.consumers[0].pending):
        host.dispatcher._return_pending(host.consumers[0], position)
    other.consumers[0].permits = 2 * MAX_WANTED
    for _ in range(12):
        scene.round(RETURN_S)
        other.dispatch()
    delivered = {position: count for position, _, count in other.delivered}
    assert len(delivered) == len(other.delivered) == MAX_WANTED > MAX_RANGES
    assert {one for one, count in delivered.items() if count} == set(counted)


def test_consumers_of_a_higher_priority_on_any_broker_are_served_first(topic):
    scene = Scene(topic, a=(4,), b=(10,))
    high, low = scene.hosts["a"], scene.hosts["b"]
    low.priority = 1
    for _ in range(3):
        topic.write()
    assert [run.entries for run in scene.round()["a"]] == [3]
    for _ in range(5):
        topic.write()
    assert {name: sum(run.entries for run in runs) for name, runs in scene.round().items()} == {"a": 1, "b": 4}
    high.dispatch()
    high.consumers[0].permits = 1
    topic.write()
    assert [name for name, runs in scene.round().items() if runs] == ["a"]
    low.priority, low.consumers[0].permits = 0, 20
    assert low.report(scene.now + 2 * REPORT_S).priority == 0, "a consumer of another priority is reported at once"


def test_delayed_entries_leave_the_member_and_come_when_they_are_due(topic):
    scene = Scene(topic, a=(MAX_WANTED,), b=(0,))
    host, other = scene.hosts["a"], scene.hosts["b"]
    soon, late = 3 * SOON_MS, 60_000
    for number in range(2 * MAX_DEFERRED + 50):
        topic.write(deliver_at=late if number % 2 else 0)
    topic.write(deliver_at=soon)
    scene.round()
    for position in [position for position, _, _ in host.dispatch()]:
        host.ack(position)
    host.now_ms = soon - SOON_MS
    scene.now += ACKS_S
    report = host.report(scene.now)
    assert len(report.deferred) == MAX_DEFERRED
    assert report.deferred[0].due_ms == late - host.now_ms
    due = scene.now + (late - host.now_ms) / 1000
    assert scene.coordinator.report("a", decode_report(encode_report(report)), scene.now)
    scene.round(ACKS_S)
    last = topic.positions[-1]
    assert scene.coordinator.held_by("a") == (Run(*last, last.entry_id),), "what is due soon stays with the member"
    host.now_ms = soon
    assert [position for position, _, _ in host.dispatch()] == [last]
    host.ack(last)
    host.consumers[0].permits, other.consumers[0].permits = 0, MAX_WANTED
    while scene.now < due - 0.1:
        assert not any(scene.round(min(RENEW_S, due - 0.1 - scene.now)).values())
    assert scene.coordinator.next_timer("a") == pytest.approx(due)
    for _ in range(3):
        scene.round(ACKS_S)
    other.now_ms = late
    assert [position for position, _, _ in other.dispatch()] == topic.positions[1:-1:2]
    assert scene.coordinator.next_timer("a") > scene.now


def test_a_coordinator_with_as_many_delayed_entries_as_it_may_have_leases_no_new_ones(topic, monkeypatch):
    monkeypatch.setattr("readonly_engine.broker.dispatch.delayed.MAX_DELAYED", 3)
    scene = Scene(topic, a=(3,))
    for _ in range(5):
        topic.write(deliver_at=20_000)
    for _ in range(4):
        scene.round()
        scene.hosts["a"].dispatch()
    assert not scene.coordinator.held_by("a")
    for _ in range(30):
        scene.round()
    assert sum(run.entries for run in scene.coordinator.held_by("a")) == 3


def test_there_are_at_most_so_many_members(topic):
    coordinator = Coordinator(EPOCH, topic.chain, CursorReplica(topic.chain, Position(1, -1)))
    assert all(coordinator.join(str(number), 0.0) for number in range(MAX_MEMBERS))
    assert not coordinator.join("one more", 0.0)
    assert coordinator.join("0", 0.0)
    coordinator.leave("0")
    assert coordinator.join("one more", 0.0)


def test_a_member_with_nothing_to_report_looks_again_after_a_while(topic):
    scene = Scene(topic, a=(5,))
    topic.write()
    scene.round()
    member, later = scene.hosts["a"].member, scene.now + 1.01 * ACKS_S
    assert scene.hosts["a"].report(later) is None
    assert member.pause(later) == pytest.approx(ACKS_S)
    assert member.pause(scene.now + RENEW_S) == 0


def test_a_chunk_of_a_large_message_is_not_dispatched(topic):
    scene = Scene(topic, a=(10,))
    topic.write()
    topic.write(chunk=("u", 0, 2))
    scene.round()
    host = scene.hosts["a"]
    assert [position for position, _, _ in host.dispatch()] == topic.positions[:1]
    assert host.dispatcher.indivisible
    assert host.dispatcher.next_read(0) is None, "or delivery reads it again and again"


def _numbers(*numbers):
    return b"".join(map(encode_varint, numbers))


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        (b"", "does not end"),
        (_numbers(1), "version 1"),
        (_numbers(2, 1, 1, 1, 0, 0), "does not end"),
        (_numbers(2, 1, 1, 1, 0, 0, 0, 9), "bytes after them"),
        (_numbers(2, 1 << 63, 1, 1, 0, 0, 0), "the number 9223372036854775808"),
        (_numbers(2, 1, 1, 1, 0, 0, MAX_RANGES + 1), f"{MAX_RANGES + 1} runs"),
        (_numbers(2, 1, 1, 1, 0, 0, 1, 1, 0, 50_000, 0), "a run of 50001 leased entries"),
        (_numbers(2, 1, 1, 1, 0, 0, 1, 1, 0, 100, 1), "a run of 101 leased entries"),
    ],
)
def test_a_malformed_grant_is_refused(encoded, error):
    with pytest.raises(MalformedFrameError, match=error):
        decode_grant(encoded)


def test_a_malformed_report_is_refused():
    with pytest.raises(MalformedFrameError, match="base64"):
        decode_report("no, it is not")
    many = Report(1, 1, 0, 0, 0, 0, deferred=(Deferred(1, 1, 1),) * (MAX_DEFERRED + 1))
    with pytest.raises(MalformedFrameError, match=f"{MAX_DEFERRED + 1} delayed entries"):
        decode_report(encode_report(many))
    full = tuple(Run(1 << 40, number << 20, number << 20) for number in range(MAX_RANGES))
    deferred = (Deferred(1 << 40, 1 << 29, 1 << 45),) * MAX_DEFERRED
    report = Report(1 << 62, 1 << 30, 9, MAX_WANTED, 1 << 30, 1 << 40, full, full, deferred, full, indivisible=True)
    assert decode_report(encode_report(report)) == report
    assert len(encode_report(report)) < 32 << 10  # a longer ACK is split
