from __future__ import annotations

import asyncio

import pytest
from readonly_engine.broker.cursors.owner_names import OwnerSubscriptionNames
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError

from tests.support.waiting import until

TOPIC = parse_topic_name("orders")


class Admin:
    def __init__(self):
        self.names = frozenset({"a+b"})
        self.asked = 0
        self.answer = asyncio.Event()
        self.answer.set()

    async def subscriptions(self, topic):
        self.asked += 1
        names = self.names
        await self.answer.wait()
        return names


def test_a_name_of_the_owner_is_refused_with_the_remedy():
    async def run():
        admin = Admin()
        owner_names = OwnerSubscriptionNames(admin)
        with pytest.raises(OwnerRefusedError, match=f"pulsar-readonly subscriptions import {TOPIC} a b"):
            await owner_names.check(TOPIC, "a b")
        await owner_names.check(TOPIC, "other")
        assert admin.asked == 1
        owner_names.forget(TOPIC)
        admin.names = frozenset()
        await owner_names.check(TOPIC, "a b")
        assert admin.asked == 2

    asyncio.run(run())


def test_an_answer_that_may_be_older_than_a_change_is_not_kept():
    async def run():
        admin = Admin()
        admin.names = frozenset()
        admin.answer.clear()
        owner_names = OwnerSubscriptionNames(admin)
        asking = asyncio.create_task(owner_names.check(TOPIC, "s"))
        await until(lambda: admin.asked == 1)
        owner_names.forget(TOPIC)
        admin.names = frozenset({"s"})
        admin.answer.set()
        await asking
        with pytest.raises(OwnerRefusedError):
            await owner_names.check(TOPIC, "s")

    asyncio.run(run())
