"""Sessions of two brokers of a pool, with the claim, the owner and the connections between them played: time is a number."""

import math
import random

import pytest
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.leased import LeasedDispatcher
from readonly_engine.broker.split import key_coordinator
from readonly_engine.broker.split.keys import MAX_LOCAL_CONSUMERS
from readonly_engine.broker.split.leases import HANDOVER_S, LAST_ACKS_S, LEASE_S
from readonly_engine.broker.split.member import RETURN_S, Member
from readonly_engine.broker.split.session import GRANT_WAIT_S, Do, SplitSession, State
from readonly_engine.topic.position import Position

from tests.support.split_pool import CLAIM_S, SESSION_S, Pool, answered


@pytest.fixture
def pool(topic):
    return Pool(topic)


def work(pool, seconds, names="ab"):
    for _ in range(round(seconds / 0.1)):
        pool.advance(0.1)
        for name in names:
            pool[name].ack()


def test_after_the_death_of_the_coordinator_nothing_is_lost_and_what_others_acked_is_not_delivered_again(pool):
    pool.write(40)
    pool.advance(0.2)
    assert pool.by("b") == 10
    pool.kill("a")
    pool["b"].ack(5)
    before = set(pool.acked)
    pool.advance(LEASE_S + 1)
    assert pool.ended == [("b", "its lease has ended")]
    work(pool, SESSION_S + 5, "b")
    assert pool.acked == set(pool.topic.positions)
    again = [position for position, count in zip(pool.topic.positions, pool.counts(), strict=True) if count > 1]
    assert again
    assert not before & set(again)
    assert pool["b"].session.state is State.COORDINATING


def test_an_idle_member_survives_the_death_of_the_coordinator(pool):
    pool.kill("a")
    pool.advance(SESSION_S + 2)
    pool.write(3)
    work(pool, 2, "b")
    assert pool.counts() == [1] * 3
    assert not pool.ended


def test_an_idle_member_begins_again_if_a_reset_may_have_ended_the_coordinator(pool):
    pool["b"].session.member.owner_moved()
    pool.kill("a")
    pool.write(1)
    work(pool, SESSION_S + 2, "b")
    assert pool.ended == [("b", "its lease has ended")]
    assert pool.counts() == [1]


def test_a_member_that_dies_gives_back_what_it_had_at_the_end_of_its_lease(pool):
    pool.write(20)
    pool.advance(0.2)
    pool["a"].ack()
    pool["b"].ack(4)
    pool.kill("b")
    work(pool, LEASE_S - 0.5, "a")
    assert len(pool.acked) == 14
    work(pool, 2, "a")
    assert pool.counts().count(2) == 6
    assert pool.acked == set(pool.topic.positions)


def test_a_member_that_stands_still_keeps_its_entries_to_the_end_of_its_lease(pool):
    pool.write(20)
    pool.advance(0.2)
    b = pool["b"]
    pool["a"].ack()
    b.still = True
    work(pool, LEASE_S - 0.5, "a")
    assert len(pool.acked) == 10
    work(pool, 2, "a")
    assert len(pool.acked) == 20
    b.still = False
    b.dispatch()
    assert pool.by("b") == 10, "its lease has ended"
    work(pool, 2)
    assert pool.ended == [("b", "its lease has ended")]
    pool.write(20)
    work(pool, 2)
    assert pool.counts()[20:] == [1] * 20


def test_a_broken_connection_costs_no_delivery(pool):
    pool.write(20)
    pool.advance(0.2)
    broker = pool["b"]
    pool.unlink(broker)
    broker.do(broker.session.disconnected(pool.now))
    pool.advance(0.1)
    broker.ack(3)
    pool.write(20)
    work(pool, 5)
    assert pool.counts() == [1] * 40
    assert not pool.ended


@pytest.mark.parametrize("acks", [True, False])
def test_a_coordinator_without_consumers_hands_over_when_the_consumers_of_the_member_have_acked(pool, acks):
    pool.write(30)
    pool.advance(0.2)
    pool["a"].ack()
    a, b = pool["a"], pool["b"]
    a.do(a.session.stop(pool.now))
    pool.run()
    assert (a.session.state, pool.holder) == (State.RESIGNING, "a")
    pool.advance(0.1)
    assert pool.holder == "a", "the member has unacked messages"
    assert not b.session.may_dispatch(pool.now)
    if acks:
        b.ack()
    pool.advance(0.1 if acks else HANDOVER_S)
    assert a.session.state is State.ENDED
    work(pool, 2, "b")
    assert b.session.state is State.COORDINATING
    assert pool.acked == set(pool.topic.positions)
    assert (max(pool.counts()) == 1) == acks


def test_a_coordinator_that_loses_its_claim_grants_nothing_beyond_it(pool):
    a, b = pool["a"], pool["b"]
    pool.write(10)
    a.reachable = False
    pool.advance(CLAIM_S + 0.1)
    assert not a.session.may_dispatch(pool.now)
    assert not b.session.may_dispatch(pool.now)
    work(pool, 2 * SESSION_S)
    assert pool.holder == "b"
    a.do(a.session.claim_lost())
    a.reachable = True
    work(pool, 5)
    assert pool.acked == set(pool.topic.positions)
    assert (a.session.state, b.session.state) == (State.FOLLOWING, State.COORDINATING)


def test_a_member_without_consumers_gives_everything_back_at_once(pool):
    pool.write(40)
    pool.advance(0.2)
    b = pool["b"]
    assert len(b.consumer.pending) == 10
    b.dispatcher.redeliver(b.consumer, [next(iter(b.consumer.pending))])
    b.dispatcher.remove(b.consumer)
    b.do(b.session.stop(pool.now))
    work(pool, 1, "a")
    assert pool.acked == set(pool.topic.positions)


def test_consumers_may_ack_for_a_while_what_ends_the_split(pool):
    """A client sends acks in groups, and waits for the answer to one in a transaction."""
    pool.write(40)
    pool.advance(0.2)
    a = pool["a"]
    before = len(a.consumer.pending)
    a.dispatcher.indivisible = True
    delivered = len(pool.delivered)
    pool.advance(HANDOVER_S / 2)
    assert not pool.ended
    a.ack()
    pool.advance(HANDOVER_S / 4)
    assert len(a.consumer.pending) < before
    assert len([name for _, name in pool.delivered[delivered:] if name == "a"]) == 0
    pool.advance(3 * HANDOVER_S)
    assert pool.single
    assert {name for name, _ in pool.ended} == {"a", "b"}


@pytest.mark.parametrize("acked_after", [0.1, HANDOVER_S + 0.5, math.inf])
def test_the_end_of_a_split_waits_while_its_consumers_have_messages(pool, acked_after):
    pool.write(10)
    pool.advance(0.2)
    a, begun = pool["a"], pool.now
    assert a.consumer.pending
    a.dispatcher.indivisible = True
    while not pool.single:
        pool.advance(0.1)
        if pool.now - begun >= acked_after and a.consumer.pending:
            a.ack()
            a.do(a.session.changed(pool.now))
            pool.run()
    assert pool.now - begun == pytest.approx(max(HANDOVER_S, min(acked_after, LAST_ACKS_S)), abs=0.4)


def test_a_coordinator_whose_last_consumer_leaves_meanwhile_waits_for_the_others_leases_only(pool):
    pool.write(40)
    pool.advance(0.2)
    a = pool["a"]
    a.dispatcher.indivisible = True
    pool.advance(HANDOVER_S / 2)
    a.do(a.session.stop(pool.now))
    pool.run()
    assert a.session.state is State.RESIGNING
    assert a.session.next_timer(pool.now + HANDOVER_S) > pool.now + HANDOVER_S


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_chunked_message_ends_the_split(pool, name):
    pool[{"a": "b", "b": "a"}[name]].consumer.permits = 0
    pool.topic.write(chunk=("uuid", 0, 2))
    pool.advance(2 * RETURN_S + HANDOVER_S)
    assert pool.single
    assert {name for name, _ in pool.ended} == {"a", "b"}
    assert not pool.delivered


def test_a_member_begins_again_where_the_broker_with_the_claim_serves_alone(pool):
    session = pool["b"].session
    assert [action.do for action in session.served_alone()] == [Do.RELAY, Do.DISCONNECT, Do.BEGIN_AGAIN]
    assert session.state is State.ENDED
    assert session.served_alone() == []


def test_a_broker_that_grants_nothing_does_not_split(topic):
    """An older one takes the member for a consumer."""
    cursor = CursorReplica(topic.chain, Position(1, -1))
    session = SplitSession(
        "b", Member(LeasedDispatcher(topic.chain, cursor), cursor, answered, lambda _: (0, 10, 0)), None
    )
    session.begin()
    session.elsewhere("a")
    assert [action.do for action in session.connected(50.0)] == [Do.REPORT]
    assert Do.RELAY not in [action.do for action in session.on_timer(50.0 + GRANT_WAIT_S - 0.01)]
    assert session.next_timer(50.0 + GRANT_WAIT_S - 0.01) <= 50.0 + GRANT_WAIT_S
    assert Do.RELAY in [action.do for action in session.on_timer(50.0 + GRANT_WAIT_S)]


KEYS = [f"key-{number}" for number in range(12)]


def test_keys_move_between_brokers_without_a_second_delivery(topic):
    dice = random.Random(1)
    pool = Pool(topic, "ab", KEYS)
    for _ in range(60):
        pool.write(dice.randrange(8))
        pool.advance(dice.choice((0.05, 0.3, 1.2)))
        broker = pool[dice.choice("ab")]
        broker.ack(dice.randrange(6))
        if dice.random() < 0.3 and len(broker.dispatcher.consumers) < 3:
            broker.subscribe()
        elif dice.random() < 0.5 and len(broker.dispatcher.consumers) > 1:
            broker.ack()
            broker.leave(dice.choice(broker.dispatcher.consumers))
    work(pool, 10)
    assert pool.counts() == [1] * len(topic.positions)
    assert min(pool.by("a"), pool.by("b")) > 20
    assert not pool.ended


@pytest.mark.parametrize("limit", ["local", "all"])
def test_one_broker_serves_a_subscription_with_too_many_consumers(topic, limit, monkeypatch):
    pool = Pool(topic, "ab", KEYS)
    if limit == "all":
        monkeypatch.setattr(key_coordinator, "MAX_CONSUMERS", MAX_LOCAL_CONSUMERS + 1)
    for _ in range(MAX_LOCAL_CONSUMERS - 1):
        pool["b"].subscribe()
    pool.advance(1)
    assert not pool.single
    pool["b" if limit == "local" else "a"].subscribe()
    pool.advance(2 * HANDOVER_S)
    assert pool.single
    assert {name for name, _ in pool.ended} == {"a", "b"}


@pytest.mark.parametrize("keys", [(), KEYS])
@pytest.mark.parametrize("seed", range(20))
def test_faults_lose_nothing_and_no_entry_or_key_is_with_two_consumers_at_once(topic, seed, keys):
    dice = random.Random(seed)
    pool = Pool(topic, "abc", keys)
    faults = 0
    for _ in range(150):
        pool.write(dice.randrange(6))
        pool.advance(dice.choice((0.05, 0.2, 0.6)))
        for broker in pool.brokers.values():
            if broker.alive:
                broker.ack(dice.randrange(8))
        if dice.random() < 0.12:
            broker = pool[dice.choice("abc")]
            fault = dice.choice(("unlink", "cut", "kill", "leave", "come", "go"))
            faults += 1
            if fault == "unlink":
                pool.unlink(broker)
                broker.do(broker.session.disconnected(pool.now))
            elif fault == "cut":
                broker.reachable = not broker.reachable
            elif fault == "kill" and sum(one.alive for one in pool.brokers.values()) > 2:
                pool.kill(broker.name)
            elif fault == "leave" and broker.alive and broker.session.state is not State.RESIGNING:
                for consumer in list(broker.dispatcher.consumers):
                    broker.leave(consumer)
                broker.do(broker.session.stop(pool.now))
                broker.come_back()
            elif fault == "come" and broker.alive and broker.session.state is not State.ENDED:
                broker.subscribe()
            elif fault == "go" and len(broker.dispatcher.consumers) > 1:
                broker.leave(dice.choice(broker.dispatcher.consumers))
    for broker in pool.brokers.values():
        broker.reachable = True
        if pool.holder != broker.name and broker.session.coordinator is not None:
            broker.do(broker.session.claim_lost())
    work(pool, 3 * SESSION_S, [name for name in "abc" if pool[name].alive])
    assert faults
    assert pool.acked == set(topic.positions)
