"""Resolve the hosts of the options."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from readonly_engine.doctor.checks.names import HostName, Resolution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.doctor.deadline import Deadline


def names_in(config: EngineConfig) -> list[HostName]:
    """Return the hosts of the options, each once for an option. An address is not a name."""
    return [name for name in dict.fromkeys(_names(config)) if not _is_address(name.host)]


def _names(config: EngineConfig) -> Iterator[HostName]:
    yield from _of_urls("service-url", config.service_urls)
    yield from _of_urls("admin-url", config.admin_urls)
    stores = {
        "metadata-store-url": config.metadata_url,
        "bookkeeper-metadata-store-url": config.bookkeeper_metadata_url,
    }
    for option, store in stores.items():
        if store is not None:
            yield from _of_urls(option, [f"//{host}" for host in store.hosts.split(",")])
    if config.admin_oauth2 is not None:
        yield from _of_urls("admin-oauth2", [config.admin_oauth2.issuer_url])
    for option, url in (("advertised-url", config.advertised_url), ("advertised-tls-url", config.advertised_tls_url)):
        if url:
            yield from _of_urls(option, [url], required=False)


def _of_urls(option: str, urls: Iterable[str], *, required: bool = True) -> Iterator[HostName]:
    for url in urls:
        host = urlsplit(url).hostname
        if host:
            yield HostName(host, option, required)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def resolve(names: Iterable[HostName], deadline: Deadline) -> list[Resolution]:
    """Resolve names beside each other."""
    return list(await asyncio.gather(*(_resolve(name, deadline) for name in names)))


async def _resolve(name: HostName, deadline: Deadline) -> Resolution:
    try:
        async with deadline.request():
            found = await asyncio.get_running_loop().getaddrinfo(name.host, None, type=socket.SOCK_STREAM)
    except TimeoutError:
        return Resolution(name, problem="the DNS does not answer in time")
    except (OSError, UnicodeError) as error:
        return Resolution(name, problem=getattr(error, "strerror", None) or str(error))
    return Resolution(name, tuple(dict.fromkeys(str(address[0]) for *_, address in found)))
