"""Random workloads from a seed: the topics, and the messages for each in each round."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS: Final = 5
"""Number of rounds. Each has a new producer for every topic; disturbances happen during and between rounds."""

MAX_MESSAGE_BYTES: Final = (5 << 20) - 4096
"""Largest message under Pulsar's default maxMessageSize, with room for its metadata."""

COMPRESSIONS: Final = ("NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY")

_BATCHES: Final = (2, 3, 5, 8, 25)
_BATCHED_MESSAGE_BYTES: Final = 400
_WEIRD_NAMES: Final = ("a.b+c", "tilde~", "per%cent", "sp ace", "ümlaut", "star*", "equal=s")
"""Names with characters that Pulsar stores encoded."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """One topic.

    Attributes:
        name: full name.
        partitions: 0 for a topic without partitions.
        transactional: whether it also gets transactions.
        compacted: whether its compaction is triggered.
    """

    name: str
    partitions: int = 0
    transactional: bool = False
    compacted: bool = False

    @property
    def logs(self) -> tuple[str, ...]:
        """Names of its logs: the topic itself, or its partitions."""
        if not self.partitions:
            return (self.name,)
        return tuple(f"{self.name}-partition-{i}" for i in range(self.partitions))


@dataclass(frozen=True, slots=True)
class Round:
    """Messages of one producer for one topic.

    Attributes:
        topic: the topic.
        seed: determines the messages.
        entries: approximate number of entries.
        batch: messages in a batch; 1 for a producer that does not batch.
        by_key: whether each batch has the messages of one key.
        compression: name of a pulsar.CompressionType.
        chunked: whether messages are larger than the limit of an entry.
        encrypted: whether the producer encrypts.
        keyed: whether messages have keys.
        delayed: whether messages have a delivery delay.
    """

    topic: TopicPlan
    seed: int
    entries: int
    batch: int
    by_key: bool
    compression: str
    chunked: bool
    encrypted: bool
    keyed: bool
    delayed: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One message for a producer."""

    content: bytes
    properties: dict[str, str]
    key: str | None
    ordering_key: str | None
    event_timestamp: int | None
    deliver_after_ms: int | None


def plan_topics(rng: random.Random, namespace: str, count: int) -> list[TopicPlan]:
    """Plan `count` topics in random order; every tenth is of each special kind."""
    topics = []
    for number in range(count):
        name = f"persistent://{namespace}/topic-{number:03d}"
        match number % 10:
            case 3:
                topics.append(TopicPlan(f"{name}-partitioned", partitions=rng.randint(2, 4)))
            case 4 | 8:
                topics.append(TopicPlan(f"{name}-transactions", transactional=True))
            case 5:
                topics.append(TopicPlan(f"{name}-compacted", compacted=True))
            case 6:
                topics.append(TopicPlan(f"{name}-{_WEIRD_NAMES[number // 10 % len(_WEIRD_NAMES)]}"))
            case _:
                topics.append(TopicPlan(name))
    rng.shuffle(topics)
    return topics


def plan_rounds(rng: random.Random, topics: list[TopicPlan], entries: int) -> list[list[Round]]:
    """Plan ROUNDS rounds over all topics, with `entries` entries in all, or a few more.

    One in 25 producers writes chunks, and at least one with any seed.
    """
    rounds = []
    share = -(-entries // (ROUNDS * len(topics)))
    numbers = list(range(ROUNDS * len(topics)))
    chunked = set(rng.sample(numbers, max(1, len(numbers) // 25)))
    for turn in range(ROUNDS):
        order = list(enumerate(topics))
        rng.shuffle(order)
        rounds.append(
            [_plan_round(rng, topic, share, chunked=turn * len(topics) + index in chunked) for index, topic in order]
        )
    return rounds


def _plan_round(rng: random.Random, topic: TopicPlan, entries: int, *, chunked: bool) -> Round:
    batch = 1 if chunked or rng.random() < 0.5 else rng.choice(_BATCHES)
    keyed = topic.compacted or rng.random() < 0.5
    return Round(
        topic=topic,
        seed=rng.getrandbits(48),
        entries=entries,
        batch=batch,
        by_key=batch > 1 and keyed and rng.random() < 0.3,
        compression=rng.choice(COMPRESSIONS),
        chunked=chunked,
        # Compaction cannot read encrypted messages.
        encrypted=not topic.compacted and rng.random() < 0.15,
        keyed=keyed,
        delayed=rng.random() < 0.15,
    )


def message_count(plan: Round) -> int:
    """Return the number of messages for the entries of a round, without chunked ones.

    A batch of several keys becomes an entry for each key; 25 messages have about 20 of the 50 keys.
    """
    return -(-plan.entries * 5 // 4) if plan.by_key else plan.entries * plan.batch


def messages(plan: Round) -> Iterator[Message]:
    """Yield the messages of a round, the same ones in each call."""
    rng = random.Random(plan.seed)
    if plan.chunked:
        for _ in range(2):
            yield _message(rng, plan, rng.randint(MAX_MESSAGE_BYTES, 3 * MAX_MESSAGE_BYTES))
    # About two messages per topic have the maximum size, or almost.
    largest = {rng.randrange(plan.entries) for _ in range(rng.choice((0, 0, 1)))} if plan.batch == 1 else set()
    for number in range(message_count(plan)):
        size = rng.randint(MAX_MESSAGE_BYTES >> 2, MAX_MESSAGE_BYTES) if number in largest else _size(rng, plan)
        yield _message(rng, plan, size)


def _size(rng: random.Random, plan: Round) -> int:
    """Return a message size: mostly small, sometimes 0, rarely up to 256 KiB if the producer does not batch."""
    dice = rng.random()
    if dice < 0.05:
        return 0
    if plan.batch > 1 or dice < 0.7:
        return rng.randint(1, _BATCHED_MESSAGE_BYTES)
    if dice < 0.95:
        return rng.randint(1, 4096)
    return rng.randint(1, 1 << (14 if dice < 0.995 else 18))


def _message(rng: random.Random, plan: Round, size: int) -> Message:
    properties = {
        "".join(rng.choices(string.ascii_letters, k=rng.randint(1, 12))): "".join(rng.choices("äöx €z", k=5))
        for _ in range(rng.choice((0, 0, 1, 3)))
    }
    return Message(
        # Half of it compresses well, the other half not at all.
        content=(rng.randbytes((size + 1) // 2) + b"pulsar-readonly " * (size // 32 + 1))[:size],
        properties=properties,
        key=f"key-{rng.randrange(50)}" if plan.keyed else None,
        ordering_key=f"order-{rng.randrange(9)}" if rng.random() < 0.1 else None,
        event_timestamp=rng.randrange(1, 1 << 41) if rng.random() < 0.2 else None,
        deliver_after_ms=rng.randrange(1, 60_000) if plan.delayed and rng.random() < 0.5 else None,
    )
