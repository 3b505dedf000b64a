"""What each worker is told: ports of its own beside those that all share, and its part of what is limited. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readonly_engine.broker.dispatch.rate import DispatchRate
from readonly_engine.broker.listeners import Urls
from readonly_engine.config import Address, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.config import EngineConfig

APART: Final = 100
"""Worker 0 has the ports that are given plus so many, worker 1 plus twice as many: a port of its own says who is meant."""

_DEFAULT_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}
_MOST_PORT: Final = 65535


def worker_config(config: EngineConfig, index: int) -> EngineConfig:
    """The configuration of one worker: a member of the pool like any other broker, at ports of its own.

    Args:
        config: of all of them.
        index: 0 for the first.
    """
    move = (index + 1) * APART
    count = config.workers
    rate = config.dispatch_rate_per_broker
    return replace(
        config,
        workers=1,
        listen=_moved(config.listen, move),
        tls_listen=None if config.tls_listen is None else _moved(config.tls_listen, move),
        http=_moved(config.http, move),
        advertised_url=_moved_url(config.advertised_url, move),
        advertised_tls_url=_moved_url(config.advertised_tls_url, move),
        advertised_listeners={
            name: Urls(_moved_url(urls.url, move), _moved_url(urls.tls_url, move))
            for name, urls in config.advertised_listeners.items()
        },
        bind_addresses=tuple(replace(bind, port=bind.port + move) for bind in config.bind_addresses),
        cache_size=config.cache_size // count,
        max_buffered_bytes=config.max_buffered_bytes // count,
        max_connections=-(-config.max_connections // count),
        dispatch_rate_per_broker=DispatchRate(-(-rate.messages // count), -(-rate.bytes // count)),
    )


def check_ports(config: EngineConfig) -> None:
    """Make sure that every worker has ports.

    Raises:
        ConfigError: one would have none.
    """
    ports = {"listen": config.listen.port, "http": config.http.port}
    if config.tls_listen is not None:
        ports["tls-listen"] = config.tls_listen.port
    ports.update({f"bind-addresses: {bind}": bind.port for bind in config.bind_addresses})
    for name, port in ports.items():
        if not 0 < port <= _MOST_PORT - config.workers * APART:
            raise ConfigError(
                f"{name}: with --workers {config.workers} its port would be from 1 to {_MOST_PORT - config.workers * APART}: "
                f"each worker has one of its own, {APART} after that of the one before"
            )
    own = [port + (index + 1) * APART for port in ports.values() for index in range(config.workers)]
    taken = _twice([*ports.values(), *own])
    if taken:
        raise ConfigError(
            f"workers: port {taken} would be needed twice; workers have the given ports plus {APART}, {2 * APART}, ...: "
            f"give ports that are not {APART} apart"
        )


def _twice(ports: Iterable[int]) -> int:
    seen = set[int]()
    for port in ports:
        if port in seen:
            return port
        seen.add(port)
    return 0


def _moved(address: Address, move: int) -> Address:
    return Address(address.host, address.port + move)


def _moved_url(url: str, move: int) -> str:
    if not url:
        return ""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{(parts.port or _DEFAULT_PORTS[parts.scheme]) + move}"
