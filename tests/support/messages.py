"""Publish and receive messages with numbers as their values, by the stock client."""

from collections.abc import Callable, Iterable
from typing import Any

import pulsar


def publish_numbers(
    client: pulsar.Client,
    topic: str,
    numbers: Iterable[int],
    *,
    key: Callable[[int], str] | None = None,
    properties: Callable[[int], dict[str, str]] | None = None,
    **options: Any,
) -> list[pulsar.MessageId]:
    """Publish numbers, each as one message, and wait until all are stored.

    Args:
        client: the client.
        topic: the topic.
        numbers: the values.
        key: the partition key of each number; None for no keys.
        properties: the properties of each number; None for none.
        options: options of the producer.

    Returns:
        The message ids, in the order of the numbers.
    """
    producer = client.create_producer(topic, block_if_queue_full=True, **options)
    ids: dict[int, pulsar.MessageId] = {}
    sent = list(numbers)
    for number in sent:
        producer.send_async(
            b"%d" % number,
            lambda _, message_id, number=number: ids.update({number: message_id}),
            properties=None if properties is None else properties(number),
            partition_key=None if key is None else key(number),
        )
    producer.flush()
    producer.close()
    return [ids[number] for number in sent]


def numbers_of(messages: Iterable[pulsar.Message]) -> list[int]:
    """Return the numbers that are the values of messages."""
    return [int(message.data()) for message in messages]
