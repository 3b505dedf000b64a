"""Assembly of one broker: it makes and connects all parts, runs until a signal, and closes them."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from readonly_engine import build_info, tracing
from readonly_engine.background import ProcessGuard, run_forever
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.broker.consumer.limits import Limits
from readonly_engine.broker.cursors.client import file_token, stock_client
from readonly_engine.broker.cursors.guard_policies import GuardPolicySource
from readonly_engine.broker.cursors.local_cursors import LocalCursors
from readonly_engine.broker.cursors.local_names import LocalSubscriptionNames
from readonly_engine.broker.cursors.owner_access import ACCESS_PREFIX, OwnerAccess
from readonly_engine.broker.cursors.topic_backend import TopicBackend
from readonly_engine.broker.passthrough.policy import PassThroughPolicy
from readonly_engine.broker.pool.bindings import Bindings, BindingsError, from_patterns
from readonly_engine.broker.pool.claim_store import ClaimStore
from readonly_engine.broker.pool.membership import PoolMembership
from readonly_engine.broker.replay.replay import Replay
from readonly_engine.broker.server.broker import Broker
from readonly_engine.broker.subscription.batch_index_acks import BatchIndexAckStore
from readonly_engine.broker.subscription.topics import TopicRegistry
from readonly_engine.broker.tail.budget import ANY_RATE, SUBSCRIPTION_PREFIX, TailSettings
from readonly_engine.build_info import built_commit
from readonly_engine.config.listeners import DEFAULT
from readonly_engine.config.settings import PORT_OFFSET, Tail, Unbound
from readonly_engine.http.server import HttpServer
from readonly_engine.http.status.gather import About
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.listening import advertised_tls_url, advertised_url, listen, listen_for_clients
from readonly_engine.locality import LocalityFile
from readonly_engine.metadata.connect import ClusterStores
from readonly_engine.metadata.errors import MetadataError, NotAdmittedError
from readonly_engine.net import descriptors
from readonly_engine.net.certificates import certificate_files
from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.interfaces import LOOPBACK, LOOPBACK_HOSTS
from readonly_engine.net.tls import TlsError
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.cursor_admin import CursorAdmin
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.replay_parts import join_replay, pool_uid, replay_backend
from readonly_engine.start_files import StartError, open_files
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.topic.cache import EntryCache
from readonly_engine.wire.framing import StoredFrameLimit

if TYPE_CHECKING:
    from readonly_engine.broker.subscription.subscription import Subscription
    from readonly_engine.config.kinds import Address
    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.topic.position import Position

log = logging.getLogger("readonly_engine")

COMMIT_VARIABLE: Final = "PULSAR_READONLY_COMMIT"
"""Variable of the environment with the commit of the image, which the status page shows. Images of a release have it in the
package instead (build_info.py)."""

_COMMIT: Final = re.compile("[0-9a-f]{7,64}")


def _tail_settings(pool: str, url: str) -> dict[Tail, TailSettings | None]:
    """Return how owners push new entries to the broker; None for bookies only.

    Args:
        pool: identity of the pool.
        url: advertised URL of the broker, which no other broker of the pool has.
    """
    name = f"{SUBSCRIPTION_PREFIX}{pool}-{urlsplit(url).netloc}"
    return {
        Tail.AUTO: TailSettings(name),
        Tail.BOOKIES: None,
        Tail.OWNER: TailSettings(name, ANY_RATE, ANY_RATE, ANY_RATE),
    }


def bound_patterns(config: EngineConfig) -> Bindings:
    """Return the bindings of --topics.

    Raises:
        StartError: a pattern is invalid.
    """
    try:
        return Bindings((from_patterns("topics", config.topics),) if config.topics else ())
    except BindingsError as error:
        raise StartError(f"--topics: {error}") from error


async def serve(config: EngineConfig, shared: EngineConfig | None = None) -> None:
    """Run one broker until SIGTERM or SIGINT.

    Args:
        config: its settings.
        shared: settings of all workers, where this is one of several: it listens on their addresses too, and ends when its
            standard input does.

    Raises:
        StartError: the broker cannot start.
    """
    descriptors.raise_limit()
    build = await asyncio.to_thread(build_labels)
    stop = asyncio.Event()
    process = ProcessGuard("readonly_engine", stop.set)
    process.install()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if shared is not None:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    patterns = bound_patterns(config)
    url, tls_url = advertised_url(config), advertised_tls_url(config)
    tls, broker_tls, peer_tls, bookie_security, login, http_access = open_files(config)
    if config.otlp_endpoint:
        try:
            tracing.start(config.otlp_endpoint, {"service.instance.id": url, "pulsar.pool": config.pool})
        except tracing.TracingError as error:
            raise StartError(f"--otlp-endpoint: {error}") from error
    try:
        stores = ClusterStores(config.metadata_url, config.bookkeeper_metadata_url, config.metadata_security)
        admin = AdminClient(*config.admin_urls, tls=broker_tls, token_file=config.admin_token_file, login=login)
    except (TlsError, LoginError) as error:
        raise StartError(f"--{error}") from error
    except (OSError, ValueError) as error:
        raise StartError(f"--admin-token-file: {error}") from error
    renewing = None
    if login is not None:
        renewing = run_forever(login.follow, "renewing access tokens of --admin-oauth2")
        await login.await_first()  # before the first clients; without an answer the broker starts all the same
    try:
        await stores.start()
    except MetadataError as error:
        raise StartError(f"--metadata-store-url: {error}") from error
    store, cluster = stores.main, stores.cluster
    stored_limit = StoredFrameLimit()
    bookies = BookiePool(cluster.bookie_address, security=bookie_security, locality=config.locality, limit=stored_limit)
    if config.locality or config.locality_file is not None:
        cluster.watch_racks(bookies.replica_order.place)
    namesakes: list[NotAdmittedError] = []
    joined = False

    def refused(error: NotAdmittedError) -> None:
        if joined:  # another pool took the name while this broker had no session
            namesakes.append(error)
            stop.set()

    membership = PoolMembership(
        store,
        config.pool,
        url,
        tls_url,
        config.advertised_listeners,
        pool_uid(config),
        refused,
        config.locality,
        published_http_port(config.http, url),
        config.http_tls,
    )

    def on_locality_changed(locality: str) -> None:
        bookies.replica_order.move(locality)
        membership.move(locality)

    following = None
    if config.locality_file is not None:
        following = run_forever(
            LocalityFile(config.locality_file, on_locality_changed).follow, "following --locality-file"
        )
    cache = EntryCache(config.cache_size)
    tiered = TieredStorage(config.tiered_storage)
    guard = LeaseGuard()

    def on_unreadable(subscription: Subscription, position: Position, reason: str) -> None:
        passthrough.on_unreadable(subscription, position, reason)

    tails = _tail_settings(membership.identity, url)

    def tail_of(topic: TopicName) -> TailSettings | None:
        return tails[broker.bindings.tail_of(topic) or config.tail]

    def is_bound(topic: TopicName) -> bool:
        return broker.bindings.covers(topic)

    def on_deleted(topic: TopicName) -> None:
        broker.spawn(local_cursors.topic_deleted(topic))

    try:
        record = await join_replay(store, membership, config)
    except StartError:
        await stores.close()
        raise
    replay = None if record is None else Replay(record.shared, cluster)
    topics = TopicRegistry(
        cluster,
        bookies,
        cache,
        admin,
        tiered,
        on_unreadable,
        config.dispatch_rate_per_subscription,
        config.dispatch_rate_per_broker,
        BatchIndexAckStore(admin, store, membership.folder),
        guard,
        tail_of if record is None else lambda _: None,
        on_deleted,
        None if record is None else record.shared,
    )
    owners = OwnerDirectory(*config.service_urls, tls=broker_tls, peer_tls=peer_tls, stored_limit=stored_limit)
    claims = ClaimStore(store, membership, guard)
    access = OwnerAccess(owners, topics.authorizes, f"{ACCESS_PREFIX}{membership.identity}-{urlsplit(url).netloc}-")

    def topic_backend() -> TopicBackend:
        return TopicBackend(
            partial(
                stock_client,
                config.service_url,
                config.broker_tls,
                file_token(config.admin_token_file) if login is None else login.current,
            ),
            CursorAdmin(admin),
            access,
            membership.identity,
            config.cursor_partitions,
            is_bound,
            cluster.stored_topic,
            GuardPolicySource(admin, topics.namespace_policies).of,
        )

    backend = topic_backend() if record is None else replay_backend(store, cluster, topics, access, record)
    local_cursors = LocalCursors(backend, claims, membership)
    passthrough = PassThroughPolicy(
        admin, topics.namespace_policies, membership.identity, topics.subscriptions, topics.can_read
    )
    broker = Broker(
        owners,
        topics,
        passthrough,
        membership,
        claims,
        local_cursors,
        LocalSubscriptionNames(local_cursors, cluster, owners, membership),
        Limits(config),
        patterns,
        config.bindings,
        config.lookup_unbound if replay is None else Unbound.REJECT,
        config.cursors,
        guard,
        replay,
    )
    certificates = certificate_files(
        [config.tls or config.http_files, config.broker_tls, config.metadata_store_tls, config.bookie_tls]
    )
    http = HttpServer(broker, stores, cache, cluster, bookies, about(config, shared), build, certificates, http_access)
    try:
        listening = partial(listen, timeout_s=config.listen_timeout, stop=stop)
        if not await listening("http", config.http, http.start) or not await listening(
            "listen", config.listen, broker.start
        ):
            return
        joined = True
        await listen_for_clients(config, broker, tls, listening)
        if shared is not None:
            await listening("listen", shared.listen, partial(broker.listen, DEFAULT, shared=True))
            await listen_for_clients(shared, broker, tls, listening, shared=True)
        log.info("serving on %s as %s, pool %s; health and metrics on %s", config.listen, url, config.pool, config.http)
        await stop.wait()
        log.info("stopping")
        if shared is not None:
            loop.remove_reader(sys.stdin.fileno())
        await broker.drain()
        if namesakes:
            raise StartError(f"--pool: {namesakes[0]}")
        if process.error is not None:
            raise StartError(f"stopped after an unexpected error, which the log has: {process.error!r}")
    finally:
        for task in (following, renewing):
            if task is not None:
                task.cancel()
        if record is not None:
            record.close()
        await http.close()
        await local_cursors.disconnect()
        await admin.close()
        bookies.close()
        await bookies.wait_closed()
        tiered.close()
        await stores.close()
        await tracing.stop()


def build_labels() -> dict[str, str]:
    """Return the build of this process as labels; the commit is that of the image where the environment has it."""
    commit = os.environ.get(COMMIT_VARIABLE, "")
    return build_info.labels() | ({"commit": commit} if _COMMIT.fullmatch(commit) else {})


def about(config: EngineConfig, shared: EngineConfig | None) -> About:
    """Return the facts about this broker for its status page.

    Args:
        config: its settings.
        shared: settings of all workers; None for the only process.
    """
    commit = os.environ.get(COMMIT_VARIABLE, "")
    return About(
        service_url=config.service_url,
        metadata_store_url=config.metadata_store_url,
        commit=commit if _COMMIT.fullmatch(commit) else built_commit(),
        worker=-1 if shared is None else (config.http.port - shared.http.port) // PORT_OFFSET - 1,
        workers=1 if shared is None else shared.workers,
    )


def published_http_port(address: Address, url: str) -> int:
    """Return the HTTP port that the pool's other brokers link to; 0 where it is reached on this machine only.

    Args:
        address: the HTTP port's address.
        url: URL of the broker, whose host is used for the link.
    """
    local = address.host not in LOOPBACK and address.host in LOOPBACK_HOSTS
    return 0 if local and urlsplit(url).hostname not in LOOPBACK_HOSTS else address.port
