"""Two brokers and a store with sessions, all in memory, and time as an argument: who serves a subscription when."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readonly_engine.broker.claims import LEASE_S, Act, ClaimKey, Claims
from readonly_engine.metadata.store import SessionEvent
from readonly_engine.metadata.topic_name import parse_topic_name

KEY = ClaimKey(parse_topic_name("orders"), "s")
SESSION_S = 10.0
HEARTBEAT_S = SESSION_S * 2 / 3
"""When at the latest a broker notices that the store is away."""


class Store:
    """Ephemeral nodes: a value and the session that made them."""

    def __init__(self):
        self.nodes = {}
        self.sessions = {}

    def expire(self, broker):
        self.sessions[broker.url] = self.sessions.get(broker.url, 0) + 1
        self.nodes = {key: owner for key, owner in self.nodes.items() if owner[0] != broker.url}

    def session_of(self, broker):
        return (broker.url, self.sessions.get(broker.url, 0))


class Broker:
    """What the shell does, one store call at a time and only when told to."""

    def __init__(self, url, store, members):
        self.url, self.store, self.members = url, store, members
        self.claims = Claims(url)
        self.calls = []
        self.answers = {}
        self.resting = set()
        self.told = []
        self._last = 0

    def want(self, key=KEY):
        self._last += 1
        number = self._last
        self.do(self.claims.want(key, number))
        return number

    def leave(self, number, key=KEY):
        self.answers.pop(number, None)
        self.do(self.claims.left(key, number))

    def do(self, actions):
        for action in actions:
            if action.act in {Act.CLAIM, Act.RELEASE}:
                self.calls.append((action.act, action.key))
            elif action.act == Act.REST:
                self.resting.add(action.key)
            elif action.act == Act.GO_ON:
                self.resting.discard(action.key)
            elif action.act == Act.REVOKE:
                self.resting.discard(action.key)
                self.told.append(action)
                for number in [n for n, answer in self.answers.items() if answer == ""]:
                    self.leave(number, action.key)
            for number in action.waiters:
                self.answers[number] = None if action.act == Act.RETRY else action.url

    def step(self, *, fails=False):
        """One answer of the store."""
        act, key = self.calls.pop(0)
        mine = self.store.session_of(self)
        if act == Act.RELEASE:
            if not fails and self.store.nodes.get(key) == mine:
                del self.store.nodes[key]
            self.do(self.claims.released(key))
        elif fails:
            self.do(self.claims.failed(key))
        else:
            owner = self.store.nodes.get(key, mine)
            if owner[0] == self.url:
                self.store.nodes[key] = mine
                self.do(self.claims.claimed(key))
            else:
                self.do(self.claims.taken(key, owner[0], self.members))

    def settle(self):
        while self.calls:
            self.step()

    @property
    def serves(self):
        return KEY in self.claims.held and KEY not in self.resting


@pytest.fixture
def pool():
    store, members = Store(), {"a", "b"}
    return Broker("a", store, members), Broker("b", store, members)


def test_the_first_broker_serves_and_the_second_is_told_who(pool):
    a, b = pool
    first, second = a.want(), b.want()
    a.settle()
    b.settle()
    assert (a.answers[first], b.answers[second]) == ("", "a")
    assert (a.serves, b.serves) == (True, False)


def test_all_who_came_meanwhile_share_one_question(pool):
    a, _ = pool
    numbers = [a.want() for _ in range(3)]
    assert a.calls == [(Act.CLAIM, KEY)]
    a.settle()
    assert [a.answers[number] for number in numbers] == ["", "", ""]
    assert a.answers[a.want() - 0] == ""  # and the next one needs none
    assert not a.calls


def test_the_claim_goes_with_the_last_consumer(pool):
    a, b = pool
    numbers = [a.want(), a.want()]
    a.settle()
    a.leave(numbers[0])
    assert not a.calls
    a.leave(numbers[1])
    a.settle()
    assert not a.store.nodes
    number = b.want()
    b.settle()
    assert b.answers[number] == ""


def test_a_consumer_that_comes_while_the_claim_is_given_back_gets_a_new_one(pool):
    a, _ = pool
    number = a.want()
    a.settle()
    a.leave(number)
    number = a.want()
    assert a.calls == [(Act.RELEASE, KEY)]
    a.settle()
    assert (a.answers[number], a.store.nodes) == ("", {KEY: ("a", 0)})


def test_a_consumer_that_goes_while_it_waits_leaves_no_claim(pool):
    a, _ = pool
    a.leave(a.want())
    a.settle()
    assert not a.store.nodes


def test_the_claim_of_a_broker_that_has_left_is_waited_for(pool):
    a, b = pool
    a.want()
    a.settle()
    b.members.discard("a")
    number = b.want()
    b.settle()
    assert b.answers[number] is None
    a.store.expire(a)
    number = b.want()
    b.settle()
    assert b.answers[number] == ""


def test_a_store_that_fails_means_try_again(pool):
    a, _ = pool
    number = a.want()
    a.step(fails=True)
    assert (a.answers[number], a.claims.held) == (None, [])


def test_a_claim_that_could_not_be_given_back_is_found_again(pool):
    a, _ = pool
    a.leave(a.want())
    a.step()
    a.step(fails=True)
    assert a.store.nodes
    number = a.want()
    a.settle()
    assert a.answers[number] == ""


def test_a_session_that_was_kept_is_not_felt(pool):
    a, _ = pool
    a.want()
    a.settle()
    a.do(a.claims.session(SessionEvent.IN_DOUBT, 100.0))
    a.do(a.claims.tick(100.0 + LEASE_S - 0.1))
    assert a.serves
    a.do(a.claims.session(SessionEvent.KEPT, 102.0))
    a.do(a.claims.tick(200.0))
    assert a.serves
    assert not a.calls


def test_long_doubt_rests_what_is_claimed_until_the_session_proves_to_be_the_same(pool):
    a, _ = pool
    a.want()
    a.settle()
    a.do(a.claims.session(SessionEvent.IN_DOUBT, 100.0))
    a.do(a.claims.tick(100.0 + LEASE_S))
    assert not a.serves
    assert a.answers[a.want()] is None
    a.do(a.claims.session(SessionEvent.KEPT, 120.0))
    assert a.serves


def test_a_session_that_is_known_to_have_ended_rests_its_claims_at_once(pool):
    a, _ = pool
    a.want()
    a.settle()
    a.store.expire(a)
    a.do(a.claims.session(SessionEvent.ENDED, 100.0))
    assert not a.serves
    a.do(a.claims.session(SessionEvent.REPLACED, 160.0))
    a.settle()
    assert a.serves


def test_after_a_new_session_the_claim_is_asked_for_again(pool):
    a, _ = pool
    a.want()
    a.settle()
    a.store.expire(a)
    a.do(a.claims.session(SessionEvent.IN_DOUBT, 100.0))
    a.do(a.claims.session(SessionEvent.REPLACED, 101.0))
    assert not a.serves
    a.step(fails=True)
    a.settle()
    assert a.serves
    assert not a.told


def test_what_another_has_claimed_meanwhile_is_revoked(pool):
    a, b = pool
    a.want()
    a.settle()
    a.store.expire(a)
    b.want()
    b.settle()
    a.do(a.claims.session(SessionEvent.IN_DOUBT, 100.0))
    a.do(a.claims.session(SessionEvent.REPLACED, 101.0))
    a.settle()
    assert [action.act for action in a.told] == [Act.REVOKE]
    assert (a.serves, b.serves) == (False, True)
    number = a.want()
    a.settle()
    assert a.answers[number] == "b"


def test_the_lease_ends_before_the_session_can():
    assert HEARTBEAT_S + LEASE_S < SESSION_S


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_never_two_at_once(seed):
    """Consumers come and go, calls fail, sessions end: a broker that is cut off learns of it after two thirds of a session."""
    rng = random.Random(seed)
    store, members = Store(), {"a", "b"}
    brokers = [Broker("a", store, members), Broker("b", store, members)]
    consumers = defaultdict(list)
    cut_off = {}
    now = 0.0
    for _ in range(200):
        now += rng.choice([0.0, 0.1, 0.5])
        broker = rng.choice(brokers)
        since = cut_off.get(broker.url)
        what = rng.choice(["want", "leave", "step", "step", "step", "fail", "cut", "heal"])
        if what == "want":
            consumers[broker.url].append(broker.want())
        elif what == "leave" and consumers[broker.url]:
            broker.leave(consumers[broker.url].pop(rng.randrange(len(consumers[broker.url]))))
        elif what in {"step", "fail"} and broker.calls:
            broker.step(fails=what == "fail" or since is not None)
        elif what == "cut" and since is None:
            cut_off[broker.url] = now
        elif what == "heal" and since is not None:
            del cut_off[broker.url]
            expired = broker.url in store.sessions and store.sessions[broker.url] and now - since >= SESSION_S
            broker.do(broker.claims.session(SessionEvent.REPLACED if expired else SessionEvent.KEPT, now))
        for one in brokers:
            began = cut_off.get(one.url)
            if began is None:
                continue
            if now - began >= HEARTBEAT_S:
                one.do(one.claims.session(SessionEvent.IN_DOUBT, began + HEARTBEAT_S))
            one.do(one.claims.tick(now))
            if now - began >= SESSION_S and any(owner[0] == one.url for owner in store.nodes.values()):
                store.expire(one)
        for one in brokers:
            if now - cut_off.get(one.url, now) >= SESSION_S:
                store.sessions[one.url] = max(1, store.sessions.get(one.url, 0))
        assert sum(one.serves for one in brokers) <= 1, f"seed {seed} at {now}"
