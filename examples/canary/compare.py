"""Compare the messages of a topic as an owner broker and a pool of read-only brokers deliver them.

    python compare.py OWNER_URL POOL_URL TOPIC [--subscription canary] [--count 10000]

The program reads with two durable subscriptions: SUBSCRIPTION through the pool, and SUBSCRIPTION-owner at the owner. It acks the
messages that it has read, so the next run continues after them. New ones begin at the first stored message.
It prints the counts of each partition. The exit status is 1 if a message is lost, came twice, differs or is out of order.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pulsar

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_COUNT: Final = 1_000_000
"""Messages of a partition in one run; the program keeps a position and a digest of each."""

RECEIVE_MS: Final = 15_000
"""Longest wait for a message. A topic may end with entries that no consumer gets, such as markers of transactions."""


class Position(NamedTuple):
    """Place of a message in a partition: ledger, entry, and index in its batch (-1 for none)."""

    ledger: int
    entry: int
    batch_index: int


class Delivered(NamedTuple):
    """A message as a consumer received it."""

    position: Position
    digest: bytes


class Difference(NamedTuple):
    """Result of one partition, in messages; all but the first two are 0 for equal deliveries."""

    owner: int
    pool: int
    lost: int
    extra: int
    twice: int
    different: int
    out_of_order: int

    def equal(self) -> bool:
        """Return whether both have delivered the same."""
        return not any(self[2:])


def difference(owner: Sequence[Delivered], pool: Sequence[Delivered]) -> Difference:
    """Compare the deliveries of a partition.

    Args:
        owner: those of the owner broker, in their order.
        pool: those of the pool, in their order.
    """
    expected = {one.position: one.digest for one in owner}
    received: dict[Position, bytes] = {}
    for one in pool:
        received.setdefault(one.position, one.digest)
    common = expected.keys() & received.keys()
    both = [[position for position in side if position in common] for side in (expected, received)]
    return Difference(
        owner=len(owner),
        pool=len(pool),
        lost=len(expected.keys() - received.keys()),
        extra=len(received.keys() - expected.keys()),
        twice=len(pool) - len(received),
        different=sum(expected[position] != received[position] for position in common),
        out_of_order=sum(mine != other for mine, other in zip(*both, strict=True)),
    )


def position_of(message_id: pulsar.MessageId) -> Position:
    """Return the position of a message id."""
    return Position(message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())


def read(
    client: pulsar.Client, partition: str, subscription: str, count: int, last: Position | None
) -> tuple[list[Delivered], Position]:
    """Read and ack messages of a partition.

    Args:
        client: of the owner, or of the pool.
        partition: a topic without partitions, or one partition.
        subscription: name of the subscription.
        count: most messages to read.
        last: position at which to end; None for the newest message when the reading begins.

    Returns:
        The messages, and the position at which the reading ended at the latest.
    """
    delivered: list[Delivered] = []
    with closing(
        client.subscribe(partition, subscription, initial_position=pulsar.InitialPosition.Earliest)
    ) as consumer:
        end = position_of(consumer.get_last_message_id()) if last is None else last
        while len(delivered) < count and end.entry >= 0:
            try:
                message = consumer.receive(RECEIVE_MS)
            except pulsar.Timeout:
                break
            position = position_of(message.message_id())
            if position > end:
                break  # published since; it stays unacked, for the next run
            delivered.append(Delivered(position, hashlib.sha256(message.data()).digest()))
            consumer.acknowledge(message)
            if position == end:
                break
    return delivered, end


def connect(url: str, token: Path | None, certificates: Path | None) -> pulsar.Client:
    """Return a stock client; the token is a file, so that it is not in the list of processes."""
    return pulsar.Client(
        url,
        authentication=pulsar.AuthenticationToken(lambda: token.read_text().strip()) if token else None,
        tls_trust_certs_file_path=str(certificates) if certificates else None,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


def compare(owner: pulsar.Client, pool: pulsar.Client, topic: str, subscription: str, count: int) -> bool:
    """Compare all partitions of a topic, print a line for each, and return whether all are equal."""
    equal = True
    for partition in owner.get_topic_partitions(topic):
        expected, end = read(owner, partition, f"{subscription}-owner", count, None)
        received, _ = read(pool, partition, subscription, count, end)
        found = difference(expected, received)
        print(f"{partition}: " + ", ".join(f"{name}={value}" for name, value in found._asdict().items()))
        equal = equal and found.equal()
    return equal


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="compare.py", description="Compare the messages of an owner broker and of a pool."
    )
    made.add_argument("owner", metavar="OWNER_URL", help="service URL of the source cluster")
    made.add_argument("pool", metavar="POOL_URL", help="service URL of the pool")
    made.add_argument(
        "topic", metavar="TOPIC", help="topic with or without partitions, persistent://TENANT/NAMESPACE/NAME"
    )
    made.add_argument("--subscription", default="canary", help="subscription through the pool (default: %(default)s)")
    made.add_argument(
        "--count", type=int, default=10_000, metavar="N", help="messages of each partition (default: %(default)s)"
    )
    made.add_argument("--token-file", type=Path, metavar="FILE", help="token of a role that may consume the topic")
    made.add_argument("--trust-certificates", type=Path, metavar="FILE", help="PEM authorities of pulsar+ssl:// URLs")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; return its exit status."""
    options = parser().parse_args(argv)
    if not 1 <= options.count <= MAX_COUNT:
        parser().error(f"--count {options.count}: expected 1 to {MAX_COUNT}")
    for option, path in (("--token-file", options.token_file), ("--trust-certificates", options.trust_certificates)):
        if path and not path.is_file():
            parser().error(f"{option} {path}: there is no such file")
    urls = (options.owner, options.pool)
    with (
        closing(connect(urls[0], options.token_file, options.trust_certificates)) as owner,
        closing(connect(urls[1], options.token_file, options.trust_certificates)) as pool,
    ):
        equal = compare(owner, pool, options.topic, options.subscription, options.count)
    print("equal" if equal else "not equal")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
