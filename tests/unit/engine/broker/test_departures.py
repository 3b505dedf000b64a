"""Who has left a subscription, and whose last acks the owner may not have taken."""

from __future__ import annotations

import asyncio

from readonly_engine.broker.departures import Departures


def test_a_subscription_is_settled_when_all_who_have_left_are_closed_at_the_owner():
    async def run():
        departures = Departures()
        departures.began("s", 1)
        departures.began("s", 2)
        departures.began("other", 3)
        waits = [asyncio.create_task(departures.settled("s")) for _ in range(3)]
        await asyncio.sleep(0)
        departures.ended("s", 1)
        departures.ended("s", 1)
        await asyncio.sleep(0)
        assert not any(wait.done() for wait in waits)
        departures.ended("s", 2)
        async with asyncio.timeout(10):
            await asyncio.gather(*waits)
        assert departures.pending("other")
        assert not departures.pending("s")
        async with asyncio.timeout(10):
            await departures.settled("s")

    asyncio.run(run())


def test_who_waits_waits_for_those_too_who_leave_meanwhile():
    async def run():
        departures = Departures()
        departures.began("s", 1)
        wait = asyncio.create_task(departures.settled("s"))
        await asyncio.sleep(0)
        departures.ended("s", 1)
        departures.began("s", 2)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not wait.done()
        departures.ended("s", 2)
        async with asyncio.timeout(10):
            await wait

    asyncio.run(run())


def test_nothing_is_kept_of_what_has_ended():
    async def run():
        departures = Departures()
        for number in range(1000):
            departures.began(number, number)
            wait = asyncio.create_task(departures.settled(number))
            await asyncio.sleep(0)
            departures.ended(number, number)
            await wait
        assert not departures._leaving
        assert not departures._waiting

    asyncio.run(run())
