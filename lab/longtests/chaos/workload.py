"""Topics, producers and consumers: fixed, so that a seed determines faults only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from longtests.chaos.plan import CLIENT
from longtests.churn.plan import Keys

PLAIN: Final = "public/chaos-plain"
DEDUPLICATED: Final = "public/chaos-dedup"
BUNDLES: Final = 4
READER: Final = "Reader"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        short: its name in histories.
        namespace: its namespace.
        transactions: whether its messages are published in transactions.
        deleted: whether it is deleted and created again now and then.
    """

    short: str
    namespace: str = PLAIN
    transactions: bool = False
    deleted: bool = False

    @property
    def full(self) -> str:
        """Its full name."""
        return f"persistent://{self.namespace}/{self.short}"

    @property
    def deduplicated(self) -> bool:
        """Return whether the owner drops duplicates of producers."""
        return self.namespace == DEDUPLICATED


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription and its consumers.

    Attributes:
        name: `TOPIC/SUBSCRIPTION`.
        type: Exclusive, Failover, Shared, Key_Shared or Reader.
        nodes: the nodes of its consumers, one entry each.
        cumulative: whether they ack cumulatively.
        stock: whether they are stock Python clients; the others use the raw protocol and record everything.
        resets: whether its cursor is reset now and then.
        latest: of Readers: whether they start at the end of the topic, and read in bursts with long pauses.
        keys: of Key_Shared: who gets which keys.
    """

    name: str
    type: str
    nodes: tuple[str, ...]
    cumulative: bool = False
    stock: bool = False
    resets: bool = False
    latest: bool = False
    keys: Keys = Keys.AUTO_SPLIT

    @property
    def topic(self) -> str:
        """Its topic's short name."""
        return self.name.partition("/")[0]

    @property
    def short(self) -> str:
        """Its own name."""
        return self.name.partition("/")[2]


TOPICS: Final = (
    Topic("plain"),
    Topic("dedup", DEDUPLICATED),
    Topic("txn", transactions=True),
    Topic("phoenix", deleted=True),
)

_A, _B = CLIENT[1:]
SUBSCRIPTIONS: Final = (
    Subscription("plain/exclusive", "Exclusive", (_A, _B), cumulative=True),
    Subscription("plain/failover", "Failover", (_A, _B, _B)),
    Subscription("plain/shared", "Shared", (_A, _A, _B)),
    Subscription("plain/key-shared", "Key_Shared", (_A, _B, _B)),
    Subscription("plain/key-shared-sticky", "Key_Shared", (_A, _B), keys=Keys.STICKY),
    Subscription("plain/key-shared-any-order", "Key_Shared", (_A, _B, _B), keys=Keys.ANY_ORDER),
    Subscription("plain/reader", READER, (_A,), stock=True),
    Subscription("plain/reader-latest", READER, (_B,), stock=True, latest=True),
    Subscription("plain/shared-resets", "Shared", (_A, _B), resets=True),
    Subscription("plain/exclusive-resets", "Exclusive", (_B,), resets=True),
    Subscription("dedup/exclusive", "Exclusive", (_A, _B)),
    Subscription("dedup/failover-stock", "Failover", (_A, _B), stock=True),
    Subscription("dedup/shared-stock", "Shared", (_A, _B), stock=True),
    Subscription("dedup/key-shared-stock", "Key_Shared", (_A, _B), stock=True),
    Subscription("dedup/reader", READER, (_B,), stock=True),
    Subscription("txn/exclusive", "Exclusive", (_A, _B)),
    Subscription("txn/shared", "Shared", (_A, _B)),
    Subscription("phoenix/failover", "Failover", (_A, _B), cumulative=True),
    Subscription("phoenix/shared", "Shared", (_A, _B)),
)
