"""Observations by the engine's own clients, on real sockets where there are any."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest
from readonly_engine.doctor.checks.failure import FailureKind
from readonly_engine.doctor.checks.names import HostName
from readonly_engine.doctor.clients import open_clients, pool_identity, secrets_of
from readonly_engine.doctor.deadline import Deadline
from readonly_engine.doctor.observe.admin_api import ask_admin_apis, lac_intervals
from readonly_engine.doctor.observe.bookies import ask_bookies
from readonly_engine.doctor.observe.brokers import look_up_owners, shake_hands
from readonly_engine.doctor.observe.machine import cores
from readonly_engine.doctor.observe.metadata_store import ask_store, connect_stores
from readonly_engine.doctor.observe.names import names_in, resolve
from readonly_engine.doctor.observe.policies import ask_about_topic
from readonly_engine.doctor.observe.subjects import find_namespaces, find_topics
from readonly_engine.doctor.observe.tiered import open_offloaded
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.identity import ANONYMOUS, Identity
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

from tests.support.waiting import pass_time
from tests.unit.engine.doctor.played_cluster import (
    AdminApi,
    MemoryStore,
    MemoryStores,
    bookie_node,
    config_of,
    old_bookie,
    topic_node,
)
from tests.unit.engine.owner.played_brokers import Server

ORDERS = parse_topic_name("orders")
LEDGERS = "/managed-ledgers/public/default/persistent"


# This machine and names


@pytest.mark.parametrize(
    ("text", "limit"), [("50000 100000", 0.5), ("max 100000", None), ("", None), ("x y", None), ("5 0", None)]
)
def test_cores_under_the_limit_of_a_container(tmp_path, text, limit):
    file = tmp_path / "cpu.max"
    file.write_text(text)
    assert cores(file) == (cores(tmp_path / "none") if limit is None else limit)


def test_the_hosts_of_the_options():
    config = config_of(
        service_url="pulsar://a:1,b:1,10.0.0.1:1",
        admin_url="http://a:1",
        metadata_store_url="zk:z:1,[::1]:2/root",
        bookkeeper_metadata_store_url="oxia://o:1",
        advertised_url="pulsar://me:1",
        admin_oauth2={"issuer-url": "https://issuer/realm", "key-file": "/k"},
    )
    assert [(one.host, one.option, one.required) for one in names_in(config)] == [
        ("a", "service-url", True),
        ("b", "service-url", True),
        ("a", "admin-url", True),
        ("z", "metadata-store-url", True),
        ("o", "bookkeeper-metadata-store-url", True),
        ("issuer", "admin-oauth2", True),
        ("me", "advertised-url", False),
    ]


async def test_names_are_resolved_within_the_deadline(monkeypatch):
    loop = asyncio.get_running_loop()

    async def getaddrinfo(host, *_args, **_options):
        if host == "slow":
            pass_time(30.0)
            await asyncio.Event().wait()
        if host == "none":
            raise OSError(-2, "Name or service not known")
        return [(0, 0, 0, "", ("10.0.0.1", 0)), (0, 0, 0, "", ("10.0.0.1", 0))]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo, raising=False)
    good, none, slow = await resolve([HostName(host, "x") for host in ("a", "none", "slow")], Deadline(30.0))
    assert good.addresses == ("10.0.0.1",)
    assert none.problem == "Name or service not known"
    assert slow.problem == "the DNS does not answer in time"


# Credentials


def test_the_pools_own_credentials(tmp_path):
    token = tmp_path / "token"
    token.write_text("a-token\n")
    assert pool_identity(config_of()) == ANONYMOUS
    assert pool_identity(config_of(admin_token_file=str(token))) == Identity("token", b"a-token")
    tls = {"service_url": "pulsar+ssl://a:1", "broker_tls_certificate": "/c", "broker_tls_key": "/k"}
    assert pool_identity(config_of(**tls)) == Identity("tls")


def test_the_secrets_of_the_options(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("a-token")
    (tmp_path / "login").write_text("user:a-password")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-key")
    config = config_of(
        admin_token_file=str(tmp_path / "token"),
        metadata_store_login_file=str(tmp_path / "login"),
        bookie_login_file=str(tmp_path / "none"),
    )
    assert {one for one in secrets_of(config) if one} == {"a-key", "a-token", "a-password"}


async def test_files_that_cannot_be_used_are_problems_and_nothing_is_asked_with_them():
    clients = open_clients(
        config_of(admin_token_file="/none", bookie_login_file="/none", metadata_store_tls_trust_certificates="/none")
    )
    (shaken,) = await shake_hands(clients, Deadline(5))
    (answer,) = await ask_admin_apis(clients, Deadline(5))
    failure = await connect_stores(clients, Deadline(5))
    await clients.close()
    assert [one.partition(":")[0] for one in clients.problems] == [
        "admin-token-file",
        "metadata-store-tls-trust-certificates",
    ]
    assert (clients.admin, clients.stores, clients.bookies) == (None, None, None)
    for found in (shaken.failure, answer.failure, failure):
        assert found.text.startswith("not checked")


# Brokers and the admin API


@asynccontextmanager
async def played_broker(good, **settings):
    """A broker that takes one token; yields clients of it, and itself."""
    server = await Server(good).start()
    clients = open_clients(config_of(service_url=server.url, **settings))
    try:
        yield clients, server
    finally:
        await clients.close()
        server.close()


async def test_a_broker_that_is_away_and_one_that_is_silent():
    async with played_broker(b"") as (clients, server):
        server.close()
        (away,) = await shake_hands(clients, Deadline(5))
        silent = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        began = time.monotonic()
        (quiet,) = await shake_hands(open_clients(config_of(service_url=f"pulsar://127.0.0.1:{port}")), Deadline(0.8))
        silent.close()
        await asyncio.sleep(0.1)  # both ends close
        assert time.monotonic() - began < 9  # OwnerConnection alone waits for 10 s
    assert away.failure.kind is FailureKind.REFUSED
    assert quiet.failure.kind is FailureKind.TIMEOUT


async def test_owners_are_looked_up_and_connected():
    async with played_broker(b"") as (clients, server):
        (found,) = await look_up_owners([ORDERS], clients, Deadline(5))
        server.lookup.broker_service_url = "pulsar://127.0.0.1:1"
        (lost,) = await look_up_owners([ORDERS], clients, Deadline(5))
    assert (found.topic, found.owner, found.failure) == (str(ORDERS), server.url, None)
    assert lost.failure.kind is FailureKind.REFUSED
    assert set(server.asked) == {"CONNECT", "LOOKUP"}


@asynccontextmanager
async def clients_of_admin(api, **settings):
    """Clients of an admin API that must not change anything."""
    async with api.serving() as url:
        clients = open_clients(config_of(admin_url=url, **settings))
        try:
            yield clients, url
        finally:
            await clients.close()
    assert api.changes == 0


async def ask_admin_api(api, **settings):
    """The answer of one admin API."""
    async with clients_of_admin(api, **settings) as (clients, _):
        (answer,) = await ask_admin_apis(clients, Deadline(5))
    return answer


CONFIGURATION = {"bookkeeperExplicitLacIntervalInMills": "200", "clusterName": "a"}


async def test_the_admin_api_of_a_superuser():
    api = AdminApi(**{"brokers/configuration/runtime": CONFIGURATION, "brokers": []})
    async with clients_of_admin(api) as (clients, url):
        (answer,) = await ask_admin_apis(clients, Deadline(5))
        before = await lac_intervals(clients, [answer], Deadline(5))
        api.answers["brokers"] = [url, "127.0.0.1:1", "[", ""]
        after = await lac_intervals(clients, [answer], Deadline(5))
    assert (answer.failure, answer.version, answer.configuration) == (None, "4.0.8", CONFIGURATION)
    assert answer.clock.date.endswith("GMT")
    assert answer.clock.sent <= answer.clock.received
    assert before == {url: 200}  # no broker is listed
    assert after == {url.removeprefix("http://"): 200}


async def test_an_admin_api_that_refuses(tmp_path):
    (tmp_path / "token").write_text("wrong")
    api = AdminApi()
    api.token = "right"
    async with clients_of_admin(api, admin_token_file=str(tmp_path / "token")) as (clients, _):
        (answer,) = await ask_admin_apis(clients, Deadline(5))
        assert await lac_intervals(clients, [answer], Deadline(5)) == {}
    assert answer.failure.kind is FailureKind.CREDENTIALS
    assert "wrong" not in answer.failure.text
    answer = await ask_admin_api(AdminApi(**{"brokers/configuration/runtime": 401}))
    assert (answer.failure, answer.configuration, answer.configuration_failure.kind) == (None, None, FailureKind.RIGHTS)


# Metadata store and bookies

NODES = {
    "/managed-ledgers": b"",
    "/admin/policies/public/default": b"",
    "/ledgers/available": b"",
    "/ledgers/available/readonly": b"",
}


def clients_of(store, **settings):
    clients = open_clients(config_of(**settings))
    clients.stores = MemoryStores(store)
    if clients.bookies is not None:
        from readonly_engine.bookkeeper.pool import BookiePool  # noqa: PLC0415

        clients.bookies = BookiePool(clients.stores.cluster.bookie_address)
    return clients


async def test_reads_and_writes_of_the_store():
    member = json.dumps({"pool_uid": "7"}).encode()
    store = MemoryStore({**NODES, "/pulsar-readonly/pools/red/brokers/pulsar%3A%2F%2Fa%3A1": member})
    store.denied = {"/pulsar-readonly/pools/red/claims", "/bookies"}
    before = dict(store.nodes)
    clients = clients_of(store, pool="red", locality="/a")
    assert await connect_stores(clients, Deadline(5)) is None
    answers = await ask_store(clients, None, Deadline(5))
    await clients.close()
    assert {one.node.path: one.exists for one in answers.reads} == {
        "/managed-ledgers": True,
        "/admin/policies": True,
        "/admin/partitioned-topics": False,
        "/ledgers": True,
        "/ledgers/available": True,
        "/bookies": False,
    }
    assert [one.node.path for one in answers.reads if one.failure is not None] == ["/bookies"]
    assert [(path, failure is None) for path, failure in answers.writes.items()] == [
        ("/pulsar-readonly/pools/red/brokers", True),
        ("/pulsar-readonly/pools/red/claims", False),
    ]
    assert all(path.startswith("/pulsar-readonly/pools/red/") for path in store.checked)
    assert answers.members == {"pulsar://a:1": "7"}
    assert (store.nodes, store.closed) == (before, True)


async def test_a_store_that_does_not_answer():
    store = MemoryStore({})
    store.slow = 60
    clients = clients_of(store)
    failure = await connect_stores(clients, Deadline(0.4))
    answers = await ask_store(clients, failure, Deadline(0.4))
    await clients.close()
    assert failure.kind is FailureKind.TIMEOUT
    assert (answers.failure, answers.reads) == (failure, ())
    assert store.closed  # a connection that comes later would leave a session


async def test_bookies_are_asked_at_their_registered_addresses():
    async with old_bookie() as (host, port):
        nodes = {
            **NODES,
            "/ledgers/available/old": bookie_node(host, port),
            "/ledgers/available/readonly/away": bookie_node("127.0.0.1", 1),
            "/ledgers/available/named": b"",
            "/ledgers/cookies/old": b"",
            "/ledgers/cookies/gone": b"",
        }
        store = MemoryStore(nodes)
        clients = clients_of(store)
        found = await ask_bookies(clients, Deadline(10))
        store.denied = {"/ledgers/cookies"}
        without = await ask_bookies(clients, Deadline(10))
        store.denied = {"/ledgers/available"}
        denied = await ask_bookies(clients, Deadline(10))
        await clients.close()
        clients.bookies = None
        unusable = await ask_bookies(clients, Deadline(10))
    old = {one.bookie_id: one for one in found.answers}
    assert (old["old"].failure, old["old"].batch_reads, old["old"].address) == (None, False, f"127.0.0.1:{port}")
    assert (old["away"].read_only, old["away"].failure.kind) == (True, FailureKind.REFUSED)
    assert "not HOST:PORT" in old["named"].failure.text
    assert (list(found.unregistered), list(without.unregistered)) == (["gone"], [])
    assert denied.failure.kind is FailureKind.RIGHTS
    assert unusable.failure.kind is FailureKind.OTHER


# Topics


async def test_topics_and_namespaces_in_the_store():
    nodes = {
        **NODES,
        f"{LEDGERS}/orders": topic_node(3, 5),
        "/admin/partitioned-topics/public/default/persistent/parts": b'{"partitions": 2}',
        f"{LEDGERS}/parts-partition-1": topic_node(7),
        f"{LEDGERS}/damaged": b"\xff",
    }
    store = MemoryStore(nodes)
    cluster = MemoryStores(store).cluster
    names = [parse_topic_name(name) for name in ("orders", "parts", "none", "damaged", "non-persistent://a/b/c")]
    topics = await find_topics(names, cluster, Deadline(5))
    namespaces = await find_namespaces(["public/default", "a/b"], cluster, Deadline(5))
    store.failure = OSError()
    default, none = namespaces
    (lost,) = await find_namespaces(["a/b"], cluster, Deadline(5))
    orders, parts, missing, damaged, other = (one.answers for one in topics)
    assert (orders.exists, orders.partitions, parts.exists, parts.partitions) == (True, 0, True, 2)
    assert [str(one) for one in topics[1].ledgers] == ["persistent://public/default/parts-partition-1"]
    assert (missing.exists, missing.store_failure, other.persistent) == (False, None, False)
    assert damaged.store_failure.kind is FailureKind.OTHER
    assert (default.answers.exists, default.answers.topics, len(default.ledgers)) == (True, 3, 2)
    assert (none.answers.exists, lost.answers.store_failure is None) == (False, False)


def consumers(*pools):
    return [{"address": "x", "metadata": {"pulsar-readonly.pool": pool} if pool else {}} for pool in pools]


async def test_state_and_policies_of_a_topic():
    stats = {
        "subscriptions": {
            "shared": {"type": "Shared", "consumers": consumers("", "red", "blue")},
            "ours": {"type": "Key_Shared", "consumers": consumers("red")},
            "exclusive": {"type": "Exclusive", "consumers": consumers("")},
            "idle": {"consumers": []},
        }
    }
    path = "persistent/public/default/orders"
    api = AdminApi(
        **{
            f"{path}/internalStats": {},
            f"{path}/stats": stats,
            f"{path}/entryFilters": {"entryFilterNames": "f"},
            f"{path}/replication": ["a", "b"],
        }
    )
    async with clients_of_admin(api) as (clients, _):
        store = MemoryStore({f"{LEDGERS}/orders": topic_node(3)})
        (topic,) = await find_topics([ORDERS], MemoryStores(store).cluster, Deadline(5))
        found = await ask_about_topic(topic, clients.admin, "red", Deadline(5))
        api.answers |= {f"{path}/internalStats": 401, f"{path}/entryFilters": 403}
        refused = await ask_about_topic(topic, clients.admin, "red", Deadline(5))
    assert found.direct == {"shared": 2}
    assert (found.policies.entry_filters, found.policies.clusters, found.policies.problem) == ("f", ["a", "b"], "")
    assert (refused.state_failure.kind, refused.direct) == (FailureKind.RIGHTS, {})
    assert refused.policies.problem


async def test_one_offloaded_ledger_of_each_store_is_opened():
    info = ManagedLedgerInfo()
    for ledger_id, deleted in ((1, False), (2, True), (3, True)):
        context = info.ledger_info.add(ledger_id=ledger_id).offload_context
        context.complete, context.bookkeeper_deleted = True, deleted
        context.driver_metadata.name = "aws-s3"
        context.driver_metadata.properties.add(key="bucket", value="b")
        context.driver_metadata.properties.add(key="serviceEndpoint", value="http://127.0.0.1:1")
    info.ledger_info.add(ledger_id=4)
    info.ledger_info.add(ledger_id=5).offload_context.complete = True  # no driver
    first, second = await open_offloaded({ORDERS: info}, TieredStorage(environment={}), Deadline(5))
    assert (first.ledger_id, first.only_copy, first.store) == (2, True, "aws-s3 b http://127.0.0.1:1")
    assert "no credentials" in first.problem
    assert (second.ledger_id, second.store) == (5, "unknown driver")
