"""A Pulsar and a real Spark for the tests of the data source and of exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pulsar as pulsar_lib
import pytest

from devstack.objectstore.server import ACCESS_KEY, SECRET_KEY
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting
from devstack.standalone_spark import StandaloneSpark
from tests.integration.conftest import up_until_last_use
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.spark_driver import Driver
from tests.support.pulsar.spark_session import local_spark
from tests.support.pulsar.stacks import kept_ledgers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER: Final = Path(__file__).parent

PASSED_OVER: Final = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)
"""Warnings of Spark's own Python."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pass over the warnings of Spark."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(PASSED_OVER)


@pytest.fixture(scope="session")
def spark_stack(request: pytest.FixtureRequest) -> Iterator[PulsarCluster]:
    """A small stack for the data source, with transactions."""
    stack = PulsarCluster(
        PulsarSpec(
            name="spark",
            base_port=18650,
            bookies=2,
            brokers=1,
            transactions=True,
            quick=True,
            settings=(
                *kept_ledgers(),
                # The S3 offloader takes its credentials from the broker's environment.
                Setting("broker-env", "ACCESS_KEY_ID", ACCESS_KEY),
                Setting("broker-env", "ACCESS_KEY_SECRET", SECRET_KEY),
                Setting("broker", "bookkeeperClientHealthCheckEnabled", "false"),
            ),
        )
    )
    with up_until_last_use(request, stack):
        yield stack


@pytest.fixture(scope="session")
def spark_client(spark_stack: PulsarCluster) -> Iterator[pulsar_lib.Client]:
    """The stock Python client, connected to the stack of the data source."""
    with closing(quiet_client(spark_stack.endpoints.writer_url)) as client:
        yield client


@pytest.fixture
def driver(spark_stack: PulsarCluster) -> Iterator[Callable[..., Driver]]:
    """Makes readers that plan and read as Spark does, without Spark: of a topic, by options."""
    made: list[Driver] = []

    def make(topic: str = "", **options: str) -> Driver:
        made.append(Driver(spark_stack, topic, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A real Spark in this process, with the data source."""
    with local_spark() as session:
        yield session


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A master of Spark and two workers, each with one core."""
    with StandaloneSpark(tmp_path_factory.mktemp("standalone")) as servers:
        yield servers
