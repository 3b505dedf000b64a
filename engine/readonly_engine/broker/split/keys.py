"""What the brokers of a split Key_Shared subscription say to each other: the values, and their limits. Pure.

The coordinator leases slots of keys instead of runs of entries. Each member reads every entry, and dispatches those of its
slots. Sets of slots are integers with a bit for each slot, of 8 KiB at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, KeySharedMode

if TYPE_CHECKING:
    from readonly_engine.broker.split.leases import Run
    from readonly_engine.topic.position import Position

MAX_CONSUMERS: Final = 1_000
"""Consumers of a subscription on all brokers. With more of them one broker serves the subscription."""

MAX_LOCAL_CONSUMERS: Final = 100
"""Consumers of one member, so that a report stays a small frame. With more of them one broker serves the subscription."""

MAX_NAME_BYTES: Final = 100
"""Length of a consumer's name, for the same reason."""

MAX_LOCAL_HASH_RANGES: Final = 500
"""Ranges of hashes of all consumers of one member (STICKY), for the same reason."""

MAX_HASH_RANGES: Final = 2_000
"""Ranges of hashes of all consumers. With more of them one broker serves the subscription."""


MAX_PENDING: Final = 250
"""Entries of released slots that the consumers of one member may have (out of order). Slots with more are released when acked."""

MAX_ALL_PENDING: Final = 500
"""The same for all members. With more of them one broker serves the subscription."""


class KeyPolicy(NamedTuple):
    """What all consumers of a Key_Shared subscription must agree on: the owner refuses others.

    Attributes:
        sticky: whether they name their ranges of hashes (KeySharedMode.STICKY).
        any_order: whether the order of a key may be ignored (allow_out_of_order_delivery).
    """

    sticky: bool = False
    any_order: bool = False

    @classmethod
    def of(cls, subscribe: CommandSubscribe) -> KeyPolicy:
        """Return the policy in a SUBSCRIBE; the same one for all other types."""
        if subscribe.sub_type != CommandSubscribe.Key_Shared:
            return cls()
        meta = subscribe.key_shared_meta
        return cls(meta.key_shared_mode == KeySharedMode.STICKY, meta.allow_out_of_order_delivery)


class LocalConsumer(NamedTuple):
    """A consumer as its member reports it.

    Attributes:
        number: distinguishes the consumers that the member ever has.
        name: its name.
        ranges: its ranges of hashes, first and last; empty unless consumers name them (STICKY).
    """

    number: int
    name: str
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KeyConsumer:
    """A consumer of any member (RingConsumer).

    Attributes:
        member: its member.
        number: as in LocalConsumer.
        name: its name.
        index: distinguishes the present consumers with the same name.
        ranges: as in LocalConsumer.
    """

    member: str
    number: int
    name: str
    index: int
    ranges: tuple[tuple[int, int], ...] = ()


class KeyReport(NamedTuple):
    """A member's report.

    Attributes:
        epoch: the coordinator's epoch that the member knows; 0 for none.
        number: number of the report, which the answer repeats.
        consumers: its consumers, if they have changed; None otherwise.
        released: slots that it was told to leave, and of which its consumers have nothing: the owner has answered their acks.
        held: all slots that it may use or has not released, after a new connection; None otherwise. All others are released.
        indivisible: whether only a broker that serves alone can handle its consumers, or their acks.
        counts: entries with redelivery counts that another broker will dispatch.
        pending: all entries that its consumers have of slots that it has released (out of order), if they have changed.
    """

    epoch: int
    number: int
    consumers: tuple[LocalConsumer, ...] | None = None
    released: int = 0
    held: int | None = None
    indivisible: bool = False
    counts: tuple[Run, ...] = ()
    pending: tuple[Position, ...] | None = None

    @property
    def acked(self) -> tuple[Run, ...]:
        """Nothing: each member has the acks of its own slots, and reads those of others from the owner."""
        return ()


class KeyGrant(NamedTuple):
    """A coordinator's answer to a report, or a change of the slots.

    Attributes:
        epoch: epoch of the coordinator.
        number: number of the report; 0 for a grant without a report.
        valid_s: seconds for which the slots are valid, from the time of the report on. 0 if the coordinator stops: the member
            must begin again.
        consumers: all consumers in the order of the ring, if they or the slots have changed; None otherwise.
        slots: the slots that the member may use from now on. It must leave all others.
        counts: entries with redelivery counts that other brokers have dispatched.
        pending: all entries that consumers of other members have of slots that those have released, if they have changed.
    """

    epoch: int
    number: int
    valid_s: float
    consumers: tuple[KeyConsumer, ...] | None = None
    slots: int = 0
    counts: tuple[Run, ...] = ()
    pending: tuple[Position, ...] | None = None

    @property
    def redelivery_counts(self) -> tuple[Run, ...]:
        """Entries with redelivery counts, of a coordinator that stops."""
        return self.counts

    @property
    def brings(self) -> bool:
        """Whether the member may have more to dispatch."""
        return self.consumers is not None


def why_indivisible(subscribe: CommandSubscribe) -> str:
    """Return why one broker must serve a subscription with a consumer of this SUBSCRIBE; empty if several can."""
    if subscribe.sub_type != CommandSubscribe.Key_Shared:
        return ""
    if KeyPolicy.of(subscribe).sticky and len(subscribe.key_shared_meta.hash_ranges) > MAX_LOCAL_HASH_RANGES:
        return f"a consumer names more than {MAX_LOCAL_HASH_RANGES} ranges of hashes"
    if len(subscribe.consumer_name.encode()) > MAX_NAME_BYTES:
        return f"the name of a consumer has more than {MAX_NAME_BYTES} bytes"
    return ""
