"""The state of the model of claims: ZooKeeper, brokers, clients, the owner, and what may still go wrong. Plain values only.

Sets of entries are bits. Brokers and clients are known by their places in the tuples.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.model.machines import NONE

# How a broker reaches ZooKeeper
UP: Final = 0
CUT: Final = 1
"""Nothing goes to it or comes from it, and nobody is told."""

# What a broker's connection to ZooKeeper has told it
KNOWN: Final = 0
ENDED: Final = 1
"""Its session has ended."""
NEW: Final = 2
"""It has another session, in which no probe is answered yet."""

# A request to ZooKeeper: where it is
IDLE: Final = 0
CREATE: Final = 1
LOOK: Final = 2
CLAIMED: Final = 3
TAKEN: Final = 4
RELEASE: Final = 5
RELEASED: Final = 6
ANSWERS: Final = frozenset({CLAIMED, TAKEN, RELEASED})
"""Answered; the answer is on its way."""

# A broker that reads the owner's cursor anew
NOT_ASKED: Final = -2
UNANSWERED: Final = -1

# How far a client's consumer has come at its broker
OUT: Final = 0
WAITING: Final = 1
GRANTED: Final = 2
AT_OWNER: Final = 3
BEGINNING: Final = 4
"""It is the first one, and knows what is acked at the owner."""
SERVED: Final = 5
CLOSING: Final = 6
"""It has left; the owner has not answered its CLOSE_CONSUMER, nor acks before that."""

# The consumer at the owner
AWAY: Final = 0
THERE: Final = 1
CLOSED: Final = 2
"""By the owner; its broker does not know yet."""
RETURNING: Final = 3
BACK: Final = 4
"""At the owner again; not compared yet."""


class Broker(NamedTuple):
    """A read-only broker.

    Attributes:
        claims: its Claims, as a number of `Machines`.
        serving: its Serving; NONE while nobody is subscribed here.
        paused: why the subscription delivers nothing: flags of Pause.
        link: how it reaches ZooKeeper.
        frozen: whether its process stands still.
        silent: ticks since ZooKeeper and it last heard of each other.
        session: its session, counted from 1.
        expired: whether ZooKeeper has ended it.
        noticed: what its connection has told of its session.
        request: the request to ZooKeeper that is under way.
        made: of a claim that was made: in which session.
        refresh: what the owner has answered to a broker that reads its cursor anew: NOT_ASKED, UNANSWERED, or entries.
        sent: acks on their way to the owner: number of the command, entries, client.
        replies: answers on their way back: number of the command, entries.
        known: entries that it must not deliver: their acks came through it, or were answered before it took over.
        stale: whether another has had the claim since it took over.
    """

    claims: int
    serving: int = NONE
    paused: int = 0
    link: int = UP
    frozen: int = 0
    silent: int = 0
    session: int = 1
    expired: int = 0
    noticed: int = KNOWN
    request: int = IDLE
    made: int = 0
    refresh: int = NOT_ASKED
    sent: tuple[tuple[int, int, int], ...] = ()
    replies: tuple[tuple[int, int], ...] = ()
    known: int = 0
    stale: int = 0


class Client(NamedTuple):
    """A client with one consumer.

    Attributes:
        at: its broker; NONE for none.
        stage: how far its consumer has come there.
        has: entries that it has and has not acked.
        told: what the owner has said for it: the entries that are acked.
        owner: its consumer at the owner.
        ledgers: how many ledgers its broker knew when the owner closed the consumer.
        away: how its consumer lost its owner: SENT_AWAY, LOST.
        valid: whether the broker has had the claim ever since it was granted.
    """

    at: int = NONE
    stage: int = OUT
    has: int = 0
    told: int = 0
    owner: int = AWAY
    ledgers: int = 0
    away: int = 0
    valid: int = 0


class Owner(NamedTuple):
    """The broker that owns the topic.

    Attributes:
        acked: entries that are acked, and confirmed as acked.
        stored: those of which it would still know after a crash.
        ledgers: how many times the topic was loaded.
        written: whether it has stored the cursor since.
    """

    acked: int = 0
    stored: int = 0
    ledgers: int = 1
    written: int = 0


class Faults(NamedTuple):
    """How often each may still happen.

    Attributes:
        cuts: a broker and ZooKeeper lose each other.
        freezes: a broker's process stands still.
        unloads: the topic moves to another owner.
        crashes: the owner dies.
        resets: an administrator resets the cursor to the first entry.
        leaves: a client goes away.
    """

    cuts: int = 0
    freezes: int = 0
    unloads: int = 0
    crashes: int = 0
    resets: int = 0
    leaves: int = 0

    @property
    def at_owner(self) -> bool:
        """Whether anything may happen at the owner, so that it matters how far an ack and its answer have come."""
        return bool(self.unloads or self.crashes or self.resets)


class Past(NamedTuple):
    """What has happened, to judge what happens next by.

    Attributes:
        acked: entries that a client has acked since the last reset.
        answered: those whose ack the owner has answered, and has not lost.
        settled: of those, the ones that were answered long ago.
        undone: entries that were acked long ago when the cursor was reset, and have not been acked by a client since.
    """

    acked: int = 0
    answered: int = 0
    settled: int = 0
    undone: int = 0


class World(NamedTuple):
    """Everything.

    Attributes:
        node: the broker whose claim is in ZooKeeper; NONE for nobody.
        brokers: the read-only brokers.
        clients: the clients.
        owner: the owner.
        faults: what may still go wrong.
        past: what has happened.
    """

    node: int
    brokers: tuple[Broker, ...]
    clients: tuple[Client, ...]
    owner: Owner
    faults: Faults
    past: Past


def with_broker(world: World, number: int, broker: Broker) -> World:
    """The world with one broker replaced."""
    brokers = world.brokers
    return world._replace(brokers=(*brokers[:number], broker, *brokers[number + 1 :]))


def with_client(world: World, number: int, client: Client) -> World:
    """The world with one client replaced."""
    clients = world.clients
    return world._replace(clients=(*clients[:number], client, *clients[number + 1 :]))
