"""Load of the topics that a pool would serve. Pure data; rates are per second."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class SubscriptionType(StrEnum):
    """Type of a subscription; a Reader has a non-durable Exclusive one of its own."""

    EXCLUSIVE = "Exclusive"
    FAILOVER = "Failover"
    SHARED = "Shared"
    KEY_SHARED = "Key_Shared"
    READER = "Reader"


SPLIT_TYPES: Final = frozenset({SubscriptionType.SHARED, SubscriptionType.KEY_SHARED})
"""Types that distribute messages among consumers. One broker of a pool claims such a subscription."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Equal subscriptions of each topic of a TopicLoad.

    Attributes:
        type: their type.
        count: their number.
        consumers: consumers of each of them.
        passthrough: the reason why they pass through to the owner; empty if the pool serves them.
    """

    type: SubscriptionType
    count: float
    consumers: float = 1
    passthrough: str = ""


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """Equal topics. A partition counts as a topic.

    Attributes:
        topics: their number; a fraction where a sample stands for more topics.
        messages: messages published to each of them.
        bytes: bytes published to each of them.
        batch: messages of one entry, 1 or more.
        subscriptions: the subscriptions of each of them.
        catch_up_bytes: bytes of backlog that consumers of each of them read, in addition to the tail.
        catch_up_readers: number of these consumers.
        entry_bytes: bytes of an entry of the backlog.
        name: the topic; empty for topics that have no name here.
    """

    topics: float
    messages: float
    bytes: float
    batch: float = 1.0
    subscriptions: tuple[Subscriptions, ...] = ()
    catch_up_bytes: float = 0.0
    catch_up_readers: float = 0.0
    entry_bytes: float = 1024.0
    name: str = ""

    @property
    def entries(self) -> float:
        """Entries published to each topic."""
        return self.messages / self.batch

    @property
    def served(self) -> tuple[Subscriptions, ...]:
        """Subscriptions that the pool serves."""
        return tuple(one for one in self.subscriptions if not one.passthrough)

    @property
    def passing(self) -> tuple[Subscriptions, ...]:
        """Subscriptions that pass through to the owner."""
        return tuple(one for one in self.subscriptions if one.passthrough)

    @property
    def single(self) -> float:
        """Served subscriptions of each topic whose messages all go to one consumer."""
        return sum(one.count for one in self.served if one.type not in SPLIT_TYPES)

    @property
    def split(self) -> float:
        """Served Shared and Key_Shared subscriptions of each topic."""
        return sum(one.count for one in self.served if one.type in SPLIT_TYPES)

    @property
    def readers(self) -> float:
        """Served subscriptions of each topic: copies of an entry that the pool sends."""
        return self.single + self.split

    @property
    def consumers(self) -> float:
        """Consumers of each topic, of served subscriptions."""
        return sum(one.count * one.consumers for one in self.served)


@dataclass(frozen=True, slots=True)
class Workload:
    """Load of a pool.

    Attributes:
        loads: the topics, by their load.
        connections: client connections; None for one for each consumer.
        notes: sentences about the load that a plan repeats.
    """

    loads: tuple[TopicLoad, ...]
    connections: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def topics(self) -> float:
        """Topics with a served subscription, which a pool opens."""
        return sum(load.topics for load in self.loads if load.readers)

    @property
    def active_topics(self) -> float:
        """Topics with a served subscription and messages."""
        return sum(load.topics for load in self.loads if load.readers and load.messages)

    @property
    def consumers(self) -> float:
        """Consumers of served subscriptions; one of a partitioned topic counts for each partition."""
        return sum(load.topics * load.consumers for load in self.loads)

    @property
    def client_connections(self) -> float:
        """Client connections of the pool."""
        return self.consumers if self.connections is None else self.connections


@dataclass(frozen=True, slots=True)
class Policy:
    """How large a broker may be, and how full.

    Attributes:
        workers: processes of each broker.
        min_brokers: brokers of the smallest plan.
        utilization: planned share of a core, and of the network.
        broker_network: bytes per second that a broker's network carries in each direction.
    """

    workers: int = 1
    min_brokers: int = 2
    utilization: float = 0.6
    broker_network: float = 1.25e9
