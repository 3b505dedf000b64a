"""TLS: towards clients, with certificates that change while brokers run; towards the owners, the admin API, and several hosts."""

import shutil
import ssl
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

from devstack.common.ports import free_port
from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.security import ADMIN_ROLE, Credentials, https_url, tls_url
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.raw_client import RawClient, RefusedError
from tests.support.waiting import wait_until

pytestmark = pytest.mark.own_stack

EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture(scope="module")
def stack(secured) -> PulsarCluster:
    return secured[0]


@pytest.fixture(scope="module")
def credentials(secured) -> Credentials:
    return secured[1]


@pytest.fixture
def topic(stack: PulsarCluster, credentials: Credentials) -> str:
    """A topic with ten messages."""
    name = f"persistent://public/default/test-{uuid.uuid4().hex[:12]}"
    client = connect(stack.endpoints.writer_url, credentials)
    producer = client.create_producer(name, batching_enabled=False)
    for number in range(10):
        producer.send(b"%d" % number)
    client.close()
    return name


@pytest.fixture
def own_pool(stack: PulsarCluster, credentials: Credentials, tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    """A pool of one broker that serves every topic of the `topic` fixture, with options of its own."""
    pools: list[Pool] = []

    def make(*options: str) -> Pool:
        every = ["--topics", "persistent://public/default/test-.*", "--log-level", "debug"]
        token = ["--admin-token-file", str(credentials.admin_token_file)]
        pools.append(Pool(stack.endpoints, tmp_path, uuid.uuid4().hex, [*every, *token, *options]))
        pools[-1].start(1)
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture
def listening(credentials: Credentials, tmp_path: Path) -> list[str]:
    """Options of a broker that listens with TLS, with a certificate in files that a test may change."""
    credentials.certificate("pool", tmp_path)
    files = ["--tls-certificate", str(tmp_path / "pool.pem"), "--tls-key", str(tmp_path / "pool.key")]
    return ["--tls-listen", f"127.0.0.1:{free_port()}", *files]


def tls_of(options: list[str]) -> str:
    return f"pulsar+ssl://{options[options.index('--tls-listen') + 1]}"


def connect(url: str, credentials: Credentials, seconds: int = 30, **options: str) -> pulsar.Client:
    token = pulsar.AuthenticationToken(credentials.token(ADMIN_ROLE))
    if url.startswith("pulsar+ssl"):
        options = {"tls_trust_certs_file_path": str(credentials.authority), "tls_validate_hostname": True, **options}
    return quiet_client(url, authentication=token, operation_timeout_seconds=seconds, **options)


def read_all(client: pulsar.Client, topic: str, pool: Pool) -> list[int]:
    """The ten messages of a topic, acked; the pool must have served them."""
    consumer = client.subscribe(topic, uuid.uuid4().hex, initial_position=EARLIEST)
    got = []
    for _ in range(10):
        message = consumer.receive(30_000)
        got.append(int(message.data()))
        consumer.acknowledge(message)
    assert sum(broker.dispatched(topic) for broker in pool.brokers) >= 10
    consumer.close()
    return got


def serial_number(url: str, credentials: Credentials) -> str:
    host, _, port = url.rpartition("//")[2].rpartition(":")
    shown = ssl.get_server_certificate((host, int(port)), ca_certs=str(credentials.authority), timeout=10)
    done = subprocess.run(
        ["openssl", "x509", "-noout", "-serial"], input=shown, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_client_reads_and_publishes_with_tls(own_pool, listening, credentials, topic) -> None:
    """The lookup sends it to the broker's TLS address: it speaks nothing else."""
    pool = own_pool(*listening)
    client = connect(tls_of(listening), credentials)
    assert read_all(client, topic, pool) == list(range(10))
    client.create_producer(topic).send(b"more")
    client.close()


def test_a_certificate_is_renewed_without_a_restart(own_pool, listening, credentials, topic, tmp_path: Path) -> None:
    pool = own_pool(*listening)
    url = tls_of(listening)
    client = connect(url, credentials)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert consumer.receive(30_000).data() == b"0"
    old = serial_number(url, credentials)
    credentials.certificate("renewed", tmp_path)
    for kind in ("key", "pem"):  # a moment long they do not go together
        shutil.move(tmp_path / f"renewed.{kind}", tmp_path / f"pool.{kind}")
    wait_until(lambda: serial_number(url, credentials) != old, 60, "the new certificate is shown")
    assert [int(consumer.receive(30_000).data()) for _ in range(9)] == list(range(1, 10))
    again = connect(url, credentials)
    assert read_all(again, topic, pool) == list(range(10))
    assert pool.brokers[0].process.poll() is None
    for one in (client, again):
        one.close()


def encrypted(stack: PulsarCluster, credentials: Credentials) -> list[str]:
    """Options of a broker that speaks TLS with the source cluster."""
    urls = ["--service-url", tls_url(stack.spec, 0), "--admin-url", https_url(stack.spec, 0)]
    return [*urls, "--broker-tls-trust-certificates", str(credentials.authority)]


@pytest.mark.nightly
def test_the_writable_cluster_is_spoken_to_with_tls(own_pool, stack, credentials, topic) -> None:
    """Both brokers of the cluster: the owners that its lookups name are connected to with TLS too."""
    pool = own_pool(*encrypted(stack, credentials))
    client = connect(pool.url, credentials)
    assert read_all(client, topic, pool) == list(range(10))
    client.create_producer(topic).send(b"more")
    told = pool.brokers[0].log.read_text()
    assert "did not answer" not in told
    connected = {
        line.split()[4]
        for line in subprocess.run(["ss", "-tnpH"], capture_output=True, text=True, check=True).stdout.splitlines()
        if f"pid={pool.brokers[0].process.pid}," in line
    }
    plain = {f"127.0.0.1:{stack.spec.broker_port(index)}" for index in range(stack.spec.brokers)}
    assert not connected & plain
    assert f"127.0.0.1:{tls_url(stack.spec, 0).rpartition(':')[2]}" in connected
    client.close()


def test_a_writable_cluster_of_another_authority_is_not_trusted(own_pool, stack, credentials, tmp_path) -> None:
    stranger = type(credentials).make(tmp_path / "stranger")
    options = encrypted(stack, credentials)
    options[-1] = str(stranger.authority)
    with pytest.raises(RefusedError, match=r"CONNECT.*ServiceNotReady.*certificate verify failed"):
        RawClient(own_pool(*options).url, "token", credentials.token(ADMIN_ROLE).encode())


@pytest.mark.nightly
def test_a_host_that_the_certificate_does_not_name(own_pool, stack, credentials, topic) -> None:
    """The brokers' certificates name 127.0.0.1 and not localhost."""
    options = encrypted(stack, credentials)
    options[1] = options[1].replace("127.0.0.1", "localhost")
    with pytest.raises(RefusedError, match=r"CONNECT.*ServiceNotReady.*Hostname mismatch"):
        RawClient(own_pool(*options).url, "token", credentials.token(ADMIN_ROLE).encode())
    pool = own_pool(*options, "--broker-tls-hostname-verification", "false")
    client = connect(pool.url, credentials)
    assert read_all(client, topic, pool) == list(range(10))
    client.close()


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "of another authority"])
def test_bookies_are_spoken_to_with_tls(own_pool, credentials, topic, tmp_path: Path, trusted) -> None:
    """Only who shows a certificate is let in; and only a bookie of the right authority is read from."""
    authority = credentials.authority if trusted else type(credentials).make(tmp_path / "stranger").authority
    certificate, key = credentials.certificate("reader")
    shown = ["--bookie-tls-certificate", str(certificate), "--bookie-tls-key", str(key)]
    pool = own_pool("--bookie-tls-trust-certificates", str(authority), *shown)
    client = connect(pool.url, credentials)
    if trusted:
        assert read_all(client, topic, pool) == list(range(10))
    else:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        wait_until(
            lambda: "certificate verify failed" in pool.brokers[0].log.read_text(), 60, "the bookie is not trusted"
        )
        with pytest.raises(pulsar.Timeout):
            reader.read_next(1000)
    client.close()


@pytest.mark.nightly
def test_without_its_token_the_admin_api_says_what_is_missing(own_pool, credentials, topic, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(credentials.token("nobody"))
    pool = own_pool("--admin-token-file", str(file))
    with (
        RawClient(pool.url, "token", credentials.token(ADMIN_ROLE).encode()) as client,
        pytest.raises(RefusedError, match=r"SUBSCRIBE.*the role of admin-token-file is not permitted to"),
    ):
        client.subscribe(topic, "s", initial_position=CommandSubscribe.Earliest)
    file.write_text(credentials.token(ADMIN_ROLE))
    client = connect(pool.url, credentials)
    assert read_all(client, topic, pool) == list(range(10)), "the new token is read without a restart"
    client.close()
