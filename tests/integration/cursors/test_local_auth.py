"""Who may consume local subscriptions: the owner says so before a byte is served, and is asked again."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import closing

import pulsar
import pytest
from readonly_engine.broker.cursors import owner_access
from readonly_engine.broker.cursors.owner_access import ACCESS_PREFIX, OwnerAccess
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe, ServerError

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.security import Credentials
from tests.support.pulsar.fleet import quiet_client
from tests.support.waiting import until

pytestmark = pytest.mark.own_stack

NAMESPACE = f"public/local-{uuid.uuid4().hex[:8]}"
EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture(scope="module")
def stack(secured: tuple[PulsarCluster, Credentials]) -> PulsarCluster:
    return secured[0]


@pytest.fixture(scope="module")
def credentials(secured: tuple[PulsarCluster, Credentials]) -> Credentials:
    return secured[1]


@pytest.fixture(scope="module")
def admin(stack: PulsarCluster) -> PulsarAdmin:
    admin = stack.admin()
    admin.create_namespace(NAMESPACE)
    return admin


@pytest.fixture
def topic(admin: PulsarAdmin) -> str:
    name = f"persistent://{NAMESPACE}/test-{uuid.uuid4().hex[:12]}"
    admin.create_topic(name)
    admin.grant_on_topic(name, "reader", "consume")
    admin.grant_on_topic(name, "writer", "produce")
    return name


@pytest.fixture(scope="module")
def pool(
    stack: PulsarCluster, credentials: Credentials, admin: PulsarAdmin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pool]:
    options = ["--topics", f"persistent://{NAMESPACE}/.*", "--admin-token-file", str(credentials.admin_token_file)]
    options += ["--cursors", "local", "--cursor-partitions", "2"]
    with closing(Pool(stack.endpoints, tmp_path_factory.mktemp("pool"), uuid.uuid4().hex, options)) as pool:
        pool.start(2)
        yield pool


def client_of(url: str, credentials: Credentials, role: str) -> pulsar.Client:
    return quiet_client(url, authentication=pulsar.AuthenticationToken(credentials.token(role)))


def test_consumers_need_the_owners_permission(
    pool: Pool, stack: PulsarCluster, credentials: Credentials, admin: PulsarAdmin, topic: str
) -> None:
    writer = client_of(stack.endpoints.writer_url, credentials, "writer")
    writer.create_producer(topic).send(b"secret")
    writer.close()
    for role in ("reader", "writer", "reader"):
        client = client_of(pool.url, credentials, role)
        if role == "reader":
            consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
            assert consumer.receive(20_000).data() == b"secret"
        else:
            with pytest.raises(pulsar.PulsarException, match="AuthorizationError"):
                client.subscribe(topic, "s")
            with pytest.raises(pulsar.PulsarException, match="AuthorizationError"):
                client.subscribe(topic, "mine")
        client.close()
    assert not [name for name in admin.subscriptions(topic) if not name.startswith("pulsar-readonly-")]


class Client:
    """A consumer, which may be ended."""

    def __init__(self, topic: str, identity: Identity) -> None:
        self.topic = parse_topic_name(topic)
        self.identity = identity
        self.subscribe_command = CommandSubscribe(
            topic=topic,
            subscription="s",
            durable=True,
            sub_type=CommandSubscribe.Exclusive,
            consumer_id=1,
            request_id=1,
        )
        self.ended = ""

    def end(self, reason: str) -> None:
        self.ended = reason


@pytest.mark.parametrize("authorizes", [True, None])
async def test_a_revoked_consumer_is_ended(
    stack: PulsarCluster,
    credentials: Credentials,
    admin: PulsarAdmin,
    topic: str,
    authorizes: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner_access, "AUTHORIZED_S", 1.0)
    monkeypatch.setattr(owner_access, "CHECK_INTERVAL_S", 0.1)

    async def asked() -> bool | None:
        return authorizes

    owners = OwnerDirectory(stack.endpoints.writer_url)
    access = OwnerAccess(owners, asked, ACCESS_PREFIX)
    admin.grant_on_topic(topic, "other", "consume")
    clients = [Client(topic, Identity("token", credentials.token(role).encode())) for role in ("reader", "other")]
    for client in clients:
        assert await access.subscribe(client, new=True) is not None
        access.add(client)
    await asyncio.to_thread(admin.revoke_on_topic, topic, "reader")
    await until(lambda: clients[0].ended, 30)
    assert "not authorized" in clients[0].ended.lower()
    assert clients[1].ended == ""
    with pytest.raises(OwnerRefusedError) as refused:
        await access.subscribe(clients[0], new=False)
    assert refused.value.code == ServerError.AuthorizationError
    access.close()
    owners.close()
