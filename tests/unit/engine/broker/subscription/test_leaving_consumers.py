"""Who has left a subscription, and whose last acks the owner may not have taken."""

import asyncio

from readonly_engine.broker.subscription.leaving_consumers import LeavingConsumers


async def test_nothing_is_kept_of_what_has_ended():
    departures = LeavingConsumers()
    for number in range(1000):
        departures.add(number, number)
        wait = asyncio.create_task(departures.wait_for_none(number))
        await asyncio.sleep(0)
        departures.remove(number, number)
        await wait
    assert not departures._leaving
    assert not departures._waiting
