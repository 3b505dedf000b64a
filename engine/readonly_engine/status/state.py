"""State of one broker, of which the status page and `pulsar-readonly top` show the same figures.

Rates are per second. A rate is None until the figure was read twice; a lag is None where it is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HERE = ""
"""`served_by` of a subscription that this broker serves."""

OWNER = "owner"
"""`served_by` of a subscription that the owner broker serves; and the tail of a topic whose owner pushes new entries."""

BOOKIES = "bookies"
"""Tail of a topic whose new entries are read from bookies."""

RELAYED = "relayed"
"""Tail of a topic that this broker does not read: all its subscriptions are served elsewhere."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """This broker.

    Attributes:
        url: URL for clients, its name in the pool.
        version: version of the engine.
        commit: commit of the engine; empty if unknown.
        uptime_s: seconds since its start.
        pool: name of the pool.
        pool_uid: uid of the pool; empty without one.
        locality: `/RACK` or `/ZONE/RACK`; empty if unknown.
        worker: number of the worker process, from 0; -1 for the only process.
        workers: number of worker processes.
        draining: whether it is leaving the pool.
        connections: connections of clients.
        consumers: consumers of clients.
        topics: topics with consumers here.
        subscriptions: subscriptions that this broker serves.
        claims: Shared and Key_Shared subscriptions that it has claimed.
        replay_ms: publish time that the clock of a replay has reached, ms since the epoch; None without a replay.
        replay_end_ms: last publish time of the replay; None for no end.
        replay_speed: publish time that passes in a unit of time; 0 for all messages at once.
        replay_paused: whether the clock stands still.
        replay_behind_s: how far the slowest topic is behind the clock, in seconds of publish time.
    """

    url: str = ""
    version: str = ""
    commit: str = ""
    uptime_s: float = 0.0
    pool: str = ""
    pool_uid: str = ""
    locality: str = ""
    worker: int = -1
    workers: int = 1
    draining: bool = False
    connections: int = 0
    consumers: int = 0
    topics: int = 0
    subscriptions: int = 0
    claims: int = 0
    replay_ms: float | None = None
    replay_end_ms: int | None = None
    replay_speed: float = 1.0
    replay_paused: bool = False
    replay_behind_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MemberState:
    """A broker of the pool.

    Attributes:
        url: URL for clients.
        status_url: URL of its status page; empty if it publishes none.
        consumers: its number of consumers, as it has published it.
        locality: as of BrokerState.
        itself: whether it is the broker that was asked.
    """

    url: str = ""
    status_url: str = ""
    consumers: int = 0
    locality: str = ""
    itself: bool = False


@dataclass(frozen=True, slots=True)
class SourceState:
    """The source cluster.

    Attributes:
        service_url: service URL of the owner brokers, without a user.
        metadata_store_url: URL of the metadata store, without a user.
        connected: whether the metadata stores answer.
        denied: requests that they have refused since the start.
        suspended: whether delivery to claimed subscriptions is suspended.
        bindings_error: error of the bindings file; empty if it is valid.
        lac_topics: topics of whose open ledger this broker knows the bookies.
        lac_explicit: those of them whose bookies have returned an explicit LAC.
    """

    service_url: str = ""
    metadata_store_url: str = ""
    connected: bool = False
    denied: int = 0
    suspended: bool = False
    bindings_error: str = ""
    lac_topics: int = 0
    lac_explicit: int = 0


@dataclass(frozen=True, slots=True)
class Relief:
    """Deliveries of this broker since its start, and what the owners sent for them.

    Attributes:
        delivered_messages: messages that this broker delivered to consumers.
        delivered_bytes: their bytes.
        pushed_messages: messages that owners pushed to this broker, once for all its consumers.
        pushed_bytes: their bytes.
    """

    delivered_messages: int = 0
    delivered_bytes: int = 0
    pushed_messages: int = 0
    pushed_bytes: int = 0

    @property
    def spared_messages(self) -> int:
        """Messages that were delivered here, and that no owner sent."""
        return max(self.delivered_messages - self.pushed_messages, 0)

    @property
    def spared_bytes(self) -> int:
        """Bytes that were delivered here, and that no owner sent."""
        return max(self.delivered_bytes - self.pushed_bytes, 0)


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """A reason of passthrough, and the number of subscriptions that have it."""

    reason: str = ""
    subscriptions: int = 0


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic or partition with consumers on this broker.

    Attributes:
        name: full name.
        subscriptions: its subscriptions here, those served elsewhere included.
        consumers: consumers of all these subscriptions.
        message_rate: messages to all consumers.
        byte_rate: bytes to all consumers.
        lag: readable unacked entries of the slowest subscription.
        slowest: name of that subscription.
        tail: OWNER, BOOKIES or RELAYED.
        passed_through: number of subscriptions that the owner serves.
    """

    name: str = ""
    subscriptions: int = 0
    consumers: int = 0
    message_rate: float | None = None
    byte_rate: float | None = None
    lag: int | None = None
    slowest: str = ""
    tail: str = RELAYED
    passed_through: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """A subscription of a topic.

    Attributes:
        name: its name.
        kind: Pulsar's type, such as Shared.
        consumers: its consumers on this broker.
        message_rate: messages to these consumers.
        byte_rate: bytes to these consumers.
        lag: readable unacked entries; None where it is served elsewhere.
        unacked: messages that were delivered and are not acked.
        mark_delete: mark-delete position; empty where it is served elsewhere.
        served_by: HERE, OWNER, or the URL of another broker of the pool.
        reason: reason of passthrough; empty for none.
        finding: what the broker found, for OWNER.
        split: state of this broker's part, if several brokers serve it; empty if one does.
        coordinator: URL of the broker that leases a split subscription, if it is another one and known.
        members: number of other brokers that this one leases it to.
    """

    name: str = ""
    kind: str = ""
    consumers: int = 0
    message_rate: float | None = None
    byte_rate: float | None = None
    lag: int | None = None
    unacked: int = 0
    mark_delete: str = ""
    served_by: str = HERE
    reason: str = ""
    finding: str = ""
    split: str = ""
    coordinator: str = ""
    members: int = 0


@dataclass(frozen=True, slots=True)
class ClientState:
    """A consumer of a subscription.

    Attributes:
        name: its name.
        address: `HOST:PORT` of the client.
        version: version of the client, as the client names it.
        permits: permits that are not used.
        unacked: messages that were delivered and are not acked.
        messages: messages to it since it subscribed.
        bytes: bytes to it since it subscribed.
    """

    name: str = ""
    address: str = ""
    version: str = ""
    permits: int = 0
    unacked: int = 0
    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Pages:
    """The page of a list.

    Attributes:
        number: number of this page, from 1.
        count: number of pages, at least 1.
        items: items of all pages.
        size: most items of a page.
    """

    number: int = 1
    count: int = 1
    items: int = 0
    size: int = 100


@dataclass(frozen=True, slots=True)
class Status:
    """State of one broker, with one page of one list: its topics, a topic's subscriptions, or a subscription's consumers.

    Attributes:
        broker: the broker.
        members: brokers of its pool, at most MAX_MEMBERS of `http/status/gather.py`.
        member_count: number of all brokers of its pool.
        source: the source cluster.
        relief: deliveries without the owner.
        reasons: reasons of passthrough.
        pages: the page of the list.
        topics: the page of topics; or the one topic of the other lists.
        subscriptions: the page of a topic's subscriptions; or the one subscription of its consumers.
        clients: the page of a subscription's consumers.
        shortened: whether some figures are not counted, because that would take too long.
    """

    broker: BrokerState = field(default_factory=BrokerState)
    members: tuple[MemberState, ...] = ()
    member_count: int = 0
    source: SourceState = field(default_factory=SourceState)
    relief: Relief = field(default_factory=Relief)
    reasons: tuple[ReasonCount, ...] = ()
    pages: Pages = field(default_factory=Pages)
    topics: tuple[TopicState, ...] = ()
    subscriptions: tuple[SubscriptionState, ...] = ()
    clients: tuple[ClientState, ...] = ()
    shortened: bool = False
