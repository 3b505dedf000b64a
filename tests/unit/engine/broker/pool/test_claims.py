"""Two brokers and a store with sessions, all in memory, and time as an argument: who serves a subscription when."""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readonly_engine.broker.pool.claims import NO_EPOCH, ActionKind, ClaimKey, Claims
from readonly_engine.metadata.lease import LEASE_SHARE, PROBE_SHARE, SessionLease
from readonly_engine.metadata.topic_name import parse_topic_name

from tests.support.examples import examples

KEY = ClaimKey(parse_topic_name("orders"), "s")
SESSION_S = 10.0
LEASE_S = LEASE_SHARE * SESSION_S


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

    def id_of(self, broker):
        return self.sessions.get(broker.url, 0) + 1


class Broker:
    """What the shell does, one store call at a time and only when told to."""

    def __init__(self, url, store, members):
        self.url, self.store, self.members = url, store, members
        self.claims = Claims(url)
        self.lease = SessionLease()
        self.calls = []
        self.answers = {}
        self.epochs = {}
        self.suspended = set()
        self.stale = {}
        self.actions = []
        self._last = 0
        self.now = 0.0
        self.answered(0.0)

    def answered(self, now, sent=None):
        """The store has answered a probe."""
        self.now = now
        if self.lease.answered(self.store.id_of(self), now if sent is None else sent, SESSION_S):
            self.do(self.claims.renewed(self.lease.session, self.lease.until, now))

    def ended(self):
        self.lease.ended()
        self.do(self.claims.ended())

    def request(self, key=KEY):
        self._last += 1
        number = self._last
        self.do(self.claims.request(key, number, self.now))
        return number

    def leave(self, number, key=KEY):
        self.answers.pop(number, None)
        self.do(self.claims.release(key, number))

    def do(self, actions):
        for action in actions:
            if action.kind in {ActionKind.CLAIM, ActionKind.RELEASE}:
                self.calls.append((action.kind, action.key, self.store.session_of(self)))
            elif action.kind == ActionKind.SUSPEND:
                self.suspended.add(action.key)
            elif action.kind == ActionKind.RESUME:
                self.suspended.discard(action.key)
            elif action.kind == ActionKind.REFRESH:
                self.suspended.discard(action.key)
                self.stale[action.key] = action.epoch
            elif action.kind == ActionKind.REVOKE:
                self.suspended.discard(action.key)
                self.actions.append(action)
                for number in [n for n, answer in self.answers.items() if answer == ""]:
                    self.leave(number, action.key)
            for number in action.waiters:
                self.answers[number] = None if action.kind == ActionKind.RETRY else action.url
                self.epochs[number] = action.epoch

    def step(self, *, fails=False):
        """One answer of the store."""
        act, key, _ = self.calls.pop(0)
        mine = self.store.session_of(self)
        if act == ActionKind.RELEASE:
            if not fails and self.store.nodes.get(key) == mine:
                del self.store.nodes[key]
            self.do(self.claims.released(key))
        elif fails:
            self.do(self.claims.failed(key))
        else:
            owner = self.store.nodes.get(key, mine)
            if owner[0] == self.url:
                self.store.nodes[key] = mine
                self.do(self.claims.claimed(key, self.store.id_of(self)))
            else:
                self.do(self.claims.taken(key, owner[0], self.members))

    def run(self):
        while self.calls:
            self.step()

    @property
    def serves(self):
        return KEY in self.claims.held and KEY not in self.suspended and self.now < self.claims.until


@pytest.fixture
def pool():
    store, members = Store(), {"a", "b"}
    return Broker("a", store, members), Broker("b", store, members)


def test_a_subscription_is_this_brokers_alone_until_its_lease_ends_or_another_has_it(pool):
    a, b = pool
    a.request()
    assert not a.claims.serves(KEY, 0.0), "it is not known yet"
    a.run()
    b.request()
    b.run()
    assert (a.claims.serves(KEY, 0.0), b.claims.serves(KEY, 0.0)) == (True, False)
    assert not a.claims.serves(KEY, a.claims.until)
    a.store.expire(a)
    b.request()
    b.run()
    a.ended()
    assert not a.claims.serves(KEY, 0.0)
    a.answered(1.0)
    a.run()
    assert [action.kind for action in a.actions] == [ActionKind.REVOKE]
    assert not a.claims.serves(KEY, 1.0)


def test_a_consumer_that_comes_while_the_claim_is_given_back_gets_a_new_one(pool):
    a, _ = pool
    number = a.request()
    a.run()
    a.leave(number)
    number = a.request()
    assert [call[:2] for call in a.calls] == [(ActionKind.RELEASE, KEY)]
    a.run()
    assert (a.answers[number], a.store.nodes) == ("", {KEY: ("a", 0)})


def test_a_consumer_that_goes_while_it_waits_leaves_no_claim(pool):
    a, _ = pool
    a.leave(a.request())
    a.run()
    assert not a.store.nodes


def test_the_claim_of_a_broker_that_has_left_is_waited_for(pool):
    a, b = pool
    a.request()
    a.run()
    b.members.discard("a")
    number = b.request()
    b.run()
    assert b.answers[number] is None
    a.store.expire(a)
    number = b.request()
    b.run()
    assert b.answers[number] == ""


def test_a_store_that_fails_means_try_again(pool):
    a, _ = pool
    number = a.request()
    a.step(fails=True)
    assert (a.answers[number], a.claims.held) == (None, [])


def test_a_claim_that_could_not_be_given_back_is_found_again(pool):
    a, _ = pool
    a.leave(a.request())
    a.step()
    a.step(fails=True)
    assert a.store.nodes
    number = a.request()
    a.run()
    assert a.answers[number] == ""


def test_long_doubt_suspends_what_is_claimed_until_the_session_proves_to_be_the_same(pool):
    a, _ = pool
    a.request()
    a.run()
    a.answered(100.0)
    a.now = 100.0 + LEASE_S
    a.do(a.claims.on_timer(a.now))
    assert not a.serves
    assert KEY in a.suspended
    assert a.answers[a.request()] is None
    a.answered(120.0)
    assert a.serves
    assert not a.stale


def test_a_lease_is_counted_from_what_was_sent_and_not_from_its_answer(pool):
    a, _ = pool
    a.request()
    a.run()
    a.answered(120.0, sent=100.0)  # the process was stopped for 20 s, with the answer in its socket
    assert KEY in a.suspended
    a.answered(120.1)
    assert a.serves


def test_after_a_new_session_the_claim_is_asked_for_again(pool):
    a, _ = pool
    a.request()
    a.run()
    a.store.expire(a)
    a.answered(101.0)
    assert not a.serves
    a.step(fails=True)
    a.run()
    assert a.serves
    assert not a.actions


def test_what_was_claimed_again_is_read_anew_before_it_is_served(pool):
    """Another broker may have had it in between, and its acks."""
    a, b = pool
    number = a.request()
    a.run()
    a.store.expire(a)
    other = b.request()
    b.run()
    b.leave(other)
    b.run()
    a.answered(101.0)
    a.run()
    assert a.serves
    assert a.claims.is_valid(KEY, a.stale[KEY])
    assert a.stale[KEY] != a.epochs[number] != NO_EPOCH


def test_what_is_claimed_again_in_doubt_stays_suspended(pool):
    a, _ = pool
    a.request()
    a.run()
    a.store.expire(a)
    a.answered(101.0)
    a.now = a.claims.until + 1
    a.do(a.claims.on_timer(a.now))
    a.run()
    assert (KEY in a.suspended, a.claims.suspended) == (True, True)
    a.answered(a.now)
    assert (KEY in a.suspended, a.claims.suspended, a.serves) == (False, False, True)


def test_nobody_is_served_before_the_first_session():
    claims = Claims("a")
    assert claims.suspended
    assert [action.kind for action in claims.request(KEY, 1, 0.0)] == [ActionKind.RETRY]


def test_a_consumer_on_its_way_is_not_served_under_a_claim_that_was_lost_or_made_again(pool):
    a, b = pool
    number = a.request()
    a.run()
    granted = a.epochs[number]
    assert a.claims.is_valid(KEY, granted)
    a.store.expire(a)
    a.answered(101.0)
    assert not a.claims.is_valid(KEY, granted)
    a.run()
    assert not a.claims.is_valid(KEY, granted)
    late = a.epochs[a.request()]
    assert a.claims.is_valid(KEY, late)
    a.store.expire(a)
    b.request()
    b.run()
    a.answered(102.0)
    a.run()
    assert not a.claims.is_valid(KEY, late)


def test_a_claim_that_is_answered_after_its_session_ended_is_asked_for_again(pool):
    a, b = pool
    number = a.request()
    a.calls.clear()
    session = a.store.id_of(a)
    a.store.expire(a)
    b.request()
    b.run()
    a.answered(101.0)
    a.do(a.claims.claimed(KEY, session))  # its node was made, and is gone
    a.run()
    assert a.answers[number] == "b"
    assert not a.serves


def test_the_lease_ends_before_the_session_can():
    """Half a tick is what a follower may keep from the leader, and a session lasts two ticks at least."""
    assert LEASE_S + PROBE_SHARE * SESSION_S + SESSION_S / 4 < SESSION_S


def test_an_older_answer_does_not_shorten_a_lease():
    lease = SessionLease()
    assert lease.answered(1, 100.0, SESSION_S)
    assert not lease.answered(1, 99.0, SESSION_S)
    assert lease.holds(100.0 + LEASE_S - 0.1)
    assert not lease.holds(100.0 + LEASE_S)
    assert lease.answered(2, 99.0, SESSION_S)
    assert not lease.holds(99.0 + LEASE_S)
    lease.ended()
    assert not lease.holds(0.0)


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32))
def test_never_two_at_once(seed):
    """Consumers come and go, calls fail, sessions end, timers are late: nobody tells a broker that it is cut off."""
    rng = random.Random(seed)
    store, members = Store(), {"a", "b"}
    brokers = [Broker("a", store, members), Broker("b", store, members)]
    consumers = defaultdict(list)
    cut_off = {}
    heard = {broker.url: 0.0 for broker in brokers}
    now = 0.0
    for _ in range(200):
        now += rng.choice([0.0, 0.1, 0.5])
        broker = rng.choice(brokers)
        since = cut_off.get(broker.url)
        what = rng.choice(["want", "leave", "step", "step", "step", "fail", "cut", "heal", "probe", "tick"])
        for one in brokers:
            one.now = now
            # A follower of ZooKeeper's that hears a broker may keep it from the leader for half a tick.
            if now - heard[one.url] >= SESSION_S * 3 / 4 and one.url in cut_off:
                if any(owner[0] == one.url for owner in store.nodes.values()):
                    store.expire(one)
                else:
                    store.sessions[one.url] = max(1, store.sessions.get(one.url, 0))
        if what == "want":
            consumers[broker.url].append(broker.request())
        elif what == "leave" and consumers[broker.url]:
            broker.leave(consumers[broker.url].pop(rng.randrange(len(consumers[broker.url]))))
        elif what in {"step", "fail"} and broker.calls:
            broker.step(fails=what == "fail" or since is not None)
        elif what == "cut" and since is None:
            cut_off[broker.url] = now
        elif what == "heal" and since is not None:
            del cut_off[broker.url]
        elif what == "tick":
            broker.do(broker.claims.on_timer(now))
        for one in brokers:
            if one.url not in cut_off:
                heard[one.url] = now
                one.answered(now)
        assert sum(one.serves for one in brokers) <= 1, f"seed {seed} at {now}"
