"""Settings of each worker: ports of its own beside the ports of all workers, and its part of the limits. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readonly_engine.config.kinds import MAX_PORT, Address
from readonly_engine.config.limits import DispatchRate
from readonly_engine.config.listeners import Urls
from readonly_engine.config.option import ConfigError
from readonly_engine.config.settings import PORT_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.config.settings import EngineConfig

_DEFAULT_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}


def worker_config(config: EngineConfig, index: int) -> EngineConfig:
    """Return the settings of one worker: a member of the pool like any other broker, on ports of its own.

    Args:
        config: settings of all workers.
        index: 0 for the first.
    """
    move = (index + 1) * PORT_OFFSET
    count = config.workers
    rate = config.dispatch_rate_per_broker
    return replace(
        config,
        workers=1,
        listen=_shifted(config.listen, move),
        tls_listen=None if config.tls_listen is None else _shifted(config.tls_listen, move),
        http=_shifted(config.http, move),
        advertised_url=_shifted_url(config.advertised_url, move),
        advertised_tls_url=_shifted_url(config.advertised_tls_url, move),
        advertised_listeners={
            name: Urls(_shifted_url(urls.url, move), _shifted_url(urls.tls_url, move))
            for name, urls in config.advertised_listeners.items()
        },
        bind_addresses=tuple(replace(bind, port=bind.port + move) for bind in config.bind_addresses),
        cache_size=config.cache_size // count,
        max_buffered_bytes=config.max_buffered_bytes // count,
        max_connections=-(-config.max_connections // count),
        dispatch_rate_per_broker=DispatchRate(-(-rate.messages // count), -(-rate.bytes // count)),
    )


def check_ports(config: EngineConfig) -> None:
    """Check that every worker has free ports of its own.

    Raises:
        ConfigError: a port is above the highest, or two processes need the same.
    """
    ports = {"listen": config.listen.port, "http": config.http.port}
    if config.tls_listen is not None:
        ports["tls-listen"] = config.tls_listen.port
    ports.update({f"bind-addresses: {bind}": bind.port for bind in config.bind_addresses})
    for name, port in ports.items():
        if not 0 < port <= MAX_PORT - config.workers * PORT_OFFSET:
            raise ConfigError(
                f"{name}: with --workers {config.workers} the port must be from 1 to "
                f"{MAX_PORT - config.workers * PORT_OFFSET}, not {port}: each worker listens {PORT_OFFSET} above the one before"
            )
    own = [port + (index + 1) * PORT_OFFSET for port in ports.values() for index in range(config.workers)]
    taken = _twice([*ports.values(), *own])
    if taken:
        raise ConfigError(
            f"workers: two processes need port {taken}; workers listen on the given ports plus {PORT_OFFSET}, "
            f"plus {2 * PORT_OFFSET} and so on: give ports that are not {PORT_OFFSET} apart"
        )


def _twice(ports: Iterable[int]) -> int:
    seen = set[int]()
    for port in ports:
        if port in seen:
            return port
        seen.add(port)
    return 0


def _shifted(address: Address, move: int) -> Address:
    return Address(address.host, address.port + move)


def _shifted_url(url: str, move: int) -> str:
    if not url:
        return ""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{(parts.port or _DEFAULT_PORTS[parts.scheme]) + move}"
