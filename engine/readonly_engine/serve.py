"""`pulsar-readonly serve`: one read-only broker."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from readonly_engine import collector
from readonly_engine.background import keep_going
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.broker import descriptors
from readonly_engine.broker.batch_memory import BatchMemory
from readonly_engine.broker.bindings import Bindings, BindingsError, Unbound, from_patterns
from readonly_engine.broker.broker import Broker
from readonly_engine.broker.claiming import Claiming
from readonly_engine.broker.fleet import Fleet
from readonly_engine.broker.lease_guard import LeaseGuard
from readonly_engine.broker.limits import Limits
from readonly_engine.broker.listeners import DEFAULT
from readonly_engine.broker.topics import ServedTopics
from readonly_engine.config import (
    ALL_INTERFACES,
    LOG_FORMATS,
    LOG_LEVELS,
    Address,
    ConfigError,
    EngineConfig,
    make_config,
    read_config_file,
)
from readonly_engine.http.server import HttpServer
from readonly_engine.locality import LocalityFile
from readonly_engine.logs import set_up_logging
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.errors import MetadataUnavailableError, NotAdmittedError
from readonly_engine.metadata.zookeeper import ZooKeeperStore
from readonly_engine.relay.admin import AdminClient
from readonly_engine.relay.owners import Owners
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.tls import ClientTls, Reloaded, TlsError
from readonly_engine.topic.cache import EntryCache
from readonly_engine.wire.framing import StoredFrameLimit
from readonly_engine.workers.parent import Parent
from readonly_engine.workers.plan import APART, check_ports, worker_config

if TYPE_CHECKING:
    import ssl

log = logging.getLogger("readonly_engine")


class StartError(Exception):
    """The broker cannot start: says which setting is at fault."""


def parser() -> argparse.ArgumentParser:
    """The command line; every option but --config is also a key of the configuration file."""
    made = argparse.ArgumentParser(
        prog="pulsar-readonly serve",
        description="Run one read-only broker: serve topics of a Pulsar cluster from storage.",
        argument_default=argparse.SUPPRESS,
    )
    add = made.add_argument
    add("--config", metavar="FILE", help="YAML file with these options as keys; options win over the file")
    add("--metadata-store", metavar="zk:HOST:PORT", help="ZooKeeper of the writable cluster")
    add(
        "--writer-url",
        metavar="pulsar[+ssl]://HOST:PORT[,HOST:PORT...]",
        help="the writable cluster's brokers, tried in turn",
    )
    add(
        "--admin-url",
        metavar="http[s]://HOST:PORT[,HOST:PORT...]",
        help="the writable cluster's admin API, tried in turn",
    )
    _add_tls(made, "writer-tls", "the writable cluster's brokers")
    add(
        "--admin-token-file",
        metavar="FILE",
        help="file with a token for the admin API; its role must be allowed to consume the served topics",
    )
    _add_tls(made, "bookie-tls", "bookies; any of these four options turns on TLS to bookies")
    add("--listen", metavar="HOST:PORT", help="address for clients (default 0.0.0.0:6650)")
    add("--http", metavar="HOST:PORT", help="address for health, metrics and statistics (default 0.0.0.0:8080)")
    add(
        "--advertised-url",
        metavar="pulsar://HOST:PORT",
        help="URL of this broker in lookup answers (default: made from --listen)",
    )
    add("--tls-listen", metavar="HOST:PORT", help="address for clients with TLS (default: none)")
    add("--tls-certificate", metavar="FILE", help="PEM certificate for clients, read again when it changes")
    add("--tls-key", metavar="FILE", help="PEM key of that certificate")
    add(
        "--tls-trust-certificates",
        metavar="FILE",
        help="PEM authorities of client certificates; with it, each client must show one",
    )
    add(
        "--advertised-tls-url",
        metavar="pulsar+ssl://HOST:PORT",
        help="URL of this broker in lookup answers to clients with TLS (default: made from --tls-listen)",
    )
    add(
        "--advertised-listeners",
        metavar="NAME:pulsar[+ssl]://HOST:PORT[,...]",
        help="URLs of this broker for clients that name a listener, or connect at its port",
    )
    add(
        "--bind-addresses",
        metavar="NAME:pulsar[+ssl]://HOST:PORT[,...]",
        help="further addresses for clients of these listeners, besides --listen and --tls-listen (default: none)",
    )
    add(
        "--peer-tls-trust-certificates",
        metavar="FILE",
        help="PEM authorities of the pool's own brokers; with it, they connect to each other with TLS only",
    )
    add(
        "--topics",
        metavar="PATTERN",
        nargs="+",
        help="topics to serve: names, or regular expressions that match full names",
    )
    add("--bindings", metavar="FILE", help="file of bindings, read again when it changes; the operator writes it")
    add(
        "--lookup-unbound",
        choices=tuple(Unbound),
        help="answer to lookups of unbound topics: the owner (redirect, the default), this pool, which relays everything "
        "(proxy), or an error (reject)",
    )
    add("--pool", metavar="NAME", help="name of the pool; brokers of one pool share its consumers (default 'default')")
    add(
        "--pool-uid",
        metavar="TEXT",
        help="identity that keeps pools of the same name in one metadata store apart; the operator passes the pool's uid "
        "(default: none, the name is enough)",
    )
    add(
        "--locality",
        metavar="/ZONE/RACK",
        help="place of this broker, as in `pulsar-admin bookies set-bookie-rack`; near bookies are read first",
    )
    add(
        "--locality-file",
        metavar="FILE",
        help="file with the place, read again when it changes; it wins over --locality",
    )
    add("--cache-size", metavar="SIZE", help="size of entries kept in memory, such as 512MiB (default 256MiB)")
    add(
        "--tiered-storage",
        metavar="{KEY: VALUE, ...}",
        help="how offloaded ledgers are read (default: as the brokers noted)",
    )
    add("--max-connections", metavar="N", help="limit of client connections (default 0: any number)")
    add(
        "--max-connections-per-ip",
        metavar="N",
        help="limit of client connections from one address (default 0: any number)",
    )
    add(
        "--max-consumers-per-topic",
        metavar="N",
        help="limit of consumers of a topic on this broker (default 0: any number)",
    )
    add(
        "--max-consumers-per-subscription",
        metavar="N",
        help="limit of consumers of a subscription on this broker (default 0: any number)",
    )
    add(
        "--max-buffered-bytes",
        metavar="SIZE",
        help="data that waits for slow clients, of all clients together (default 512MiB)",
    )
    add(
        "--dispatch-rate-per-subscription",
        metavar="{messages: N, bytes: SIZE}",
        help="limit of each subscription, per second (default: no limit)",
    )
    add(
        "--dispatch-rate-per-broker",
        metavar="{messages: N, bytes: SIZE}",
        help="limit of all subscriptions of this broker together, per second (default: no limit)",
    )
    add(
        "--workers",
        metavar="N",
        help="broker processes, best one for each core; each has further ports too: "
        f"plus {APART}, plus {2 * APART} and so on (default 1)",
    )
    add("--log-level", choices=LOG_LEVELS, help="lowest level of log lines (default info)")
    add("--log-format", choices=LOG_FORMATS, help="form of log lines (default text)")
    return made


def _add_tls(made: argparse.ArgumentParser, prefix: str, whom: str) -> None:
    made.add_argument(
        f"--{prefix}-trust-certificates",
        metavar="FILE",
        help=f"PEM authorities of {whom} (default: those that the system trusts)",
    )
    made.add_argument(f"--{prefix}-certificate", metavar="FILE", help="PEM certificate that this broker shows to them")
    made.add_argument(f"--{prefix}-key", metavar="FILE", help="its PEM key")
    made.add_argument(
        f"--{prefix}-verify-hostname",
        metavar="true|false",
        help="whether their certificates must name their hosts (default true)",
    )


def advertised_url(config: EngineConfig) -> str:
    """Where clients reach this broker.

    Raises:
        StartError: it listens on all interfaces, and nobody said under which name it is reached.
    """
    return config.advertised_url or _url_of("pulsar", config.listen, "--advertised-url")


def advertised_tls_url(config: EngineConfig) -> str:
    """Where clients reach this broker with TLS; empty for nowhere.

    Raises:
        StartError: it listens on all interfaces, and nobody said under which name it is reached.
    """
    if config.tls_listen is None:
        return ""
    return config.advertised_tls_url or _url_of("pulsar+ssl", config.tls_listen, "--advertised-tls-url")


def _url_of(scheme: str, address: Address, option: str) -> str:
    if address.host in {ALL_INTERFACES, "::", ""}:
        raise StartError(
            f"{option} is missing: clients cannot be sent to {address}; "
            f"give {scheme}://HOST:{address.port} with a HOST that they reach"
        )
    return f"{scheme}://{address}"


async def serve(config: EngineConfig, shared: EngineConfig | None = None) -> None:
    """Run one broker until SIGTERM or SIGINT.

    Args:
        config: its settings.
        shared: of a worker the settings of all: it listens where these say, too, and ends with its standard input.

    Raises:
        StartError: the broker cannot start.
    """
    descriptors.raise_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if shared is not None:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    try:
        patterns = Bindings((from_patterns("topics", config.topics),) if config.topics else ())
    except BindingsError as error:
        raise StartError(f"--topics: {error}") from error
    url, tls_url = advertised_url(config), advertised_tls_url(config)
    try:
        tls = None if config.tls is None else Reloaded(config.tls.files, config.tls.server_context)
        writer_tls = None if config.writer_tls is None else ClientTls(config.writer_tls)
        peer_tls = None if config.peer_tls is None else ClientTls(config.peer_tls)
        bookie_tls = None if config.bookie_tls is None else ClientTls(config.bookie_tls)
        admin = AdminClient(*config.admin_urls, tls=writer_tls, token_file=config.admin_token_file)
    except TlsError as error:
        raise StartError(f"--{error}") from error
    except (OSError, ValueError) as error:
        raise StartError(f"--admin-token-file: {error}") from error
    store = ZooKeeperStore(config.zookeeper_hosts)
    try:
        await store.start()
    except MetadataUnavailableError as error:
        raise StartError(f"--metadata-store: {error}") from error
    cluster = ClusterMetadata(store)
    stored_limit = StoredFrameLimit()
    bookies = BookiePool(cluster.bookie_address, tls=bookie_tls, locality=config.locality, limit=stored_limit)
    if config.locality or config.locality_file is not None:
        cluster.watch_racks(bookies.replica_order.place)
    following = None
    if config.locality_file is not None:
        following = keep_going(
            LocalityFile(config.locality_file, bookies.replica_order.move).follow, "following --locality-file"
        )
    cache = EntryCache(config.cache_size)
    tiered = TieredStorage(config.tiered_storage)
    guard = LeaseGuard()
    namesakes: list[NotAdmittedError] = []

    def refused(error: NotAdmittedError) -> None:
        if joined:  # the name was lost to them while there was no session
            namesakes.append(error)
            stop.set()

    joined = False
    fleet = Fleet(store, config.pool, url, tls_url, config.advertised_listeners, config.pool_uid, refused)
    broker = Broker(
        Owners(*config.writer_urls, tls=writer_tls, peer_tls=peer_tls, stored_limit=stored_limit),
        ServedTopics(
            cluster,
            bookies,
            cache,
            admin,
            tiered,
            config.dispatch_rate_per_subscription,
            config.dispatch_rate_per_broker,
            fleet.identity,
            BatchMemory(admin, store, fleet.folder),
            guard,
        ),
        fleet,
        Claiming(store, fleet, guard),
        Limits(config.limits),
        patterns,
        config.bindings,
        config.lookup_unbound,
        guard,
    )
    http = HttpServer(broker, store, cache, cluster, bookies)
    try:
        await _listen("http", config.http, http.start)
        await _listen("listen", config.listen, broker.start)
        joined = True
        await _listen_too(config, broker, tls)
        if shared is not None:
            await _listen("listen", shared.listen, partial(broker.listen, DEFAULT, shared=True))
            await _listen_too(shared, broker, tls, shared=True)
        log.info("serving on %s as %s, pool %s; health and metrics on %s", config.listen, url, config.pool, config.http)
        await stop.wait()
        log.info("stopping")
        if shared is not None:
            loop.remove_reader(sys.stdin.fileno())
        await broker.drain()
        if namesakes:
            raise StartError(f"--pool: {namesakes[0]}")
    finally:
        if following is not None:
            following.cancel()
        await http.close()
        await admin.close()
        bookies.close()
        await bookies.wait_closed()
        tiered.close()
        await store.close()


async def _listen_too(
    config: EngineConfig, broker: Broker, tls: Reloaded[ssl.SSLContext] | None, *, shared: bool = False
) -> None:
    """Listen wherever clients connect beside --listen."""
    if config.tls_listen is not None and tls is not None:
        await _listen("tls-listen", config.tls_listen, partial(broker.listen_tls, DEFAULT, tls, shared=shared))
    for bind in config.bind_addresses:
        listen = partial(broker.listen, bind.listener, shared=shared)
        if bind.tls and tls is not None:
            listen = partial(broker.listen_tls, bind.listener, tls, shared=shared)
        await _listen("bind-addresses", Address(bind.host.strip("[]"), bind.port), listen)


async def _listen(option: str, address: Address, start: Any) -> None:
    try:
        await start(address.host, address.port)
    except OSError as error:
        raise StartError(
            f"--{option} {address}: {error.strerror or error}; choose a free address of this machine"
        ) from error
    except MetadataUnavailableError as error:
        raise StartError(f"--metadata-store: {error}") from error
    except NotAdmittedError as error:
        raise StartError(f"--pool: {error}") from error


def main(argv: list[str]) -> int:
    """Run the command; returns its exit status: 0 stopped, 1 could not start, 2 wrong usage."""
    try:
        config = _config(argv)
        if config.workers > 1:
            check_ports(config)
    except ConfigError as error:
        print(f"pulsar-readonly serve: {error}", file=sys.stderr)
        return 2
    set_up_logging(config.log_level, config.log_format)
    try:
        if config.workers > 1:
            return uvloop.run(_serve_by_workers(config, argv))
        collector.relax()
        uvloop.run(serve(config))
    except StartError as error:
        print(f"pulsar-readonly serve: {error}", file=sys.stderr)
        return 1
    return 0


def run_worker(index: int, argv: list[str]) -> int:
    """Be one of the processes that `main` starts for --workers; returns as `main` does."""
    config = _config(argv)
    set_up_logging(config.log_level, config.log_format, index)
    collector.relax()
    try:
        uvloop.run(serve(worker_config(config, index), config))
    except StartError as error:
        print(f"pulsar-readonly serve: worker {index}: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve_by_workers(config: EngineConfig, argv: list[str]) -> int:
    # What is wrong for all is said once.
    advertised_url(config)
    advertised_tls_url(config)
    parent = Parent(config, argv)
    await _listen("http", config.http, parent.listen)
    return await parent.run()


def _config(argv: list[str]) -> EngineConfig:
    flags = vars(parser().parse_args(argv))
    path = flags.pop("config", None)
    settings = {name.replace("_", "-"): value for name, value in flags.items()}
    return make_config(read_config_file(Path(path)) if path else {}, settings)
