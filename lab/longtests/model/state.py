"""State of the model of claims: ZooKeeper, brokers, clients, the owner, and the faults that are left. Plain values only.

Sets of entries are bits. Brokers and clients are identified by their indexes in the tuples.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from longtests.model.machines import NONE

# Link between a broker and ZooKeeper
UP: Final = 0
CUT: Final = 1
"""Nothing passes in either direction, and neither side is notified."""

# What a broker knows of its session with ZooKeeper
KNOWN: Final = 0
ENDED: Final = 1
"""Its session has ended."""
NEW: Final = 2
"""It has a new session, without an answered probe so far."""

# Stages of a request to ZooKeeper
IDLE: Final = 0
CREATE: Final = 1
LOOK: Final = 2
CLAIMED: Final = 3
TAKEN: Final = 4
RELEASE: Final = 5
RELEASED: Final = 6
ANSWERS: Final = frozenset({CLAIMED, TAKEN, RELEASED})
"""Answered; the answer is on its way."""

# Stages of a repeated read of the owner's cursor
NOT_ASKED: Final = -2
UNANSWERED: Final = -1

# Stages of a client's consumer at its broker
OUT: Final = 0
WAITING: Final = 1
GRANTED: Final = 2
AT_OWNER: Final = 3
BEGINNING: Final = 4
"""It is the first one, and has the acked entries of the owner."""
SERVED: Final = 5
CLOSING: Final = 6
"""It has left; the owner has not answered its CLOSE_CONSUMER, nor the acks before it."""

# Stages of the consumer at the owner
AWAY: Final = 0
THERE: Final = 1
CLOSED: Final = 2
"""Closed by the owner; its broker does not know yet."""
RETURNING: Final = 3
BACK: Final = 4
"""Subscribed at the owner again; cursors not compared yet."""


class Broker(NamedTuple):
    """A read-only broker.

    Attributes:
        claims: its Claims, as a number of `Machines`.
        serving: its Serving; NONE without a subscription here.
        paused: why the subscription delivers nothing: flags of Pause.
        link: its link to ZooKeeper.
        frozen: whether its process is suspended.
        silent: ticks since the last exchange with ZooKeeper.
        session: its session, counted from 1.
        expired: whether ZooKeeper has ended it.
        noticed: what it knows of its session.
        request: the request to ZooKeeper that is under way.
        made: session in which its claim was created.
        refresh: the owner's answer to a repeated read of its cursor: NOT_ASKED, UNANSWERED, or entries.
        sent: acks on their way to the owner: number of the command, entries, client.
        replies: answers on their way back: number of the command, entries.
        known: entries that it must not deliver: their acks came through it, or were answered before it took over.
        stale: whether another broker has had the claim since it took over.
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
        stage: stage of its consumer there.
        has: entries that it has and has not acked.
        told: the acked entries, by the owner's answer for it.
        owner: stage of its consumer at the owner.
        ledgers: number of ledgers that its broker knew when the owner closed the consumer.
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
        stored: those that would survive a crash.
        ledgers: number of times the topic was loaded.
        written: whether it has stored the cursor since.
    """

    acked: int = 0
    stored: int = 0
    ledgers: int = 1
    written: int = 0


class Faults(NamedTuple):
    """Numbers of faults that are left.

    Attributes:
        cuts: silent losses of the link between a broker and ZooKeeper.
        freezes: suspensions of a broker's process.
        unloads: moves of the topic to another owner.
        crashes: deaths of the owner.
        resets: resets of the cursor to the first entry, by an administrator.
        leaves: disconnects of a client.
    """

    cuts: int = 0
    freezes: int = 0
    unloads: int = 0
    crashes: int = 0
    resets: int = 0
    leaves: int = 0

    @property
    def at_owner(self) -> bool:
        """Return whether faults of the owner are left: only then the stage of an ack and its answer matters."""
        return bool(self.unloads or self.crashes or self.resets)


class Past(NamedTuple):
    """Past events, by which later steps are judged.

    Attributes:
        acked: entries that a client has acked since the last reset.
        answered: those whose ack the owner has answered and not lost.
        settled: those of them that were answered long ago.
        undone: entries that were acked long ago when the cursor was reset, and have not been acked by a client since.
    """

    acked: int = 0
    answered: int = 0
    settled: int = 0
    undone: int = 0


class World(NamedTuple):
    """State of the model of claims.

    Attributes:
        node: the broker whose claim is in ZooKeeper; NONE for none.
        brokers: the read-only brokers.
        clients: the clients.
        owner: the owner.
        faults: faults that are left.
        past: past events.
    """

    node: int
    brokers: tuple[Broker, ...]
    clients: tuple[Client, ...]
    owner: Owner
    faults: Faults
    past: Past


def with_broker(world: World, number: int, broker: Broker) -> World:
    """Return the world with one broker replaced."""
    brokers = world.brokers
    return world._replace(brokers=(*brokers[:number], broker, *brokers[number + 1 :]))


def with_client(world: World, number: int, client: Client) -> World:
    """Return the world with one client replaced."""
    clients = world.clients
    return world._replace(clients=(*clients[:number], client, *clients[number + 1 :]))
