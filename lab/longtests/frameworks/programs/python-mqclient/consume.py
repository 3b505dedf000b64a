"""Consumes a topic with the Pulsar part of oms-mqclient, and reports each event as a line of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pulsar
from mqclient.broker_clients.apachepulsar import PulsarSub

RETRIES, RETRY_DELAY_S = 2, 1.0


# The C++ client writes its log to standard output, which is for events: it gets standard error.
OUTPUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def report(**event: object) -> None:
    """Write one event."""
    OUTPUT.write(json.dumps(event) + "\n")
    OUTPUT.flush()


async def main() -> None:
    """Receive messages until there are enough, or none for some time."""
    count, idle_s = int(os.environ["COUNT"]), int(os.environ["IDLE_SECONDS"])
    number = 0
    sub = PulsarSub(os.environ["SERVICE_URL"], os.environ["TOPIC"], os.environ["SUBSCRIPTION"], "", prefetch=1)
    await sub.connect()
    report(event="ready")
    async for message in sub.message_generator(idle_s, True, RETRIES, RETRY_DELAY_S):
        number += 1
        at = pulsar.MessageId.deserialize(message.msg_id)
        report(
            event="message",
            payload=message.payload.decode(),
            id=f"{at.ledger_id()}:{at.entry_id()}:{at.partition()}:{at.batch_index()}",
            redeliveries=None,
        )
        await sub.ack_message(message, RETRIES, RETRY_DELAY_S)
        if number >= count:
            break
    await sub.close()  # asks for redelivery of what is not acked, and closes the client
    report(event="done")


try:
    asyncio.run(main())
except Exception as error:  # noqa: BLE001 - an event, whatever it is
    report(event="error", text=str(error))
    sys.exit(1)
