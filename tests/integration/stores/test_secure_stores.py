"""ZooKeeper with TLS, SASL and rights, and bookies with TLS and SASL; a wrong file, login or right is one clear error."""

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pulsar
import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.metadata.errors import AccessDeniedError
from readonly_engine.metadata.security import LoginScheme, StoreSecurity
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.metadata.zookeeper import ZooKeeperStore
from readonly_engine.net.tls import TlsFiles

from devstack.common.ports import free_port
from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.secure_stores import READER, SERVERS, StoreSecrets
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.secure_stores import OWN_ROOT, login_stack, restrict, restricted_stack, rights, session
from tests.support.pulsar.spark_driver import Driver
from tests.support.waiting import until, wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

TESTS = "persistent://public/default/test-.*"


@pytest.fixture(scope="module")
def secure() -> Iterator[tuple[PulsarCluster, StoreSecrets]]:
    with restricted_stack() as found:
        yield found


@pytest.fixture
def stack(secure) -> PulsarCluster:
    return secure[0]


@pytest.fixture
def secrets(secure) -> StoreSecrets:
    return secure[1]


@pytest.fixture
def own_pool(stack: PulsarCluster, tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    pools = []

    def make(*options: str) -> Pool:
        pools.append(
            Pool(stack.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", TESTS, "--log-level", "debug", *options])
        )
        pools[-1].start(2)
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture
def owner(stack: PulsarCluster) -> Iterator[pulsar.Client]:
    with closing(quiet_client(stack.endpoints.writer_url, operation_timeout_seconds=90)) as client:
        yield client


def publish(owner: pulsar.Client, topic: str, first: int, count: int) -> None:
    producer = owner.create_producer(topic, batching_enabled=False)
    for number in range(first, first + count):
        producer.send(b"%d" % number)
    producer.close()


def receive(consumer: pulsar.Consumer, count: int) -> list[int]:
    got = []
    for _ in range(count):
        message = consumer.receive(60_000)
        got.append(int(message.data()))
        consumer.acknowledge(message)
    return sorted(got)


def claims(stack: PulsarCluster, pool: Pool) -> list[str]:
    with session(stack, READER) as client:
        folder = f"{OWN_ROOT}/pools/{pool.name}/claims"
        return [f"{folder}/{name}" for name in client.get_children(folder)] if client.exists(folder) else []


def test_a_pool_reads_and_claims_with_the_least_rights(own_pool, stack, secrets, owner, topic) -> None:
    """Topics from before and after, subscriptions of two types, and the nodes belong to the pool's login alone."""
    publish(owner, topic, 0, 20)
    with session(stack, SERVERS) as client:
        restrict(client)
    pool = own_pool()
    assert [broker.process.poll() for broker in pool.brokers] == [None, None]
    client = quiet_client(pool.url, operation_timeout_seconds=90)
    earliest = pulsar.InitialPosition.Earliest
    for kind in (pulsar.ConsumerType.Shared, pulsar.ConsumerType.Exclusive):
        consumer = client.subscribe(topic, f"s-{kind.name}", consumer_type=kind, initial_position=earliest)
        assert receive(consumer, 20) == list(range(20))
    later = f"{topic}-later"
    consumer = client.subscribe(later, "s", initial_position=earliest)
    publish(owner, later, 0, 20)
    assert receive(consumer, 20) == list(range(20))
    assert sum(broker.dispatched(topic) for broker in pool.brokers) == 40
    (claim,) = wait_until(lambda: claims(stack, pool), what="the claim of the Shared subscription")
    with session(stack, READER) as reader:
        acls, _ = reader.get_acls(claim)
        assert [(acl.id.scheme, acl.id.id, acl.perms) for acl in acls] == [("sasl", READER, 31)]
        for forbidden in ("/x", f"{parse_topic_name(topic).managed_ledger_path}/x", "/admin/x"):
            with pytest.raises(NoAuthError):
                reader.create(forbidden)
        with pytest.raises(NoAuthError):
            reader.set(parse_topic_name(topic).managed_ledger_path, b"")
    with session(stack) as anyone, pytest.raises(NoAuthError):
        anyone.get(claim)
    client.close()
    text = "".join(broker.log.read_text() for broker in pool.brokers)
    assert "refuses" not in text
    assert secrets.password(READER) not in text
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert secrets.password(READER) not in listed
    assert secrets.password(SERVERS) not in listed


def test_rights_are_withdrawn_from_a_running_broker(own_pool, stack, owner, topic) -> None:
    """It serves on, and its log and its metrics have the node and the right."""
    publish(owner, topic, 0, 5)
    path = parse_topic_name(topic).managed_ledger_path
    pool = own_pool()
    client = quiet_client(pool.url, operation_timeout_seconds=90)
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert receive(consumer, 5) == list(range(5))
    with session(stack, SERVERS) as servers:
        servers.set_acls(path, rights(""))
        stack.admin().create_subscription(topic, "another")
        publish(owner, topic, 5, 5)
        assert receive(consumer, 5) == list(range(5, 10))
        stack.admin().unload(topic)  # the owner writes a new list of ledgers
        publish(owner, topic, 10, 1)
        text = f"user {READER}: the right read on {path} is missing"
        broker = next(broker for broker in pool.brokers if broker.dispatched(topic))
        wait_until(lambda: text in broker.log.read_text(), 60, "the log has the missing right")
        lines = [line for line in broker.log.read_text().splitlines() if "refuses a request" in line and text in line]
        assert len(lines) == 1
        assert "pulsar_readonly_metadata_store_denials_total 0.0" not in broker.get("/metrics")
        assert broker.get("/readyz") == "ok\n"
        servers.set_acls(path, rights("r"))
        assert receive(consumer, 1) == [10]
    client.close()


def test_the_topic_tool(stack, secrets, owner, topic) -> None:
    publish(owner, topic, 0, 5)
    command = [sys.executable, "-m", "readonly_engine.command", "topic", "read", topic, "-o", "raw", "--count", "4"]
    options = ["--metadata-store-url", stack.endpoints.pool_store, *secrets.options()]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.stdout) == ("", "0123")


def spark_options(stack: PulsarCluster, secrets: StoreSecrets) -> dict[str, str]:
    """Return the options by which Spark connects to ZooKeeper."""
    return {
        "metadataStoreUrl": stack.endpoints.pool_store,
        "metadataStoreTls.trustCertificates": str(secrets.authority),
        "metadataStoreTls.certificate": str(secrets.certificate(READER)),
        "metadataStoreTls.key": str(secrets.key(READER)),
        "metadataStoreLoginFile": str(secrets.login_file(READER)),
    }


def test_the_spark_source(stack, secrets, owner, topic) -> None:
    publish(owner, topic, 0, 5)
    options = spark_options(stack, secrets)
    tls = {
        name.replace("metadataStore", "bookie"): path
        for name, path in options.items()
        if name.startswith("metadataStoreTls.")
    }
    with closing(Driver(stack, topic, **options, **tls)) as driver:
        driver.await_values([str(number) for number in range(5)])


# Refusals


def refusals(stack: PulsarCluster, secrets: StoreSecrets, folder: Path) -> dict[str, tuple[Any, ...]]:
    """The address of the store, options that differ from the right ones, or are left out (None), and parts of the error."""
    store, port = stack.endpoints.pool_store, stack.spec.secure_port
    tls = "--metadata-store-tls-"
    stranger = type(secrets).make(folder / "stranger")
    certificate, key = stranger.certificate(READER), stranger.key(READER)
    login, closed = folder / "login", f"/closed-{uuid.uuid4().hex}"
    login.write_text(f"{READER}:wrong-word")
    with session(stack, SERVERS) as client:
        client.create(closed, acl=rights("r"))
        client.create(f"{closed}{OWN_ROOT}", acl=rights("r"))
    return {
        "an authority that is not trusted": (
            store, {f"{tls}trust-certificates": stranger.authority},
            f"--metadata-store-url: ZooKeeper at 127.0.0.1:{port} cannot be used: the certificate of",
            "; its authority must be in metadata-store-tls-trust-certificates",
        ),
        "a certificate of another authority": (
            store, {f"{tls}certificate": certificate, f"{tls}key": key},
            f"refuses the client certificate {certificate} (", "metadata-store-tls-certificate must be valid",
        ),
        "no client certificate": (
            store, {f"{tls}certificate": None, f"{tls}key": None},
            "without a client certificate (", "give metadata-store-tls-certificate and metadata-store-tls-key",
        ),
        # Another form of the same address, which the certificate does not name.
        "a server of another name": (
            f"zk:127.1:{port}", {},
            "does not name this host; connect by a host that it names, or set metadata-store-tls-hostname-verification to false",
        ),
        "TLS to a port without it": (
            f"zk:127.0.0.1:{stack.spec.zookeeper_port}", {},
            "closes the connection at the TLS handshake; the port must be ZooKeeper's secureClientPort",
        ),
        "no TLS to a port with it": (
            store, dict.fromkeys(secrets.options()[::2]),
            "it has no quorum, or the port is for TLS, which needs metadata-store-tls-trust-certificates",
        ),
        "a wrong password": (
            store, {"--metadata-store-login-file": login}, "cannot be used: ",
            f"refuses the login of metadata-store-login-file {login}; its user and password must be in",
        ),
        "no login": (
            store, {"--metadata-store-login-file": None},
            "refuses a client without a login: the right read on /pulsar-readonly",
            "give metadata-store-login-file, or grant it to everyone with setAcl",
        ),
        "a root that may not be written": (
            f"{store}{closed}", {},
            f"refuses user {READER}: the right create on {OWN_ROOT} is missing; grant it to that user with setAcl",
        ),
        "a chroot that does not exist": (f"{store}/nowhere", {}, "the chroot /nowhere does not exist"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "what",
    ["an authority that is not trusted", "a certificate of another authority", "no client certificate",
     "a server of another name", "TLS to a port without it", "no TLS to a port with it", "a wrong password", "no login",
     "a root that may not be written", "a chroot that does not exist"],
)  # fmt: skip
def test_a_broker_says_what_is_wrong_and_does_not_come_up(stack, secrets, tmp_path: Path, what: str) -> None:
    url, changed, *parts = refusals(stack, secrets, tmp_path)[what]
    words = iter(secrets.options())
    right = {name: value for name, value in zip(words, words, strict=True) if name.startswith("--metadata")}
    options = {name: value for name, value in {**right, **changed}.items() if value is not None}
    command = [sys.executable, "-m", "readonly_engine.command", "serve", "--metadata-store-url", url]
    command += [str(word) for pair in options.items() for word in pair]
    ends = stack.endpoints
    command += ["--service-url", ends.writer_url, "--admin-url", ends.admin_url, "--topics", TESTS]
    command += ["--listen", f"127.0.0.1:{free_port()}", "--http", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 1, done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("pulsar-readonly serve: ")]
    assert [part for part in parts if part not in error] == []
    assert "Traceback" not in done.stderr
    assert "wrong-word" not in error


# The store alone


def with_store(hosts: str, security: StoreSecurity, use) -> object:
    async def run() -> object:
        store = ZooKeeperStore(hosts, security)
        await store.start()
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(run())


def tls_of(secrets: StoreSecrets) -> TlsFiles:
    return TlsFiles("metadata-store-tls", secrets.authority, secrets.certificate(READER), secrets.key(READER))


def test_a_chroot(stack, secrets) -> None:
    folder = f"/chroot-{uuid.uuid4().hex}"
    with session(stack, SERVERS) as client:
        client.create(folder, acl=rights("crwda"))

    async def use(store: ZooKeeperStore) -> object:
        await store.put(f"{OWN_ROOT}/a", b"1")
        return await store.get(f"{OWN_ROOT}/a")

    hosts = f"127.0.0.1:{stack.spec.secure_port}{folder}"
    found = with_store(hosts, StoreSecurity(tls_of(secrets), secrets.login_file(READER)), use)
    assert found.value == b"1"
    with session(stack, READER) as client:
        assert client.get(f"{folder}{OWN_ROOT}/a")[0] == b"1"


def test_the_scheme_digest(stack, secrets, tmp_path) -> None:
    """Its user has the rights of a node that names a digest of its password; another password has none."""
    login = tmp_path / "login"
    login.write_text("somebody:a:word")
    folder = f"/digest-{uuid.uuid4().hex}"
    with session(stack, SERVERS) as client:
        client.create(folder, b"v", acl=[make_digest_acl("somebody", "a:word", all=True)])

    async def use(store: ZooKeeperStore) -> object:
        return await store.get(folder)

    hosts = f"127.0.0.1:{stack.spec.secure_port}"
    security = StoreSecurity(tls_of(secrets), login, LoginScheme.DIGEST)
    assert with_store(hosts, security, use).value == b"v"
    login.write_text("somebody:another")
    with pytest.raises(AccessDeniedError, match=f"user somebody: the right read on {folder} is missing"):
        with_store(hosts, security, use)


def test_a_new_password_is_used_at_the_next_connection(stack, secrets, tmp_path, caplog) -> None:
    """A wrong password in a running process is logged once; the process connects when the file is right again."""
    login, right = tmp_path / "login", secrets.login_file(READER).read_text()
    login.write_text(right)

    async def use(store: ZooKeeperStore) -> None:
        login.write_text(f"{READER}:wrong")
        store._connection.drop()
        async with asyncio.timeout(60):
            await until(lambda: store.denied)
            assert not store.connected
            login.write_text(right)
            await until(lambda: store.connected)
        assert await store.get("/ledgers") is not None

    with_store(f"127.0.0.1:{stack.spec.secure_port}", StoreSecurity(tls_of(secrets), login), use)
    refused = [record for record in caplog.records if "refuses the connection" in record.getMessage()]
    assert len(refused) == 1
    assert "wrong" not in refused[0].getMessage()


# Bookies


def test_logins_at_bookies(secrets, tmp_path) -> None:
    """With a wrong password the log names the option; reads succeed as soon as the file is right."""
    stack = login_stack()
    stack.up(renew=True)
    login = tmp_path / "login"
    login.write_text(f"{READER}:wrong-word")
    topic = "persistent://public/default/test-login"
    ends = stack.endpoints
    pool = Pool(ends, tmp_path, uuid.uuid4().hex, ["--topics", TESTS, "--bookie-login-file", str(login)])
    owner = quiet_client(ends.writer_url, operation_timeout_seconds=90)
    client = None
    try:
        publish(owner, topic, 0, 5)
        pool.start()
        client = quiet_client(pool.url, operation_timeout_seconds=90)
        consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        text = f"it does not answer the login of bookie-login-file as {READER}; are user and password right?"
        wait_until(lambda: text in pool.brokers[0].log.read_text(), 60, "the log has the refusal")
        login.write_text(secrets.login_file(READER).read_text())
        assert receive(consumer, 5) == list(range(5))
        assert "wrong-word" not in pool.brokers[0].log.read_text()
        driver = Driver(stack, topic, **spark_options(stack, secrets), bookieLoginFile=str(secrets.login_file(READER)))
        driver.await_values([str(number) for number in range(5)])
        driver.close()
        login.write_text(f"{READER}:wrong-word")
        driver = Driver(stack, topic, **spark_options(stack, secrets), bookieLoginFile=str(login))
        with pytest.raises(BookKeeperError, match="login of bookieLoginFile") as caught:
            driver.values()
        assert caught.value.refused, "it is not asked again"
        driver.close()
    finally:
        for one in (client, owner):
            if one is not None:
                one.close()
        pool.close()
        stack.down()
