"""Measured costs that a plan rests on, each with its source. No other file of this package has a measured number.

Sources are tables of docs/explanation/performance*.md, by their headings, with the date of the run. All were measured on 2 cores
that other processes used too, with Python 3.11 and Pulsar 4.0.8. The expected value is the table's median; low and high are its
brackets, or those of other runs that the page names. A cost that no table has alone is a difference of two of its figures.
Units: microseconds of CPU (`_US`), bytes (`_BYTES`), 1,024 bytes (KB).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from readonly_engine.sizing.estimate import Estimate

MACHINE: Final = "2 cores that other processes used too; Python 3.11.7, Pulsar 4.0.8"
MEASURED_ON: Final = "November 22 to 25, 2026"
SOURCE: Final = "docs/explanation/performance.md"

# The read-only broker, for each process.

WAKE_US: Final = (
    (1, Estimate(123, 184, 249)),
    (10, Estimate(123, 213, 249)),
    (100, Estimate(243, 271, 383)),
    (1_000, Estimate(281, 343, 385)),
    (5_000, Estimate(387, 461, 503)),
)
"""Receipt, decoding and dispatch of one tail batch, by the number of topics with messages.
Source: Few readers, 2026-11-24, column "read-only broker", less WRITE_US (7); one topic: 47.72 us x 1,000/s in 250 batches.
The lows of 1 and 10 topics (130) and the high of 100 (390) are those of the other runs below the table."""

WRITE_US: Final = Estimate(6.0, 6.6, 7.8)
"""One write of a tail batch to one socket.
Source: Fan-out, 2026-11-24, 1,000 x 10/s: 7.11 (6.93 to 7.80) with 1 KB, less the wake (0.2) and the message (0.3).
Low: 100 B."""

MESSAGE_US: Final = Estimate(0.01, 0.01, 0.45)
"""One entry for one consumer, besides the write. Consumers at the tail share one set of frames.
Source: Saturation, 2026-11-22, 20 x 10,000/s, 100 B: 0.46 us (218 MB per CPU second), less wakes, writes and reads.
High: Fan-out, 2026-11-24, 50 x 1,000/s, 1 KB: 2.34 us, less the wakes and the writes."""

SENT_KB_US: Final = (
    (16, Estimate(0.06, 0.13, 0.22)),
    (64, Estimate(0.06, 0.065, 0.22)),
)
"""1,024 bytes to one consumer, mostly the kernel's sending, by the KB of a write.
Source: Fan-out, 2026-11-24, 16 KB to 1 KB: 200 x 100/s and 1,000 x 10/s, one entry for each write; 50 x 1,000/s, some four
entries. High: Catch-up, 2026-11-22, 1 KB batched, from the cache: 4,483 MB per CPU second."""

READ_ENTRY_US: Final = Estimate(0.8, 0.9, 1.3)
"""One entry from a bookie to one consumer, without its bytes.
Source: Catch-up, 2026-11-22, "from bookies", 100 B: 106 (99 to 116) MB per CPU second, which is 0.86 to 1.01 us; high: 1 KB."""

READ_KB_US: Final = Estimate(0.60, 0.65, 1.10)
"""1,024 bytes from a bookie to one consumer.
Source: Catch-up, 2026-11-22, "from bookies", 1 KB batched: 1,562 (1,393 to 1,637) MB per CPU second; high: 1 KB, 425."""

SHARED_MESSAGE_US: Final = Estimate(5.5, 8.0, 16.0)
"""Choice of the consumer and relay of the ack, for one message of a Shared or Key_Shared subscription.
Source: Shared, with acks, 2026-11-22, column "read-only broker": 25.5, 13.5 (10.5 to 16.1) and 10.7 us, less wakes and writes."""

ACK_US: Final = Estimate(1.0, 5.9, 8.0)
"""Relay of one ack of an Exclusive or Failover consumer, or a Reader.
Source: Local cursors, Limits, 2026-11-25: 75,000 messages and acks per core and second are 12.5 us, less WRITE_US. Acks that are
relayed to an owner were not measured alone."""

CONNECTION_US: Final = Estimate(1.6, 2.0, 3.1)
"""One connection without messages, for a second.
Source: Quiet clients: 1.63 % and 1.67 % of a core for 10,000. High: Idle topics, 2026-11-24: 2.01 % for 5,000."""

OPEN_TOPIC_US: Final = Estimate(0.4, 0.73, 1.5)
"""One open topic without messages, for a second.
Source: Idle topics, 2026-11-24: 0.48 % of a core for 5,000, less leases and connections.
Measured once; the bounds are assumed."""

PROCESS_US: Final = Estimate(1_000, 1_000, 1_500)
"""One process without clients, for a second. Source: Price of leases, 2026-11-23: about 1 ms."""

PROCESS_BYTES: Final = Estimate(62e6, 62e6, 72e6)
"""One process without clients. Source: Quiet clients, and Idle topics: 62 MB. High: Many subscriptions, 2026-11-22."""

CONSUMER_BYTES: Final = (
    (10_000, Estimate(4.4e3, 7.2e3, 10.9e3)),
    (40_000, Estimate(4.4e3, 4.4e3, 10.9e3)),
)
"""One consumer with its subscription, by the consumers of a process.
Source: Many subscriptions, 2026-11-22: 10.9, 7.2 and 4.4 KB; Quiet clients: 7.0 to 7.2."""

CONNECTION_BYTES: Final = Estimate(7.0e3, 7.2e3, 7.2e3)
"""One connection without a consumer of its own.
Source: Quiet clients: 7.0 and 7.2 KB with a consumer, which is the upper bound."""

TOPIC_BYTES: Final = Estimate(3e3, 7e3, 16e3)
"""One open topic. Source: Idle topics, 2026-11-30: 14 KB (of 10,000) and 23 (of 1,000) with its reader, less CONSUMER_BYTES
(7.2); the slope up to 100,000 is 7.2, less 4.4."""

FRAME_BYTES: Final = 100
"""Bytes of a delivered entry besides its content. Source: Local cursors, Limits: 1.1 KB for each delivery of 1 KB."""

READS_PER_ENTRY: Final = Estimate(1.00, 1.01, 1.02)
"""Reads of an entry at the bookies, by one process, while entries flow. Source: Fan-out, 2026-11-24: 1.01 (1.01 to 1.02)."""

# The owner broker.

OWNER_WAKE_US: Final = Estimate(0, 190, 300)
"""One entry of a topic, for its first consumer. Source: Few readers, 2026-11-24, 10 to 1,000 topics: 196 to 227 us (-1 to 329),
less OWNER_DELIVERY_US."""

OWNER_MAX_WAKES: Final = 100.0
"""Entries per second and topic from which on the owner's wakes do not grow. Source: Few readers, 1 x 1,000/s: 29.85 us."""

OWNER_DELIVERY_US: Final = (
    (10.0, Estimate(21, 26, 33)),
    (100.0, Estimate(36, 38.5, 42)),
    (1_000.0, Estimate(5.0, 8.3, 10.1)),
    (5_000.0, Estimate(3.7, 3.95, 4.65)),
    (10_000.0, Estimate(2.13, 2.27, 2.6)),
)
"""One entry to one consumer, by entries per second of the topic.
Source: Fan-out, 2026-11-24 (1,000 x 10/s, 200 x 100/s, 50 x 1,000/s; low of the last: an earlier run, below the table; the
first two are medians of 1 KB, 100 B and 1 KB batched, less OWNER_WAKE_US), and Saturation, 2026-11-22 (259 and 44 MB per CPU
second)."""

OWNER_KB_US: Final = Estimate(0, 0.15, 0.25)
"""1,024 bytes to one consumer, beyond the first ones. Source: Fan-out, 2026-11-24, 16 KB to 1 KB."""

OWNER_ACK_COMMAND_US: Final = Estimate(10, 30, 60)
"""One ACK command of a consumer of a Shared or Key_Shared subscription; it has the acks of 100 ms.
Source: Shared, with acks, 2026-11-22, "remaining at the owner": 59.8, 68.5 and 30.0 ms per second for 1,000 commands and 2,000,
5,000 and 1,361 entries; the least squares of a cost for each command and one for each entry."""

OWNER_ACKED_ENTRY_US: Final = Estimate(3.6, 8.2, 13.7)
"""One acked entry of a Shared or Key_Shared subscription; a batch is acked once.
Source: Shared, with acks, 2026-11-22: as OWNER_ACK_COMMAND_US. Low and high: the lowest figure of a batched message, and the
median of 5,000/s, as if commands cost nothing."""

OWNER_ACK_US: Final = Estimate(0, 6.0, 13.7)
"""One ack of an Exclusive or Failover consumer, or a Reader.
Source: Shared, with acks, 2026-11-22: the two lower figures. Acks of other types were not measured alone."""

OWNER_READ_ENTRY_US: Final = Estimate(20, 22, 25)
"""One entry of a backlog. Source: Catch-up, 2026-11-22, column "owner": 46 (45 to 50) MB with 1 KB, 4 (4 to 5) with 100 B."""

OWNER_READ_KB_US: Final = Estimate(0.45, 0.62, 0.70)
"""1,024 bytes of a backlog. Source: Catch-up, 2026-11-22, "owner", 1 KB batched: 1,289 (1,213 to 1,539) MB, less the entry."""

# What the model does not explain.


class OwnerDeviation(NamedTuple):
    """The readers' CPU at the owner in a bench, beside EXPECTED: where it differs by more than 30 %, or the rounds do.

    Attributes:
        shape: the bench and its work.
        split: whether the subscription is Shared.
        batched: whether producers batch.
        scale: entries per second of a consumer for Shared; topics with one reader otherwise.
        measured: lowest, median and highest round, as a share of EXPECTED.
    """

    shape: str
    split: bool
    batched: bool
    scale: float
    measured: Estimate


OWNER_DEVIATIONS: Final = (
    OwnerDeviation("Shared, 100 consumers x 2,000/s", True, False, 20.0, Estimate(1.1, 2.2, 2.3)),
    OwnerDeviation("Shared, 100 consumers x 5,000/s", True, False, 50.0, Estimate(0.6, 1.1, 1.8)),
    OwnerDeviation("Shared, 100 consumers x 5,000/s, batched", True, True, 13.6, Estimate(0.6, 0.8, 0.9)),
    OwnerDeviation("one topic with one reader, 1,000/s", False, False, 1.0, Estimate(0.6, 1.1, 1.7)),
    OwnerDeviation("10 topics with one reader, 200/s", False, False, 10.0, Estimate(0.8, 1.0, 1.3)),
    OwnerDeviation("100 topics with one reader, 200/s", False, False, 100.0, Estimate(0.1, 0.9, 1.5)),
    OwnerDeviation("1,000 topics with one reader, 200/s", False, False, 1_000.0, Estimate(0.0, 1.0, 1.4)),
    OwnerDeviation("5,000 topics with one reader, 200/s", False, False, 5_000.0, Estimate(0.2, 0.4, 3.5)),
)
"""Source: Shared, with acks, 2026-11-22, and Few readers, 2026-11-24: a difference of two large figures, of which the owner's
background work is a part. At 2,000/s to Shared consumers the dispatch, not the acks, costs more than the model has: the owner
wakes for single messages there, which no other bench measures."""
