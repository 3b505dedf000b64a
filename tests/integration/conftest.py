"""A real Pulsar for the integration tests: brought up once, kept warm between runs unless this is CI."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pulsar as pulsar_lib
import pytest

from devstack.pool import Pool
from devstack.pulsar.admin import PulsarAdmin
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.secure_stores import secured as with_secure_stores
from devstack.pulsar.security import Credentials
from devstack.pulsar.spec import DEFAULT_METADATA, OXIA, PulsarSpec, Setting
from devstack.pulsar.status import Endpoints
from tests.support.java import need_java
from tests.support.pulsar.apart import Apart
from tests.support.pulsar.entry_filter import filters_folder
from tests.support.pulsar.fleet import TESTS, quiet_client
from tests.support.pulsar.secure_stores import OWN_ROOT, secrets_folder, session
from tests.support.pulsar.secured import secured_stack
from tests.support.pulsar.stacks import kept_ledgers

SHARED_STACKS: Final = {"first": ("integration", 26650), "second": ("integration-2", 25650)}
"""Name and base port of the stacks that most tests share; apart from the default stack, which is a developer's own."""

SHARED_STACK: Final = os.environ.get("TEST_STACK", "first")
"""Which of them these tests use: two groups of tests may run beside each other."""

SECURE: Final = os.environ.get("PULSAR_READONLY_STORES") == "secure"
"""Whether the shared stack has TLS and logins at ZooKeeper and bookies, `make test-integration STORES=secure`."""

SECURE_STACKS: Final = {"first": ("integration-secure", 16800), "second": ("integration-secure-2", 16850)}
"""Name and base port of the shared stacks then."""

OPERATION_S: Final = 90
"""A stock client's operations may take so long: three times its default, on machines where much else runs."""


zookeeper_only = pytest.mark.skipif(
    DEFAULT_METADATA == OXIA,
    reason="it writes to ZooKeeper, or watches its client; test_oxia.py has such tests for Oxia",
)


def _kept() -> bool:
    """Whether the stack is left running: never in CI, else unless KEEP_PULSAR is 0."""
    return os.environ.get("CI") != "true" and os.environ.get("KEEP_PULSAR", "1") != "0"


STACKS: Final = ("secured", "txn_stack", "spark_stack", "release")
"""Fixtures whose stack ends after its last test, because an idle one costs a tenth of a core."""

RUNNING = pytest.StashKey[dict[str, "Callable[[], None]"]]()
LAST = pytest.StashKey[dict[str, pytest.Item]]()


def _stacks(item: pytest.Item) -> set[str]:
    return set(STACKS) & set(getattr(item, "fixturenames", ()))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files that use a stack follow each other."""
    of_files: dict[Path, set[str]] = {}
    for item in items:
        of_files.setdefault(item.path, set()).update(_stacks(item))
    items.sort(key=lambda item: sorted(of_files[item.path]))


def pytest_collection_finish(session: pytest.Session) -> None:
    session.stash[LAST] = {name: item for item in session.items for name in _stacks(item)}
    session.stash[RUNNING] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """End the stacks that no later test uses."""
    yield
    running = item.session.stash[RUNNING]
    for name in [name for name in running if item.session.stash[LAST][name] is item]:
        running.pop(name)()


@contextmanager
def up_until_last_use(request: pytest.FixtureRequest, stack: PulsarCluster, *, purge: bool = False) -> Iterator[None]:
    """Keep a stack up until the last test that uses its fixture; its logs stay, for whoever looks into a failure."""

    def end() -> None:
        if purge or not _kept():
            stack.down(purge=purge)

    request.session.stash[RUNNING][str(request.fixturename)] = end
    stack.up(renew=not purge)
    yield
    end()


@pytest.fixture(scope="session")
def pulsar_stack() -> Iterator[PulsarCluster]:
    """The stack of this suite, up and healthy; one that does not come up fails the tests that need it."""
    if SHARED_STACK not in SHARED_STACKS:
        pytest.fail(f"TEST_STACK={SHARED_STACK}: expected {' or '.join(SHARED_STACKS)}", pytrace=False)
    name, base_port = (SECURE_STACKS if SECURE else SHARED_STACKS)[SHARED_STACK]
    spec = PulsarSpec(
        name=name,
        base_port=base_port,
        quick=True,
        settings=(
            *kept_ledgers(),
            # Else brokers shun for half an hour a bookie that a test has killed, and the next kill leaves too few.
            Setting("broker", "bookkeeperClientHealthCheckEnabled", "false"),
        ),
    )
    stack = PulsarCluster(with_secure_stores(spec, secrets_folder()) if SECURE else spec)
    stack.up(renew=True)
    if SECURE:
        with session(stack) as client:
            client.ensure_path(f"{OWN_ROOT}/pools")  # open ones: some tests are a pool without a login
    yield stack
    if not _kept():
        stack.down()  # its logs stay, for whoever looks into a failure


@pytest.fixture(scope="session")
def pulsar(pulsar_stack: PulsarCluster) -> Endpoints:
    """Where the servers of the stack are."""
    return pulsar_stack.endpoints


@pytest.fixture(scope="session")
def admin(pulsar_stack: PulsarCluster) -> PulsarAdmin:
    """The admin API of the stack's first broker; it redirects to a topic's owner."""
    return pulsar_stack.admin()


@pytest.fixture(scope="session")
def secured(request: pytest.FixtureRequest) -> Iterator[tuple[PulsarCluster, Credentials]]:
    """Another stack, which asks its clients who they are, and speaks TLS; and what it trusts."""
    stack, credentials = secured_stack()
    with up_until_last_use(request, stack):
        yield stack, credentials


@pytest.fixture
def breakable_pulsar(pulsar_stack: PulsarCluster) -> Iterator[PulsarCluster]:
    """The stack, for a test that stops parts of it; what it leaves stopped is started again."""
    yield pulsar_stack
    pulsar_stack.up()


@pytest.fixture
def topic() -> str:
    """The full name of a topic that nobody else uses; it is made by its first producer or consumer."""
    return f"persistent://public/default/test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def pulsar_client(pulsar: Endpoints) -> Iterator[pulsar_lib.Client]:
    """The stock Python client, connected to the source cluster."""
    with closing(quiet_client(pulsar.writer_url, operation_timeout_seconds=OPERATION_S)) as client:
        yield client


@pytest.fixture(scope="session")
def pool(pulsar: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Two read-only brokers that serve every topic of the `topic` fixture; for tests that leave them running."""
    with closing(Pool(pulsar, tmp_path_factory.mktemp("pool"), uuid.uuid4().hex, ["--topics", TESTS])) as pool:
        pool.start(2)
        yield pool


@pytest.fixture(scope="session")
def local_pool(pulsar: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """As `pool`, but it keeps the cursors itself."""
    options = ["--topics", TESTS, "--cursors", "local", "--cursor-partitions", "4"]
    with closing(Pool(pulsar, tmp_path_factory.mktemp("local-pool"), uuid.uuid4().hex, options)) as pool:
        pool.start(2)
        yield pool


@pytest.fixture
def own_pool(pulsar: Endpoints, tmp_path: Path) -> Iterator[Callable[..., Pool]]:
    """Makes pools that a test may break: how many brokers, and more options of `serve`."""
    pools = []

    def make(count: int, *options: str) -> Pool:
        made = Pool(pulsar, tmp_path, uuid.uuid4().hex, options)
        pools.append(made)
        made.start(count)
        return made

    yield make
    for made in pools:
        made.close()


@pytest.fixture
def apart(pulsar: Endpoints, tmp_path: Path) -> Iterator[Apart]:
    """A read-only broker of its own, whose ways to the owners can be cut."""
    with closing(Apart(pulsar, tmp_path, tmp_path.name)) as made:
        yield made


@pytest.fixture
def pool_client(pool: Pool) -> Iterator[pulsar_lib.Client]:
    """The stock Python client, connected to the pool."""
    with closing(quiet_client(pool.url)) as client:
        yield client


@pytest.fixture
def local_client(local_pool: Pool) -> Iterator[pulsar_lib.Client]:
    """The stock Python client, connected to the pool that keeps cursors itself."""
    with closing(quiet_client(local_pool.url)) as client:
        yield client


@pytest.fixture(scope="session")
def txn_stack(request: pytest.FixtureRequest) -> Iterator[PulsarCluster]:
    """A small stack with transactions, acks of single messages of a batch, and an entry filter that no topic uses yet."""
    stack = PulsarCluster(
        PulsarSpec(
            name="txn",
            base_port=23650,
            bookies=1,
            brokers=1,
            transactions=True,
            quick=True,
            settings=(
                *kept_ledgers(),
                Setting("broker", "entryFiltersDirectory", str(filters_folder())),
                Setting("broker", "allowOverrideEntryFilters", "true"),
                Setting("broker", "acknowledgmentAtBatchIndexLevelEnabled", "true"),
            ),
        )
    )
    with up_until_last_use(request, stack):
        yield stack


STORED_POLICIES: Final = {
    "5.0.1": (
        Setting(
            "broker",
            "topicPoliciesServiceClassName",
            "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService",
        ),
    )
}
"""Releases that can keep the policies of topics in the metadata store (PIP-469). The default is still the system topic."""


@pytest.fixture(scope="session", params=assembled_versions())
def release(request: pytest.FixtureRequest) -> Iterator[PulsarCluster]:
    """The smallest cluster of each release that is not the default; its topics have several ledgers."""
    need_java(request.param)
    stack = PulsarCluster(
        PulsarSpec(
            name="release",
            version=request.param,
            base_port=24650,
            bookies=1,
            brokers=1,
            quick=True,
            settings=(
                *kept_ledgers(),
                # Releases that compress znodes do so above 16 KiB only by default.
                Setting("broker", "managedLedgerInfoCompressionThresholdInBytes", "16"),
                Setting("broker", "managedCursorInfoCompressionThresholdInBytes", "16"),
                *STORED_POLICIES.get(request.param, ()),
            ),
        )
    )
    stack.down(purge=True)
    with up_until_last_use(request, stack, purge=True):
        yield stack


@pytest.fixture(scope="session")
def txn_pool(txn_stack: PulsarCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A read-only broker that serves every topic of the `topic` fixture on the stack with transactions."""
    topics = ["--topics", TESTS]
    with closing(Pool(txn_stack.endpoints, tmp_path_factory.mktemp("txn-pool"), uuid.uuid4().hex, topics)) as pool:
        pool.start()
        yield pool


@pytest.fixture
def release_pool(release: PulsarCluster, tmp_path: Path) -> Iterator[Pool]:
    """A read-only broker on the release."""
    with closing(Pool(release.endpoints, tmp_path, uuid.uuid4().hex, ["--topics", TESTS])) as made:
        made.start()
        yield made


@pytest.fixture
def release_owner(release: PulsarCluster) -> Iterator[pulsar_lib.Client]:
    """A client of the release's brokers."""
    with closing(quiet_client(release.endpoints.writer_url)) as client:
        yield client
