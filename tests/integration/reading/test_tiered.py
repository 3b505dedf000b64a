"""Ledgers that a real broker offloaded, to a real object store and to a file system, and then deleted from the bookies."""

import asyncio
import os
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import pulsar as pulsar_lib
import pytest
from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.config.tiered import TieredConfig
from readonly_engine.metadata.cluster import ClusterMetadata
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.topic.cache import EntryCache
from readonly_engine.topic.log import TopicLog
from readonly_engine.topic.position import Position
from readonly_engine.topic.reading import TopicReader

from devstack.objectstore.server import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore
from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution, ensure_offloaders
from devstack.pulsar.spec import DEFAULT_VERSION, PulsarSpec, Setting
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.metadata import opened_store

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

BASE_PORT: Final = 29650
STORE_PORT: Final = 29701
BUCKET: Final = "offloaded"
LEDGER_ENTRIES: Final = 100
BLOCK_BYTES: Final = 5 << 20
CREDENTIALS: Final = {"ACCESS_KEY_ID": ACCESS_KEY, "ACCESS_KEY_SECRET": SECRET_KEY}
DEADLINE_S: Final = 60
DRIVERS: Final = ["S3", "filesystem"]


def _kept() -> bool:
    return os.environ.get("CI") != "true" and os.environ.get("KEEP_PULSAR", "1") != "0"


@pytest.fixture(scope="module")
def object_store() -> Iterator[ObjectStore]:
    """MinIO. Without Go it cannot be built, and what needs it fails and says so."""
    store = ObjectStore("tiered", STORE_PORT)
    store.up(BUCKET)
    yield store
    if not _kept():
        store.down()


@pytest.fixture(scope="module")
def stack(object_store: ObjectStore) -> Iterator[PulsarCluster]:
    """A small Pulsar with the stock offloaders; namespaces choose their driver."""
    settings = {
        "managedLedgerMaxEntriesPerLedger": str(LEDGER_ENTRIES),
        "defaultRetentionTimeInMinutes": "60",
        "defaultRetentionSizeInMB": "1024",
    }
    stack = PulsarCluster(
        PulsarSpec(
            name="tiered",
            base_port=BASE_PORT,
            bookies=1,
            brokers=1,
            quick=True,
            settings=(
                *(Setting("broker", key, value) for key, value in settings.items()),
                # The S3 driver takes its credentials from the broker's environment.
                *(Setting("broker-env", key, value) for key, value in CREDENTIALS.items()),
            ),
        )
    )
    stack.up(renew=True)
    yield stack
    if not _kept():
        stack.down()


@pytest.fixture(scope="module")
def client(stack: PulsarCluster) -> Iterator[pulsar_lib.Client]:
    with closing(quiet_client(stack.endpoints.writer_url)) as client:
        yield client


@pytest.fixture(scope="module")
def admin(stack: PulsarCluster) -> PulsarAdmin:
    return stack.admin()


@pytest.fixture(params=DRIVERS)
def namespace(request, object_store: ObjectStore, admin: PulsarAdmin, tmp_path_factory) -> str:
    """A namespace that offloads with one driver."""
    name = f"public/offload-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(name)
    if request.param == "S3":
        policies = {
            "managedLedgerOffloadBucket": BUCKET,
            "managedLedgerOffloadServiceEndpoint": object_store.endpoint,
            "managedLedgerOffloadRegion": REGION,
            "managedLedgerOffloadMaxBlockSizeInBytes": BLOCK_BYTES,
        }
    else:
        conf = ensure_distribution(DEFAULT_VERSION) / "conf" / "filesystem_offload_core_site.xml"
        policies = {
            "fileSystemProfilePath": str(conf),
            "fileSystemURI": f"file://{tmp_path_factory.mktemp('offloaded')}",
        }
    admin.set_offload_policies(
        name,
        {
            "managedLedgerOffloadDriver": request.param,
            "offloadersDirectory": str(ensure_offloaders(DEFAULT_VERSION)),
            **policies,
        },
    )
    return name


def publish(client: pulsar_lib.Client, topic: str, seed: int, sizes: list[int], count: int) -> None:
    generator = random.Random(seed)
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in range(count):
        producer.send_async(
            generator.randbytes(generator.choice(sizes)), lambda *_: None, properties={"n": str(number)}
        )
    producer.flush()
    producer.close()


@asynccontextmanager
async def topic_log(
    stack: PulsarCluster, topic: str, tiered: TieredStorage | None, cache: int = 256 << 20
) -> AsyncIterator[TopicLog]:
    async def nobody() -> None:
        return None

    async with opened_store(stack.endpoints.metadata_store) as store:
        cluster = ClusterMetadata(store)
        with (
            closing(BookiePool(cluster.bookie_address)) as pool,
            closing(TopicLog(parse_topic_name(topic), cluster, pool, EntryCache(cache), nobody, tiered)) as log,
        ):
            await log.opened()
            yield log
        await pool.wait_closed()


def read_all(stack: PulsarCluster, topic: str, tiered: TieredStorage | None = None) -> list[tuple[Position, bytes]]:
    """Every entry's position and bytes; without `tiered` from the bookies."""

    last = stack.admin().last_message_id(topic)

    async def run() -> list[tuple[Position, bytes]]:
        async with asyncio.timeout(DEADLINE_S), topic_log(stack, topic, tiered) as log:
            moved = asyncio.Event()
            log.listen(moved.set)
            while log.limit is None or log.limit < (last.ledger, last.entry):
                await moved.wait()
                moved.clear()
            return [(entry.position, entry.stored) async for entry in TopicReader(log).entries()]

    return asyncio.run(run())


def tiered_storage(environment: Mapping[str, str] = CREDENTIALS, **settings: object) -> TieredStorage:
    return TieredStorage(TieredConfig(**settings), environment)


def offload(admin: PulsarAdmin, topic: str) -> int:
    """Have the owner offload all but the ledger in use; returns how many ledgers it offloaded."""
    admin.offload(topic, admin.last_message_id(topic))
    deadline = time.monotonic() + DEADLINE_S
    while (status := admin.offload_status(topic))["status"] == "RUNNING":
        assert time.monotonic() < deadline, status
        time.sleep(0.05)  # the owner tells nobody when it is done
    assert status["status"] == "SUCCESS", status
    return sum(ledger["offloaded"] for ledger in admin.internal_stats(topic)["ledgers"])


def delete_from_bookies(stack: PulsarCluster, admin: PulsarAdmin, namespace: str, topic: str) -> None:
    """Have the owner delete the bookies' copies, and see in the metadata that it did."""
    admin.set_offload_policies(
        namespace, {**admin.offload_policies(namespace), "managedLedgerOffloadDeletionLagInMillis": 0}
    )

    async def run() -> None:
        async with opened_store(stack.endpoints.metadata_store) as store:
            cluster = ClusterMetadata(store)
            while True:
                await asyncio.to_thread(admin.trim, topic)
                info = await cluster.topic(parse_topic_name(topic))
                offloaded = [ledger for ledger in info.ledger_info if ledger.offload_context.complete]
                gone = [await cluster.ledger(ledger.ledger_id) is None for ledger in offloaded]
                if all(ledger.offload_context.bookkeeper_deleted for ledger in offloaded) and all(gone):
                    return
                await asyncio.sleep(0.2)

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def test_offloaded_then_deleted_from_the_bookies_and_all_is_still_there(
    stack, admin: PulsarAdmin, client, namespace: str, object_store: ObjectStore, tmp_path: Path
) -> None:
    """Byte for byte what the bookies had: through TopicLog, and through a stock consumer on a pool."""
    topic = f"persistent://{namespace}/a b%c-{uuid.uuid4().hex[:8]}"
    publish(client, topic, 1, [0, 10, 1000, 30_000, 200_000], 520)
    before = read_all(stack, topic)
    assert len(before) == 520
    # The owner's messages before it offloads: a broker of 5.0 cannot read what the S3 offloader of 4.0.8 wrote, because that
    # needs a class (DataFormats.LedgerMetadataFormat) which BookKeeper 4.18 has no longer.
    direct = client.create_reader(topic, pulsar_lib.MessageId.earliest)
    sent = [direct.read_next(20_000) for _ in before]
    direct.close()
    assert offload(admin, topic) == 5
    assert before == read_all(stack, topic, tiered_storage())

    small = tiered_storage(read_size=64 << 10, cache_size=256 << 10)
    assert before == read_all(stack, topic, small)
    assert small.windows.requests > 50
    assert len(small.windows) <= 8  # a few windows, whatever the objects' size

    delete_from_bookies(stack, admin, namespace, topic)
    tiered = tiered_storage()
    assert before == read_all(stack, topic, tiered)
    sizes = sum(len(stored) for _, stored in before[:500])
    assert tiered.windows.bytes_read < sizes + 25 * tiered.config.read_size  # each byte about once

    with pytest.raises(BookKeeperError, match="in tiered storage only"):
        asyncio.run(read_one(stack, topic, None, before[0][0]))

    pool = Pool(stack.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", f"persistent://{namespace}/.*"])
    with pytest.MonkeyPatch.context() as patch:
        for key, value in CREDENTIALS.items():
            patch.setenv(key, value)
        try:
            pool.start(1)
            through = quiet_client(pool.url)
            consumer = through.subscribe(topic, "s", initial_position=pulsar_lib.InitialPosition.Earliest)
            for number, expected in enumerate(sent):
                got = consumer.receive(20_000)
                assert got.properties() == {"n": str(number)}
                assert (str(got.message_id()), got.data()) == (str(expected.message_id()), expected.data())
                consumer.acknowledge(got)
            assert pool.brokers[0].dispatched(topic) == 520
            through.close()
        finally:
            pool.close()
    assert SECRET_KEY not in pool.brokers[0].log.read_text()


async def read_offloaded(stack: PulsarCluster, topic: str, tiered: TieredStorage, position: Position) -> bytes:
    """One entry straight from tiered storage."""
    async with opened_store(stack.endpoints.metadata_store) as store:
        name = parse_topic_name(topic)
        info = await ClusterMetadata(store).topic(name)
        context = next(one.offload_context for one in info.ledger_info if one.ledger_id == position.ledger_id)
        path = name.managed_ledger_path.removeprefix("/managed-ledgers/")
        with closing(tiered):
            ledger = await tiered.open(path, position.ledger_id, context)
            return (await ledger.read(position.entry_id, position.entry_id))[0].payload


async def read_one(stack: PulsarCluster, topic: str, tiered: TieredStorage | None, position: Position) -> bytes:
    async with topic_log(stack, topic, tiered) as log:
        return (await log.read(position, 1))[0].stored


def test_an_entry_amid_a_large_ledger_is_found_without_reading_all_of_it(
    request, stack, admin: PulsarAdmin, client, namespace: str
) -> None:
    topic = f"persistent://{namespace}/large-{uuid.uuid4().hex[:8]}"
    publish(client, topic, 2, [400_000], 150)  # 40 MB in the first ledger: eight blocks
    before = dict(read_all(stack, topic))
    offload(admin, topic)
    ledger = min(before).ledger_id
    generator = random.Random(3)
    for entry_id in [0, 99, *(generator.randrange(LEDGER_ENTRIES) for _ in range(5))]:
        tiered = tiered_storage()
        position = Position(ledger, entry_id)
        assert asyncio.run(read_offloaded(stack, topic, tiered, position)) == before[position]
        if request.node.callspec.params["namespace"] == "S3":  # a MapFile has a place for each 128th entry only
            assert tiered.windows.bytes_read <= 2 * BLOCK_BYTES


@pytest.mark.parametrize("namespace", ["S3"], indirect=True)
def test_what_is_missing_is_named(stack, admin: PulsarAdmin, client, namespace: str, tmp_path: Path) -> None:
    topic = f"persistent://{namespace}/missing-{uuid.uuid4().hex[:8]}"
    publish(client, topic, 5, [100], 150)
    first = read_all(stack, topic)[0][0]
    offload(admin, topic)
    delete_from_bookies(stack, admin, namespace, topic)
    keys = tmp_path / "keys"
    keys.write_text("[default]\naws_access_key_id = devstack\naws_secret_access_key = not-the-secret\n")
    for tiered, says in (
        (tiered_storage({}), "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"),
        (
            tiered_storage({"ACCESS_KEY_ID": "x"}),
            "ACCESS_KEY_ID is set in the environment, and ACCESS_KEY_SECRET is not",
        ),
        (tiered_storage(bucket="no-such-bucket"), "tiered-storage.bucket, or managedLedgerOffloadBucket"),
        (tiered_storage(credentials_file=tmp_path / "none"), "tiered-storage.credentials-file .*No such file"),
        (tiered_storage(credentials_file=keys), r"refuses .* \(SignatureDoesNotMatch\): see the credentials in"),
        (tiered_storage(endpoint="http://127.0.0.1:9", request_timeout=2.0), "127.0.0.1:9"),
    ):
        with pytest.raises(BookKeeperError, match=says) as error:
            asyncio.run(read_one(stack, topic, tiered, first))
        assert "secret" not in str(error.value).lower().replace("access_key_secret", "").replace("aws_secret", "")
    keys.write_text(f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n")
    assert asyncio.run(read_one(stack, topic, tiered_storage({}, credentials_file=keys), first))
