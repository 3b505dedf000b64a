"""Consumes a topic with pulsar-asyncio-client, and reports each event as a line of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pulsar
from pulsar_asyncio import coroutine_listener

TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Failover": pulsar.ConsumerType.Failover,
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}


# The C++ client writes its log to standard output, which is for events: it gets standard error.
OUTPUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def report(**event: object) -> None:
    """Write one event."""
    OUTPUT.write(json.dumps(event) + "\n")
    OUTPUT.flush()


async def main() -> None:
    """Receive messages until there are enough, or none for some time."""
    count, idle_s = int(os.environ["COUNT"]), float(os.environ["IDLE_SECONDS"])
    number = 0
    received: asyncio.Queue[bool] = asyncio.Queue()

    async def handle(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        nonlocal number
        number += 1
        last, at = number >= count, message.message_id()
        report(
            event="message",
            payload=message.data().decode(),
            id=f"{at.ledger_id()}:{at.entry_id()}:{at.partition()}:{at.batch_index()}",
            redeliveries=message.redelivery_count(),
        )
        await asyncio.to_thread(consumer.acknowledge, message)
        received.put_nowait(last)

    client = pulsar.Client(os.environ["SERVICE_URL"])
    consumer = await asyncio.to_thread(
        client.subscribe,
        os.environ["TOPIC"],
        os.environ["SUBSCRIPTION"],
        consumer_type=TYPES[os.environ["SUBSCRIPTION_TYPE"]],
        initial_position=pulsar.InitialPosition.Earliest,
        message_listener=coroutine_listener(handle),
    )
    report(event="ready")
    try:
        while not await asyncio.wait_for(received.get(), idle_s):
            pass
    except TimeoutError:
        pass
    await asyncio.to_thread(consumer.close)
    await asyncio.to_thread(client.close)
    report(event="done")


try:
    asyncio.run(main())
except Exception as error:  # noqa: BLE001 - an event, whatever it is
    report(event="error", text=str(error))
    sys.exit(1)
