"""Who may do what: the same errors through a pool as at the owners, and no message before the owner has said yes.

Every scene runs against the source cluster and against the pool, and what is seen must be the same, word for word.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pulsar
import pytest
from readonly_engine.wire.pulsar_pb2 import (
    BaseCommand,
    CommandGetSchema,
    CommandGetTopicsOfNamespace,
    CommandProducer,
    CommandSubscribe,
)

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.security import Credentials
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.raw_client import ClosedError, RawClient, RefusedError
from tests.support.pulsar.secured import PASSWORDS, REFRESH_S
from tests.support.waiting import wait_until

pytestmark = pytest.mark.own_stack

NAMESPACE = f"public/secured-{uuid.uuid4().hex[:8]}"
"""A new one each time: permissions outlive a run."""
EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture(scope="module")
def stack(secured) -> PulsarCluster:
    return secured[0]


@pytest.fixture(scope="module")
def credentials(secured) -> Credentials:
    return secured[1]


@pytest.fixture(scope="module")
def admin(stack: PulsarCluster) -> PulsarAdmin:
    admin = stack.admin()
    admin.create_namespace(NAMESPACE)
    admin.grant(NAMESPACE, "reader", "consume")
    admin.grant(NAMESPACE, "writer", "produce")
    return admin


@pytest.fixture(scope="module")
def options(credentials: Credentials) -> list[str]:
    return ["--topics", f"persistent://{NAMESPACE}/.*", "--admin-token-file", str(credentials.admin_token_file)]


@pytest.fixture(scope="module")
def pool(stack: PulsarCluster, admin: PulsarAdmin, options: list[str], tmp_path_factory) -> Iterator[Pool]:
    with closing(
        Pool(stack.endpoints, tmp_path_factory.mktemp("pool"), uuid.uuid4().hex, [*options, "--log-level", "debug"])
    ) as pool:
        pool.start(2)
        yield pool


@pytest.fixture
def own_pool(stack: PulsarCluster, options: list[str], tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    """A pool of one broker with options of its own."""
    pools: list[Pool] = []

    def make(*more: str) -> Pool:
        pools.append(Pool(stack.endpoints, tmp_path, uuid.uuid4().hex, [*options, *more]))
        pools[-1].start(1)
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture
def urls(stack: PulsarCluster, pool: Pool) -> dict[str, str]:
    return {"owner": stack.endpoints.writer_url, "pool": pool.brokers[0].url}


@pytest.fixture
def topic(admin: PulsarAdmin) -> str:
    name = f"persistent://{NAMESPACE}/test-{uuid.uuid4().hex[:12]}"
    admin.create_topic(name)
    return name


def publish(stack: PulsarCluster, credentials: Credentials, topic: str, count: int) -> None:
    token = pulsar.AuthenticationToken(credentials.token("admin"))
    client = quiet_client(stack.endpoints.writer_url, authentication=token)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(count):
        producer.send(b"%d" % number)
    client.close()


def same(urls: dict[str, str], scene: Callable[[str], object]) -> object:
    """What a scene gives, errors too, at the owner and through the pool: it must be one and the same."""

    def outcome(url: str) -> object:
        try:
            return scene(url)
        except RefusedError as error:
            return error.args

    at_owner = outcome(urls["owner"])
    assert outcome(urls["pool"]) == at_owner
    return at_owner


def used_by(url: str, topic: str, client: RawClient, method: str, data: bytes) -> RawClient:
    """A connection to the broker that a lookup names."""
    place = client.lookup(topic)
    return RawClient(place, method, data)


# Coming in


def wrong_credentials(credentials: Credentials) -> dict[str, tuple[str, bytes]]:
    return {
        "none": ("", b""),
        "named none": ("none", b""),
        "no token": ("token", b""),
        "no token at all": ("token", b"what?"),
        "expired token": ("token", credentials.token("reader", -10).encode()),
        "forged token": ("token", credentials.token("reader").encode()[:-6] + b"AAAAAA"),
        "wrong password": ("basic", b"reader:let me in"),
        "unknown user": ("basic", b"stranger:open sesame"),
        "no password": ("basic", b"reader"),
        "unknown method": ("athenz", b"x"),
    }


@pytest.mark.parametrize(
    "which",
    ["none", "named none", "no token", "no token at all", "expired token", "forged token", "wrong password", "unknown user",
     "no password", "unknown method"],
)  # fmt: skip
def test_wrong_credentials_are_refused_as_at_the_owner(urls, credentials, which) -> None:
    method, data = wrong_credentials(credentials)[which]

    def scene(url: str) -> None:
        RawClient(url, method, data).close()

    assert same(urls, scene) == ("CONNECT", "AuthenticationError", "Failed to authenticate")


def test_who_must_not_speak_for_others_does_not(urls, credentials, topic) -> None:
    """A role that is not a proxy's: its `original_principal` is replayed, and refused, as at the owner."""
    token = credentials.token("reader").encode()

    def scene(url: str) -> None:
        RawClient(url, "token", token, original_principal="admin").close()

    assert same(urls, scene) in {
        ("CONNECT", "AuthorizationError", "Invalid roles."),
        ("CONNECT", "AuthenticationError", "Failed to authenticate"),  # 5.0
    }


# What a role may do


def requests(topic: str) -> dict[str, BaseCommand]:
    return {
        "SUBSCRIBE": BaseCommand(
            type=BaseCommand.SUBSCRIBE,
            subscribe=CommandSubscribe(topic=topic, subscription="s", consumer_id=1, sub_type=CommandSubscribe.Shared),
        ),
        "PRODUCER": BaseCommand(type=BaseCommand.PRODUCER, producer=CommandProducer(topic=topic, producer_id=1)),
        "GET_SCHEMA": BaseCommand(type=BaseCommand.GET_SCHEMA, get_schema=CommandGetSchema(topic=topic)),
        "GET_TOPICS_OF_NAMESPACE": BaseCommand(
            type=BaseCommand.GET_TOPICS_OF_NAMESPACE,
            get_topics_of_namespace=CommandGetTopicsOfNamespace(namespace=NAMESPACE),
        ),
    }


@pytest.mark.parametrize("what", ["PARTITIONED_METADATA", "LOOKUP"])
def test_a_topic_that_a_role_may_not_use_is_not_even_found(urls, credentials, topic, what) -> None:
    token = credentials.token("nobody").encode()

    def scene(url: str) -> object:
        with RawClient(url, "token", token) as client:
            return client.partitions(topic) if what == "PARTITIONED_METADATA" else client.lookup(topic)

    words = {"PARTITIONED_METADATA": "Get Partition Metadata", "LOOKUP": "Lookup"}[what]
    assert same(urls, scene) == (what, "AuthorizationError", f"Client is not authorized to {words}")


@pytest.mark.parametrize("role", ["reader", "writer"])
@pytest.mark.parametrize("what", ["SUBSCRIBE", "PRODUCER", "GET_SCHEMA", "GET_TOPICS_OF_NAMESPACE"])
def test_what_a_role_may_do(urls, credentials, topic, role, what) -> None:
    token = credentials.token(role).encode()

    def scene(url: str) -> str:
        with RawClient(url, "token", token) as client, used_by(url, topic, client, "token", token) as broker:
            return BaseCommand.Type.Name(broker.request(requests(topic)[what]).type)

    outcome = same(urls, scene)
    if (role, what) == ("reader", "SUBSCRIBE"):
        assert outcome == "SUCCESS"
    elif (role, what) == ("writer", "PRODUCER"):
        assert outcome == "PRODUCER_SUCCESS"
    elif what in {"SUBSCRIBE", "PRODUCER"}:
        assert outcome[1] == "AuthorizationError"
    else:
        assert outcome  # whatever it is, it is the same


def test_a_subscription_that_belongs_to_others(urls, admin, credentials, topic) -> None:
    admin.grant(NAMESPACE, "other", "consume")
    admin.grant_subscription(NAMESPACE, "theirs", "other")

    def scene(url: str, role: str = "reader") -> str:
        token = credentials.token(role).encode()
        with RawClient(url, "token", token) as client, used_by(url, topic, client, "token", token) as broker:
            broker.subscribe(topic, "theirs")
            return "subscribed"

    def in_force() -> bool:
        try:
            scene(urls["owner"])
        except RefusedError:
            return True
        return False

    wait_until(in_force, 60, "the topic's owner has heard of it")
    assert same(urls, scene) == ("SUBSCRIBE", "AuthorizationError", "Client is not authorized to subscribe")
    assert same(urls, lambda url: scene(url, "other")) == "subscribed"


@pytest.mark.parametrize("kind", [0, 1, 2, 3], ids=["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_no_message_is_served_to_who_was_refused(stack, credentials, pool, topic, kind) -> None:
    publish(stack, credentials, topic, 5)
    reader, writer = (credentials.token(role).encode() for role in ("reader", "writer"))
    url = pool.brokers[0].url
    with RawClient(url, "token", reader) as allowed, RawClient(url, "token", writer) as refused:
        for client in (allowed, refused):
            sent = CommandSubscribe(topic=topic, subscription="s", consumer_id=0, request_id=99)
            sent.sub_type = kind
            sent.initial_position = CommandSubscribe.Earliest
            client.send(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=sent))
            client.flow(100)
        error, _ = refused.wait(lambda command: command.type == BaseCommand.ERROR)
        assert error.error.message == "Client is not authorized to subscribe"
        refused.flow(100)
        allowed.wait(lambda command: command.type == BaseCommand.SUCCESS)
        allowed.flow(100)
        assert [allowed.receive()[-1:] for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        assert "MESSAGE" not in refused.seen
        assert refused.partitions(topic) == 0  # a round trip later there is still none
        assert "MESSAGE" not in refused.seen


def test_a_permission_that_is_taken_back(urls, admin, stack, credentials, topic) -> None:
    """The owner closes the consumer, whose client finds out when it comes back."""
    publish(stack, credentials, topic, 3)
    outcomes = []
    for where, url in urls.items():
        role = f"guest-{where}-{uuid.uuid4().hex[:6]}"
        token = credentials.token(role).encode()
        admin.grant_on_topic(topic, role, "consume")
        with RawClient(url, "token", token) as client, used_by(url, topic, client, "token", token) as broker:
            broker.subscribe(topic, where, initial_position=CommandSubscribe.Earliest)
            broker.flow(2)
            assert broker.receive()[-1:] == b"0"
            admin.revoke_on_topic(topic, role)
            closed, _ = broker.wait(lambda command: command.type == BaseCommand.CLOSE_CONSUMER)
            outcome = [closed.close_consumer.consumer_id]
            with pytest.raises(RefusedError) as refused:
                client.lookup(topic)
            outcome.append(refused.value.args[1])
            with pytest.raises(RefusedError) as refused:
                broker.subscribe(topic, where, consumer_id=2)
            outcome.append(refused.value.args[1])
            outcomes.append(outcome)
    assert outcomes == [[0, "AuthorizationError", "AuthorizationError"]] * 2


# Credentials that expire


def reading(client: RawClient, count: int) -> None:
    client.flow(count)
    for _ in range(count):
        client.receive()


def test_a_client_that_renews_its_token_keeps_its_connection(urls, stack, admin, credentials, topic) -> None:
    publish(stack, credentials, topic, 10)
    for url in urls.values():
        with RawClient(url, "token", credentials.token("admin").encode()) as guide:
            place = guide.lookup(topic)
        with RawClient(place, "token", credentials.token("reader", 2).encode()) as client:
            client.subscribe(topic, uuid.uuid4().hex, initial_position=CommandSubscribe.Earliest)
            reading(client, 2)
            challenge = client.answer_challenge("token", credentials.token("reader").encode())
            assert (challenge.auth_method_name, challenge.auth_data) == ("token", b"PulsarAuthRefresh")
            with pytest.raises(TimeoutError):
                client.wait(lambda command: command.type == BaseCommand.AUTH_CHALLENGE, 3 * REFRESH_S)
            reading(client, 8)


def test_the_stock_client_renews_its_token(pool, stack, credentials, topic) -> None:
    asked: list[float] = []

    def supply() -> str:
        asked.append(time.monotonic())
        return credentials.token("reader", 4)

    client = quiet_client(pool.url, authentication=pulsar.AuthenticationToken(supply))
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    connections = len(asked)
    wait_until(lambda: len(asked) >= connections + 2, 60, "the token is renewed twice")
    publish(stack, credentials, topic, 3)
    for number in range(3):
        message = consumer.receive(30_000)
        assert message.data() == b"%d" % number
        consumer.acknowledge(message)
    client.close()


@pytest.mark.parametrize("how", ["token", "basic"])
def test_the_stock_client_reads_and_acks(pool, stack, admin, credentials, topic, how) -> None:
    publish(stack, credentials, topic, 20)
    if how == "token":
        authentication = pulsar.AuthenticationToken(credentials.token("reader"))
    else:
        authentication = pulsar.AuthenticationBasic("reader", PASSWORDS["reader"])
    client = quiet_client(pool.url, authentication=authentication)
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, initial_position=EARLIEST)
    for number in range(20):
        message = consumer.receive(30_000)
        assert message.data() == b"%d" % number
        consumer.acknowledge(message)
    wait_until(lambda: admin.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0, 60, "the owner has the acks")
    assert sum(broker.dispatched(topic) for broker in pool.brokers) == 20, "the pool served it"
    client.close()


@pytest.mark.nightly
def test_two_brokers_of_a_pool_share_a_subscription_in_the_clients_name(pool, stack, credentials, topic) -> None:
    """One serves it, the other brings its consumer there, and what expires is renewed through both."""
    tokens = [credentials.token("reader", seconds).encode() for seconds in (2, 3)]
    with (
        RawClient(pool.brokers[0].url, "token", tokens[0]) as one,
        RawClient(pool.brokers[1].url, "token", tokens[1]) as two,
    ):
        for client in (one, two):
            client.subscribe(topic, "s", sub_type=CommandSubscribe.Shared)
        for client in (one, two):
            client.answer_challenge("token", credentials.token("reader").encode())
        for client in (one, two):
            with pytest.raises(TimeoutError):
                client.wait(lambda command: command.type == BaseCommand.AUTH_CHALLENGE, 2 * REFRESH_S)
            client.flow(30)
        publish(stack, credentials, topic, 60)
        wait_until(
            lambda: [client.pending("MESSAGE") for client in (one, two)] == [30, 30], 60, "all messages have come"
        )


@pytest.mark.nightly
def test_the_pools_own_role_must_be_able_to_consume_and_no_more(own_pool, stack, credentials, topic, tmp_path) -> None:
    publish(stack, credentials, topic, 3)
    file = tmp_path / "token"
    file.write_text(credentials.token("reader"))
    with RawClient(
        own_pool("--admin-token-file", str(file)).url, "token", credentials.token("reader").encode()
    ) as client:
        client.subscribe(topic, "s", initial_position=CommandSubscribe.Earliest)
        reading(client, 3)


# Secrets


def test_secrets_reach_no_log_and_no_page(pool, credentials, topic) -> None:
    token, password = credentials.token("reader"), PASSWORDS["reader"]
    for method, data in (("token", token.encode()), ("basic", f"reader:{password}".encode())):
        with RawClient(pool.brokers[0].url, method, data) as client:
            client.partitions(topic)
            client.subscribe(topic, uuid.uuid4().hex)
    with suppress(RefusedError, ClosedError):
        RawClient(pool.brokers[0].url, "token", token.encode()[:-4] + b"XXXX")
    for broker in pool.brokers:
        told = [broker.log.read_text(), *(broker.get(path) for path in ("/stats", "/metrics", "/bindings"))]
        told.append(Path(f"/proc/{broker.process.pid}/cmdline").read_text())
        told.append(Path(f"/proc/{broker.process.pid}/environ").read_text())
        signature = token.rpartition(".")[2]
        admin_token = credentials.admin_token_file.read_text()
        for secret in (signature[:-4], password, admin_token, admin_token.rpartition(".")[2]):
            assert not any(secret in text for text in told)
