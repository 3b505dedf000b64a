"""Requests to each host of the admin URL: version, clock, configuration."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readonly_engine.doctor.checks.admin_api import AdminAnswer
from readonly_engine.doctor.checks.clocks import ClockSample
from readonly_engine.doctor.checks.explicit_lac import SETTING
from readonly_engine.doctor.checks.failure import Failure, FailureKind
from readonly_engine.doctor.observe.failures import failure_of
from readonly_engine.owner.errors import RelayError

if TYPE_CHECKING:
    from readonly_engine.doctor.clients import Clients
    from readonly_engine.doctor.deadline import Deadline
    from readonly_engine.owner.admin import AdminClient

MAX_BROKERS: Final = 100
"""Active brokers whose configuration is read."""

MAX_CONCURRENT: Final = 8


async def ask_admin_apis(clients: Clients, deadline: Deadline) -> list[AdminAnswer]:
    """Ask each host of the admin URL. Without a client, each has the failure of its files."""
    if not clients.admins:
        failure = Failure(FailureKind.OTHER, "not checked: its credentials or files cannot be used")
        return [AdminAnswer(url, failure) for url in clients.config.admin_urls]
    return list(await asyncio.gather(*(_ask(url, admin, deadline) for url, admin in clients.admins.items())))


async def _ask(url: str, admin: AdminClient, deadline: Deadline) -> AdminAnswer:
    try:
        async with deadline.request():
            await admin.version()  # the second answer comes on an open connection, so its round trip is short
            sent = time.time()
            found = await admin.version()
            clock = ClockSample(url, found.date, sent, time.time())
    except (RelayError, TimeoutError) as error:
        failure = failure_of(error)
        if failure.kind is FailureKind.RIGHTS:  # everyone with valid credentials may ask for the version
            failure = replace(failure, kind=FailureKind.CREDENTIALS)
        return AdminAnswer(url, failure)
    answer = AdminAnswer(url, version=found.version, clock=clock)
    try:
        async with deadline.request():
            return replace(answer, configuration=await admin.configuration())
    except (RelayError, TimeoutError) as error:
        return replace(answer, configuration_failure=failure_of(error))


async def lac_intervals(clients: Clients, answers: list[AdminAnswer], deadline: Deadline) -> dict[str, int | None]:
    """Return the explicit LAC setting of each active broker that answers, in ms; None for a broker without the setting.

    If the list of brokers is refused, those of the admin URL count.
    """
    known = {answer.url: _interval(answer.configuration) for answer in answers if answer.configuration is not None}
    if clients.admin is None or not known:
        return known
    try:
        async with deadline.request():
            listed = await clients.admin.fetch("/admin/v2/brokers")
    except (RelayError, TimeoutError):
        return known
    scheme = urlsplit(clients.config.admin_urls[0]).scheme
    slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def ask(broker: str) -> tuple[str, int | None] | None:
        admin = clients.admin_at(f"{scheme}://{broker}")
        try:
            async with slots, deadline.request():
                return broker, _interval(await admin.configuration())
        except (RelayError, TimeoutError):
            return None
        finally:
            await admin.close()

    brokers = [name for one in listed if (name := _host(one))] if isinstance(listed, list) else []
    found = await asyncio.gather(*(ask(broker) for broker in brokers[:MAX_BROKERS]))
    return dict(one for one in found if one is not None) or known


async def listed_brokers(clients: Clients, deadline: Deadline) -> frozenset[str] | None:
    """Return the names of the active brokers, HOST:PORT; None if the admin API does not answer, or refuses."""
    if clients.admin is None:
        return None
    try:
        async with deadline.request():
            listed = await clients.admin.fetch("/admin/v2/brokers")
    except (RelayError, TimeoutError):
        return None
    return frozenset(name for one in listed if (name := _host(one))) if isinstance(listed, list) else None


def _interval(configuration: object) -> int | None:
    value = configuration.get(SETTING) if isinstance(configuration, dict) else None
    try:
        return int(str(value))
    except ValueError:
        return None


def _host(broker: object) -> str:
    """Return HOST:PORT of a listed broker, which may have a scheme; empty for another value."""
    if not isinstance(broker, str):
        return ""
    try:
        return urlsplit(f"//{broker.rpartition('//')[2]}").netloc.rpartition("@")[2]
    except ValueError:
        return ""
