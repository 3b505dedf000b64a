"""Sessions of two brokers of a pool, with the claim, the owner and the connections between them played: time is a number."""

import random

import pytest
from readonly_engine.broker.dispatch.consumer_state import ConsumerState
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.leased import LeasedDispatcher
from readonly_engine.broker.split.leases import HANDOVER_S, LEASE_S
from readonly_engine.broker.split.member import RETURN_S
from readonly_engine.broker.split.session import GRANT_WAIT_S, Do, SplitSession, State
from readonly_engine.topic.position import Position

CLAIM_S = 6.0
"""As long as a claim counts without an answer of the metadata store."""
SESSION_S = 10.0
"""Then the store removes it."""


def answered():
    """Return a receipt: the owner has answered all acks."""
    return lambda: True


class Broker:
    """A broker with one consumer."""

    def __init__(self, pool, name):
        self.pool, self.name = pool, name
        self.alive = self.reachable = True
        self.still = False  # its process stands still, and its connections stay
        self.claim_seen = pool.now
        self.new_session()

    def new_session(self):
        chain = self.pool.topic.chain
        self.cursor = CursorReplica(chain, Position(1, -1))
        self.read_owner()
        self.dispatcher = LeasedDispatcher(chain, self.cursor)
        self.consumer = ConsumerState(permits=10)
        self.dispatcher.add(self.consumer)
        self.session = SplitSession(self.name, chain, self.cursor, self.dispatcher, self.demand, answered)
        self.closed = False
        self.coordinator = None  # the broker that it is connected to
        self.do(self.session.begin())

    def demand(self):
        return max(self.consumer.permits, 0), self.consumer.unacked

    def read_owner(self):
        self.cursor.load_acked_ranges((Position(p.ledger_id, p.entry_id - 1), p) for p in self.pool.acked)

    def do(self, actions):
        for action in actions:
            self.pool.queue.append((self, self.session, action))

    def come_back(self):
        """Let the client subscribe again, after its consumer was closed."""
        self.closed = True

    def dispatch(self):
        while self.session.may_dispatch(self.pool.now):
            read = self.dispatcher.next_read(0)
            if read is None or self.dispatcher.indivisible:
                return
            for one in self.dispatcher.dispatch(self.pool.topic.read(*read), 0):
                self.pool.on_delivered(one.entry.position, self)

    def ack(self, count=1000):
        for position in list(self.consumer.pending)[:count]:
            self.pool.acked.add(position)
            self.cursor.ack(position)
            self.dispatcher.acked(position)
            self.consumer.permits += 1


class Pool:
    """Brokers of a pool; the first one coordinates."""

    def __init__(self, topic, names="ab"):
        self.topic = topic
        self.now = 50.0
        self.acked, self.delivered, self.queue, self.ended = set(), [], [], []
        self.holder, self.epoch = None, 0
        self.single = False
        self.brokers = {}
        for name in names:
            self.brokers[name] = Broker(self, name)
            self.run()

    def __getitem__(self, name):
        return self.brokers[name]

    def on_delivered(self, position, to):
        others = [one for one in self.brokers.values() if one is not to and one.alive]
        assert not any(position in one.consumer.pending and one.session.may_dispatch(self.now) for one in others)
        self.delivered.append((position, to.name))

    def run(self):
        """Carry out all actions."""
        late = []
        while self.queue:
            broker, session, action = self.queue.pop(0)
            peer = self.brokers.get(action.peer, broker)
            if broker.still or peer.still:
                late.append((broker, session, action))
            elif broker.alive:
                self._run(broker, session, action)
        self.queue = late

    def _run(self, broker, session, action):
        do, now = action.do, self.now
        peer = self.brokers.get(action.peer)
        if do is Do.CLAIM:
            if self.holder in {None, broker.name}:
                self.holder, self.epoch = broker.name, self.epoch + 1
                broker.read_owner()
                session.claim_until = broker.claim_seen + CLAIM_S
                broker.do(session.claimed(self.epoch, now))
            else:
                broker.do(session.elsewhere(self.holder))
        elif do is Do.RELEASE:
            self.holder = None if self.holder == broker.name else self.holder
        elif do is Do.CONNECT:
            if peer.alive and peer.session.member_joined(broker.name, now):
                broker.coordinator = peer
                broker.do(session.connected(now))
            else:
                broker.do(session.disconnected(now))
        elif do is Do.DISCONNECT:
            self.unlink(broker, stopped=True)
        elif do is Do.REPORT:
            if broker.coordinator is not None:
                broker.coordinator.do(broker.coordinator.session.member_reported(broker.name, action.report, now))
        elif do is Do.GRANT:
            if peer.coordinator is broker:
                peer.do(peer.session.granted(action.grant, now))
        elif do is Do.END_MEMBER:
            if peer.coordinator is broker:
                peer.coordinator = None
                peer.do(peer.session.disconnected(now))
                broker.do(session.member_gone(action.peer, now))
        elif do is Do.READ_CURSOR:
            broker.read_owner()
            broker.do(session.cursor_read(now))
        elif do is Do.SINGLE:
            self.single = True
        elif do is Do.BEGIN_AGAIN:
            self.ended.append((broker.name, action.why))
            broker.closed = True
        broker.dispatch()

    def unlink(self, broker, *, stopped=False):
        other, broker.coordinator = broker.coordinator, None
        if other is not None and other.alive:
            other.do(other.session.member_gone(broker.name, self.now, stopped=stopped))

    def kill(self, name):
        broker = self[name]
        broker.alive = False
        for other in self.brokers.values():
            if other.coordinator is broker:
                other.coordinator = None
                other.do(other.session.disconnected(self.now))
        self.unlink(broker)

    def advance(self, seconds):
        """Let time pass in steps of 0.05 s; a broker whose consumers were closed gets them again."""
        for _ in range(round(seconds / 0.05)):
            self.now += 0.05
            for broker in self.brokers.values():
                if broker.alive and broker.reachable:
                    broker.claim_seen = self.now
                broker.session.claim_until = broker.claim_seen + CLAIM_S
                if self.holder == broker.name and self.now >= broker.claim_seen + SESSION_S:
                    self.holder = None
                if not broker.alive or broker.still:
                    continue
                if broker.closed and broker.session.state is State.ENDED:
                    broker.new_session()
                timer = broker.session.next_timer(self.now)
                if timer is not None and self.now >= timer:
                    broker.do(broker.session.on_timer(self.now))
                broker.do(broker.session.changed(self.now))
            self.run()

    def write(self, count):
        for _ in range(count):
            self.topic.write()

    def counts(self):
        """Deliveries of each entry, in order."""
        positions = [position for position, _ in self.delivered]
        return [positions.count(position) for position in self.topic.positions]

    def by(self, name):
        return sum(1 for _, broker in self.delivered if broker == name)


@pytest.fixture
def pool(topic):
    return Pool(topic)


def work(pool, seconds, names="ab"):
    for _ in range(round(seconds / 0.1)):
        pool.advance(0.1)
        for name in names:
            pool[name].ack()


def test_both_serve_and_each_entry_comes_once(pool):
    pool.write(200)
    work(pool, 10)
    assert pool.counts() == [1] * 200
    assert min(pool.by("a"), pool.by("b")) > 50
    assert (pool["a"].session.state, pool["b"].session.state) == (State.COORDINATING, State.FOLLOWING)
    assert not pool.ended


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


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_chunked_message_ends_the_split(pool, name):
    pool[{"a": "b", "b": "a"}[name]].consumer.permits = 0
    pool.topic.write(chunk=("uuid", 0, 2))
    pool.advance(2 * RETURN_S)
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
    session = SplitSession("b", topic.chain, cursor, LeasedDispatcher(topic.chain, cursor), lambda: (10, 0), answered)
    session.begin()
    session.elsewhere("a")
    assert [action.do for action in session.connected(50.0)] == [Do.REPORT]
    assert Do.RELAY not in [action.do for action in session.on_timer(50.0 + GRANT_WAIT_S - 0.01)]
    assert session.next_timer(50.0 + GRANT_WAIT_S - 0.01) <= 50.0 + GRANT_WAIT_S
    assert Do.RELAY in [action.do for action in session.on_timer(50.0 + GRANT_WAIT_S)]


@pytest.mark.parametrize("seed", range(20))
def test_faults_lose_nothing_and_no_entry_is_with_two_brokers_at_once(topic, seed):
    dice = random.Random(seed)
    pool = Pool(topic, "abc")
    faults = 0
    for _ in range(150):
        pool.write(dice.randrange(6))
        pool.advance(dice.choice((0.05, 0.2, 0.6)))
        for broker in pool.brokers.values():
            if broker.alive:
                broker.ack(dice.randrange(8))
        if dice.random() < 0.08:
            broker = pool[dice.choice("abc")]
            fault = dice.choice(("unlink", "cut", "kill", "leave"))
            faults += 1
            if fault == "unlink":
                pool.unlink(broker)
                broker.do(broker.session.disconnected(pool.now))
            elif fault == "cut":
                broker.reachable = not broker.reachable
            elif fault == "kill" and sum(one.alive for one in pool.brokers.values()) > 2:
                pool.kill(broker.name)
            elif fault == "leave" and broker.alive and broker.session.state is not State.RESIGNING:
                broker.dispatcher.remove(broker.consumer)
                broker.do(broker.session.stop(pool.now))
                broker.come_back()
    for broker in pool.brokers.values():
        broker.reachable = True
        if pool.holder != broker.name and broker.session.coordinator is not None:
            broker.do(broker.session.claim_lost())
    work(pool, 3 * SESSION_S, [name for name in "abc" if pool[name].alive])
    assert faults
    assert pool.acked == set(topic.positions)
