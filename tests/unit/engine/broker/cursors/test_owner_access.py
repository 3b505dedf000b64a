"""Connections to owners of topics with local subscriptions: one attempt at a time, and none is kept without a consumer."""

import asyncio
from types import SimpleNamespace
from typing import Any

from readonly_engine.broker.cursors.owner_access import OwnerAccess
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.identity import ANONYMOUS
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

TOPIC = parse_topic_name("orders")


class Directory:
    """Finds the owner when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.asked = 0

    async def owner_of(self, *_: object) -> object:
        self.asked += 1
        await self.may_answer.wait()
        return SimpleNamespace(closed=False)


class Consumer:
    topic, identity, subscribe_command = TOPIC, ANONYMOUS, CommandSubscribe()

    def end(self, reason: str) -> None:
        pass


async def _authorizes() -> bool:
    return True


async def test_many_consumers_look_for_the_owner_once() -> None:
    owners: Any = Directory()
    access = OwnerAccess(owners, _authorizes, "access-")
    consumers = [Consumer() for _ in range(1_000)]
    for consumer in consumers:
        access.add(consumer)
        assert access.connection(TOPIC, ANONYMOUS) is None
    await asyncio.sleep(0)
    assert owners.asked == 1
    owners.may_answer.set()
    while access.connection(TOPIC, ANONYMOUS) is None:
        await asyncio.sleep(0)
    assert owners.asked == 1
    for consumer in consumers:
        access.remove(consumer)
        access.remove(consumer)
    assert access.connection(TOPIC, ANONYMOUS) is None
    await asyncio.sleep(0)
    assert owners.asked == 1, "nobody needs it any more"
    access.close()


async def test_an_owner_that_is_found_too_late_is_not_kept() -> None:
    owners: Any = Directory()
    access = OwnerAccess(owners, _authorizes, "access-")
    consumer = Consumer()
    access.add(consumer)
    await asyncio.sleep(0)
    access.remove(consumer)
    owners.may_answer.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert access.connection(TOPIC, ANONYMOUS) is None
    access.close()
