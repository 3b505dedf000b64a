"""Addresses of one broker: the URLs that it advertises, and listening on its addresses."""

from __future__ import annotations

import asyncio
import errno
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from readonly_engine.config.kinds import Address
from readonly_engine.config.listeners import DEFAULT
from readonly_engine.metadata.errors import MetadataUnavailableError, NotAdmittedError
from readonly_engine.net.interfaces import LOOPBACK
from readonly_engine.net.port_holder import port_holder
from readonly_engine.start_files import StartError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.net.tls import Reloaded

log = logging.getLogger("readonly_engine")

LISTEN_RETRY_S: Final = 0.2
"""Interval of tries to listen on an address in use."""


def advertised_url(config: EngineConfig) -> str:
    """Return the URL of this broker in lookup answers.

    Raises:
        StartError: it listens on all interfaces, and no option names a host that clients reach.
    """
    return config.advertised_url or _url_of("pulsar", config.listen, "--advertised-url")


def advertised_tls_url(config: EngineConfig) -> str:
    """Return the URL of this broker in lookup answers to clients with TLS; empty without TLS.

    Raises:
        StartError: it listens on all interfaces, and no option names a host that clients reach.
    """
    if config.tls_listen is None:
        return ""
    return config.advertised_tls_url or _url_of("pulsar+ssl", config.tls_listen, "--advertised-tls-url")


def _url_of(scheme: str, address: Address, option: str) -> str:
    if address.host in LOOPBACK:
        raise StartError(
            f"{option} is missing: clients cannot be sent to {address}; "
            f"give {scheme}://HOST:{address.port} with a HOST that they reach"
        )
    return f"{scheme}://{address}"


async def listen_for_clients(
    config: EngineConfig,
    broker: Broker,
    tls: Reloaded[ssl.SSLContext] | None,
    listening: Callable[[str, Address, Callable[[str, int], Awaitable[None]]], Awaitable[bool]],
    *,
    shared: bool = False,
) -> None:
    """Listen on the addresses for clients other than --listen.

    Raises:
        StartError: see `listen`.
    """
    if config.tls_listen is not None and tls is not None:
        start = partial(broker.listen_tls, DEFAULT, tls, shared=shared)
        await listening("tls-listen", config.tls_listen, start)
    for bind in config.bind_addresses:
        start = partial(broker.listen, bind.listener, shared=shared)
        if bind.tls and tls is not None:
            start = partial(broker.listen_tls, bind.listener, tls, shared=shared)
        await listening("bind-addresses", Address(bind.host.strip("[]"), bind.port), start)


async def listen(
    option: str,
    address: Address,
    start: Callable[[str, int], Awaitable[None]],
    timeout_s: float = 0.0,
    stop: asyncio.Event | None = None,
) -> bool:
    """Start to listen on an address.

    Args:
        option: name of its option, for errors.
        address: the address.
        start: listens on a host and a port.
        timeout_s: time to wait for an address in use.
        stop: ends the wait.

    Returns:
        Whether it listens: False after `stop` has ended the wait.

    Raises:
        StartError: the address cannot be listened on, or the pool does not admit this broker.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    stop = stop or asyncio.Event()
    waiting = False
    try:
        while True:
            try:
                await start(address.host, address.port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or loop.time() >= deadline:
                    raise
                if not waiting:
                    holder = port_holder(address.port) or "unknown"
                    log.warning("address in use, waiting: option=--%s address=%s holder=%s", option, address, holder)
                    waiting = True
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(LISTEN_RETRY_S, max(deadline - loop.time(), 0))):
                        await stop.wait()
                        return False
            else:
                return True
    except OSError as error:
        holder = port_holder(address.port) if error.errno == errno.EADDRINUSE else ""
        raise StartError(
            f"--{option} {address}: {error.strerror or error}{f' by {holder}' if holder else ''}; "
            "choose a free address of this machine"
        ) from error
    except MetadataUnavailableError as error:
        raise StartError(f"--metadata-store-url: {error}") from error
    except NotAdmittedError as error:
        raise StartError(f"--pool: {error}") from error
