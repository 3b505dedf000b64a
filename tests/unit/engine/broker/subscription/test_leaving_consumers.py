"""Who has left a subscription, and whose last acks the owner may not have taken."""

from __future__ import annotations

import asyncio

from readonly_engine.broker.subscription.leaving_consumers import LeavingConsumers


def test_a_subscription_is_settled_when_all_who_have_left_are_closed_at_the_owner():
    async def run():
        departures = LeavingConsumers()
        departures.add("s", 1)
        departures.add("s", 2)
        departures.add("other", 3)
        waits = [asyncio.create_task(departures.wait_for_none("s")) for _ in range(3)]
        await asyncio.sleep(0)
        departures.remove("s", 1)
        departures.remove("s", 1)
        await asyncio.sleep(0)
        assert not any(wait.done() for wait in waits)
        departures.remove("s", 2)
        async with asyncio.timeout(10):
            await asyncio.gather(*waits)
        assert departures.pending("other")
        assert not departures.pending("s")
        async with asyncio.timeout(10):
            await departures.wait_for_none("s")

    asyncio.run(run())


def test_who_waits_waits_for_those_too_who_leave_meanwhile():
    async def run():
        departures = LeavingConsumers()
        departures.add("s", 1)
        wait = asyncio.create_task(departures.wait_for_none("s"))
        await asyncio.sleep(0)
        departures.remove("s", 1)
        departures.add("s", 2)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not wait.done()
        departures.remove("s", 2)
        async with asyncio.timeout(10):
            await wait

    asyncio.run(run())


def test_nothing_is_kept_of_what_has_ended():
    async def run():
        departures = LeavingConsumers()
        for number in range(1000):
            departures.add(number, number)
            wait = asyncio.create_task(departures.wait_for_none(number))
            await asyncio.sleep(0)
            departures.remove(number, number)
            await wait
        assert not departures._leaving
        assert not departures._waiting

    asyncio.run(run())
