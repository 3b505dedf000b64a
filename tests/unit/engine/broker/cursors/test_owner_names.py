import asyncio

import pytest
from readonly_engine.broker.cursors.owner_names import OwnerSubscriptionNames
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerRefusedError

from tests.support.played_admin import PlayedAdmin
from tests.support.waiting import until

TOPIC = parse_topic_name("orders")


async def test_a_name_of_the_owner_is_refused_with_the_remedy():
    admin = PlayedAdmin(subscriptions=frozenset({"a+b"}))
    owner_names = OwnerSubscriptionNames(admin)
    with pytest.raises(OwnerRefusedError, match=f"pulsar-readonly subscriptions import {TOPIC} a b"):
        await owner_names.check(TOPIC, "a b")
    await owner_names.check(TOPIC, "other")
    assert admin.count("subscriptions") == 1
    owner_names.forget(TOPIC)
    admin.answers["subscriptions"] = frozenset()
    await owner_names.check(TOPIC, "a b")
    assert admin.count("subscriptions") == 2


async def test_an_answer_that_may_be_older_than_a_change_is_not_kept():
    proceed = asyncio.Event()

    async def answer_late(_):
        await proceed.wait()
        return frozenset()

    admin = PlayedAdmin(subscriptions=answer_late)
    owner_names = OwnerSubscriptionNames(admin)
    asking = asyncio.create_task(owner_names.check(TOPIC, "s"))
    await until(lambda: admin.asked)
    owner_names.forget(TOPIC)
    admin.answers["subscriptions"] = frozenset({"s"})
    proceed.set()
    await asking
    with pytest.raises(OwnerRefusedError):
        await owner_names.check(TOPIC, "s")
