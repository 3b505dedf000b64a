"""Brokers of a pool that split a subscription, with the claim, the owner and their connections played: time is a number."""

from __future__ import annotations

from readonly_engine.broker.dispatch.consumer_state import ConsumerState, Delivery
from readonly_engine.broker.dispatch.cursor import CursorReplica
from readonly_engine.broker.dispatch.leased import LeasedDispatcher
from readonly_engine.broker.dispatch.leased_keys import LeasedKeyDispatcher
from readonly_engine.broker.split.coordinator import Coordinator
from readonly_engine.broker.split.key_coordinator import KeyCoordinator
from readonly_engine.broker.split.key_member import KeyMember
from readonly_engine.broker.split.member import Member
from readonly_engine.broker.split.session import Do, SplitSession, State
from readonly_engine.topic.position import Position

CLAIM_S = 6.0
"""As long as a claim counts without an answer of the metadata store."""
SESSION_S = 10.0
"""Then the store removes it."""


def answered():
    """Return a receipt: the owner has answered all acks."""
    return lambda: True


def dispatched(dispatcher, entries, now=0):
    """Dispatch entries, the short way if possible, as DeliveryLoop.read_more."""
    plain = not any(entry.marker or entry.chunk or entry.deliver_at for entry in entries)
    runs = dispatcher.dispatch_uniform(entries) if plain else None
    if runs is None:
        return dispatcher.dispatch(entries, now)
    return [Delivery(one, entry) for one, run, _ in runs for entry in run]


class Broker:
    """A broker with one consumer, and maybe more later."""

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
        if self.pool.keyed:
            self.dispatcher = LeasedKeyDispatcher(chain, self.cursor)
            member = KeyMember(self.name, self.dispatcher, self.cursor, answered)
            self.session = SplitSession(self.name, member, KeyCoordinator)
        else:
            self.dispatcher = LeasedDispatcher(chain, self.cursor)
            member = Member(self.dispatcher, self.cursor, answered, self.demand)
            self.session = SplitSession(self.name, member, lambda epoch: Coordinator(epoch, chain, self.cursor))
        self.consumer = self.subscribe()
        self.closed = False
        self.coordinator = None  # the broker that it is connected to
        self.do(self.session.begin())

    def subscribe(self):
        self.pool.clients += 1
        consumer = ConsumerState(permits=10, name=f"c{self.pool.clients}")
        self.dispatcher.add(consumer)
        self.session.member.add(consumer)
        return consumer

    def leave(self, consumer):
        self.dispatcher.remove(consumer)
        self.session.member.remove(consumer)

    def demand(self, undelivered):
        return 0, max(self.consumer.permits - undelivered, 0), self.consumer.unacked

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
            if read is None or self.dispatcher.indivisible or not self.pool.topic.chain.readable(read[0]):
                return
            for one in dispatched(self.dispatcher, self.pool.topic.read(*read)):
                self.pool.on_delivered(one.entry, self, one.consumer)

    def ack(self, count=1000):
        for consumer in self.dispatcher.consumers:
            for position in list(consumer.pending)[:count]:
                self.pool.acked.add(position)
                self.cursor.ack(position)
                self.dispatcher.acked(position)
                consumer.permits += 1


class Pool:
    """Brokers of a pool; the first one coordinates.

    Args:
        topic: the topic.
        names: names of the brokers.
        keys: keys of the messages, for a Key_Shared subscription; empty for a Shared one.
    """

    def __init__(self, topic, names="ab", keys=()):
        self.topic, self.keys, self.keyed = topic, keys, bool(keys)
        self.clients = 0
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

    def on_delivered(self, entry, to, consumer):
        """Check that no other consumer has the entry, or of Key_Shared its key, and that the key comes in order."""
        position = entry.position
        alike = [one for one in self.topic.entries if one.sticky_hash == entry.sticky_hash] if self.keyed else [entry]
        others = {
            at
            for broker in self.brokers.values()
            if broker.alive and broker.session.may_dispatch(self.now)
            for other in broker.dispatcher.consumers
            if other is not consumer
            for at in other.pending
        }
        assert not [one.position for one in alike if one.position in others], "two consumers have it at once"
        earlier = [one.position for one in alike if one.position < position]
        assert not [at for at in earlier if at not in self.acked and at not in consumer.pending], "out of order"
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
            if not broker.reachable:
                broker.do(session.unclaimed(now))
            elif self.holder in {None, broker.name}:
                self.holder, self.epoch = broker.name, self.epoch + 1
                broker.read_owner()
                session.claim_until = broker.claim_seen + CLAIM_S
                broker.do(session.claimed(self.epoch, now))
            else:
                broker.do(session.elsewhere(self.holder))
        elif do is Do.RELEASE:
            self.holder = None if self.holder == broker.name and broker.reachable else self.holder
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
                    if self.holder != broker.name and broker.session.coordinator is not None:
                        broker.do(broker.session.claim_lost())
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
            key = self.keys[len(self.topic.entries) * 7 % len(self.keys)] if self.keyed else None
            self.topic.write(key=key)

    def counts(self):
        """Deliveries of each entry, in order."""
        positions = [position for position, _ in self.delivered]
        return [positions.count(position) for position in self.topic.positions]

    def by(self, name):
        return sum(1 for _, broker in self.delivered if broker == name)
