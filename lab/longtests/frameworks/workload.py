"""The messages of a run: planned as blocks, and published by the stock client at the owner."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pulsar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BLOCK: Final = 10
"""Messages of a block: one batch, or single messages."""

_KEYS: Final = 4
_SEND_TIMEOUT_MS: Final = 120_000
"""Longer than an unload of the topic."""

_CALLBACKS_S: Final = _SEND_TIMEOUT_MS / 1000 + 10.0
"""Limit of the callbacks of a block: each message has its result after the send timeout."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One message before it is published.

    Attributes:
        payload: its payload, which no other message of the run has.
        key: its key; empty for none.
        properties: its properties.
        batched: whether it goes into a batch with the rest of its block.
    """

    payload: str
    key: str
    properties: dict[str, str]
    batched: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """One message that the owner has stored.

    Attributes:
        payload: its payload.
        key: its key; empty for none.
        partition: its partition; -1 if the topic has none.
        entry: ledger and entry.
        batch_index: its index in a batch; -1 for none.
    """

    payload: str
    key: str
    partition: int
    entry: tuple[int, int]
    batch_index: int


def plan_blocks(tag: str, messages: int, *, keyed: bool, batches: bool = True) -> list[list[Planned]]:
    """Plan messages in blocks of four kinds, in turn.

    The kinds are: a batch, single messages with keys and properties, batches by key with keys and properties, single messages.

    Args:
        tag: begins each payload.
        messages: their number.
        keyed: whether every message gets a key, as Key_Shared needs.
        batches: whether there are batches; else all messages are single.
    """
    blocks = []
    for first in range(0, messages, BLOCK):
        kind = first // BLOCK % 4
        blocks.append(
            [
                Planned(
                    payload=f"{tag}-{number:05d}",
                    key=f"key-{number % _KEYS}" if keyed or kind in {1, 2} else "",
                    properties={"number": str(number), "kind": "ä"} if kind in {1, 2} else {},
                    batched=batches and kind in {0, 2},
                )
                for number in range(first, min(first + BLOCK, messages))
            ]
        )
    return blocks


def plan_fillers(tag: str, messages: int) -> list[Planned]:
    """Plan single messages that follow the others, until a program has as many as it waits for."""
    return [
        Planned(f"{tag}-end-{number:05d}", f"key-{number % _KEYS}", {}, batched=False) for number in range(messages)
    ]


class Publisher:
    """Publishes to one topic, always at the owner.

    Args:
        service_url: the owner's.
        topic: the topic.
    """

    def __init__(self, service_url: str, topic: str) -> None:
        self._client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        options = {"send_timeout_millis": _SEND_TIMEOUT_MS, "block_if_queue_full": True}
        self._single = self._client.create_producer(topic, **options)
        batch = {"batching_enabled": True, "batching_max_publish_delay_ms": 60_000, "batching_max_messages": BLOCK}
        self._batches = self._client.create_producer(topic, **options, **batch)
        by_key = {**batch, "batching_type": pulsar.BatchingType.KeyBased}
        self._batches_by_key = self._client.create_producer(topic, **options, **by_key)

    def publish(self, messages: Sequence[Planned]) -> list[Sent]:
        """Publish messages of one block; return them in the order in which they were given, when all are stored.

        The client's flush may return before the last callbacks have run, so this waits for these too.

        Raises:
            pulsar.PulsarException: a message was not stored, or has no result in time.
        """
        if not messages:
            return []
        stored: dict[str, pulsar.MessageId] = {}
        results = set()
        complete = threading.Event()

        def on_sent(payload: str, result: pulsar.Result, message_id: pulsar.MessageId) -> None:
            results.add(result)
            stored[payload] = message_id
            if len(stored) == len(messages):
                complete.set()

        producer = self._single
        if messages[0].batched:
            producer = self._batches_by_key if messages[0].key else self._batches
        for message in messages:
            producer.send_async(
                message.payload.encode(),
                lambda result, message_id, payload=message.payload: on_sent(payload, result, message_id),
                properties=message.properties or None,
                partition_key=message.key or None,
            )
        producer.flush()
        if not complete.wait(_CALLBACKS_S):
            raise pulsar.PulsarException(pulsar.Result.Timeout)
        if bad := results - {pulsar.Result.Ok}:
            raise pulsar.PulsarException(bad.pop())
        return list(_sent(messages, stored))

    def close(self) -> None:
        """Close the client."""
        self._client.close()


def _sent(messages: Sequence[Planned], stored: dict[str, pulsar.MessageId]) -> Iterator[Sent]:
    for message in messages:
        yield _at(message.payload, message.key, stored[message.payload])


def _at(payload: str, key: str, at: pulsar.MessageId) -> Sent:
    return Sent(payload, key, at.partition(), (at.ledger_id(), at.entry_id()), at.batch_index())


def stored_copies(service_url: str, topic: str, sent: Sequence[Sent]) -> list[Sent]:
    """Read a topic at the owner; return each stored message whose id is not the one of its receipt.

    Args:
        service_url: the owner's.
        topic: a topic without partitions.
        sent: the messages with the ids of their receipts.
    """
    by_payload = {each.payload: each for each in sent}
    found = []
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        while reader.has_message_available():
            message = reader.read_next(_SEND_TIMEOUT_MS)
            original = by_payload.get(message.data().decode())
            if original is None:
                continue
            copy = _at(original.payload, original.key, message.message_id())
            if (copy.entry, copy.batch_index) != (original.entry, original.batch_index):
                found.append(copy)
    finally:
        client.close()
    return found
