"""An export on a cluster where one of two workers does not see the folder of the table, as on another machine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from readonly_spark.export.iceberg import CATALOG_FILE

from devstack.standalone_spark import StandaloneSpark
from tests.integration.spark.export_process import Export, publish, values

MESSAGES: Final = 400

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the second worker has another one of."""
    return tmp_path_factory.mktemp("unshared")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[StandaloneSpark]:
    """A master of Spark and two workers, the second one in a mount namespace of its own."""
    with StandaloneSpark(tmp_path_factory.mktemp("standalone"), unshared=folder) as servers:
        yield servers


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_it_is_refused_with_one_clear_error(spark_stack, cluster, spark_client, topic, folder, form) -> None:
    publish(spark_client, topic, 0, MESSAGES)
    spark_stack.admin().unload(topic)  # its ledger is closed, so all messages are confirmed
    home = folder / form
    home.mkdir()

    def export(*options: str) -> Export:
        return Export(
            spark_stack, topic, home, form, "--master", cluster.url, "--conf", "spark.executor.memory=600m",
            "--conf", "spark.task.maxFailures=1", "--option", "minPartitions=8", *options,
        )  # fmt: skip

    said = export().refused()
    assert f"--to {home}/table is a local path, and executors of --master {cluster.url} may be on other" in said
    assert "--shared-folder" in said
    assert not (home / "table").exists()

    said = export("--shared-folder").failed()[-1]
    assert f"file {home}/table/_pulsar-readonly/table.json, which does not exist on " in said
    begun = form != "iceberg" or (home / "table" / CATALOG_FILE).exists()
    assert not begun or values(home, form) == []
