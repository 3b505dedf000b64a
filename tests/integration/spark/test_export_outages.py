"""Continuous exports through all that happens to a cluster in months: each message is in the table once, or one clear error.

On a local file system and in an object store, in every format.
"""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from readonly_spark.export.iceberg import CATALOG_FILE

from devstack.jars.fetch import ensure_jars
from devstack.objectstore.server import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore
from tests.integration.spark.export_process import DEADLINE_S, Export, logged_values, publish, values
from tests.integration.spark.outages import bookies_stopped, metadata_store_killed, watch
from tests.integration.spark.test_export_tables import in_store, values_in_store
from tests.support.pulsar.java_client import JavaClient

STORE_PORT: Final = 18902
BUCKET: Final = "lake"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake() -> Iterator[ObjectStore]:
    """MinIO with a bucket."""
    store = ObjectStore("lake-outages", STORE_PORT)
    store.up(BUCKET)
    yield store
    store.down(purge=True)


class Local:
    """A table in a folder."""

    def __init__(self, folder: Path, form: str) -> None:
        self.folder, self.form = folder, form
        self.to = str(folder / "table")
        self.options: list[str] = []

    def values(self) -> list[int]:
        """The numbers in the table."""
        if self.form != "iceberg":
            return logged_values(self.folder, self.form)
        # Opening a catalog of SQLite makes its file, and an export refuses a folder with files of somebody.
        begun = (self.folder / "table" / CATALOG_FILE).exists()
        return values(self.folder, self.form) if begun else []


class InStore:
    """A table in an object store, by s3a; Iceberg's catalog is on the local disk, as it would be a service elsewhere."""

    def __init__(self, store: ObjectStore, folder: Path, form: str) -> None:
        self.store, self.form = store, form
        self.prefix = f"{form}-{uuid.uuid4().hex[:8]}"
        self.to = f"s3a://{BUCKET}/{self.prefix}/table"
        self.options = in_store(store)
        if form == "delta":
            place = self.options.index("--jars") + 1
            self.options[place] += f",{ensure_jars('delta')}"
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"s3://{BUCKET}/{self.prefix}/warehouse",
            "s3.endpoint": store.endpoint,
            "s3.region": REGION,
        }
        self.keys = {"s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY}
        if form == "iceberg":
            found = {**self.catalog, **self.keys}
            self.options += [word for name, value in found.items() for word in ("--catalog", f"{name}={value}")]

    def values(self) -> list[int]:
        """The numbers in the table, read by no code of Spark or Delta."""
        if self.form == "iceberg":
            from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - it is slow to import

            catalog = load_catalog("default", **self.catalog, **self.keys)
            if not catalog.table_exists("pulsar.messages"):
                return []
            found = catalog.load_table("pulsar.messages").scan().to_arrow()["value"].to_pylist()
            return sorted(map(int, found))
        return values_in_store(self.store, f"{self.prefix}/table", self.form)


@pytest.mark.parametrize("place", ["local", "s3a"])
@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_a_continuous_export_through_outages(spark_stack, spark_client, tmp_path, request, form, place) -> None:
    name = uuid.uuid4().hex[:8]
    kept, gone = (f"persistent://public/default/{word}-{name}" for word in ("kept", "gone"))
    publish(spark_client, kept, 0, 50)
    publish(spark_client, gone, 50, 100)
    table = Local(tmp_path, form) if place == "local" else InStore(request.getfixturevalue("lake"), tmp_path, form)

    def export(*options: str) -> Export:
        words = ("--trigger", "continuous", "--interval", "0.5", "--partition-by", "publishDate", *options)
        return Export(spark_stack, f"{kept},{gone}", tmp_path, form, *table.options, *words, to=table.to)

    def until(running: Export, count: int, what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(table.values()) < count:
            assert running.process.poll() is None, f"{what}: {running.said()}"
            assert time.monotonic() < deadline, f"{what}: {len(table.values())} of {count}: {running.said()}"
            time.sleep(0.5)  # until it has written more

    def goes_on() -> None:
        assert running.process.poll() is None, running.said()

    running = export()
    try:
        until(running, 100, "the first messages")

        # A micro-batch without rows: of an aborted transaction there are entries only.
        with JavaClient(spark_stack, spark_stack.endpoints.writer_url) as java:
            java.do("begin", "a", 300)
            for _ in range(5):
                java.do("send", kept, "a", "-1")
            java.do("abort", "a")
        publish(spark_client, kept, 100, 120)
        until(running, 120, "after an empty micro-batch")

        with metadata_store_killed(spark_stack):
            watch(goes_on)
        publish(spark_client, kept, 120, 150)
        until(running, 150, "after a restart of the metadata store")

        with bookies_stopped(spark_stack):
            watch(goes_on)
        publish(spark_client, kept, 150, 180)
        until(running, 180, "after all bookies were away")

        spark_stack.admin().delete_topic(gone)
        publish(spark_client, kept, 180, 200)
        said = running.failed()[-1]
    finally:
        if running.process.poll() is None:
            running.kill()
    assert gone in said
    assert "failOnDataLoss=false" in said
    assert "\tat org.apache.spark" not in running.errors.read_text(), "Spark prints no stack trace before it"
    assert table.values()[:180] == list(range(180)), "what was read is in the table"
    running = export("--option", "failOnDataLoss=false")
    try:
        until(running, 200, "without the deleted topic")
    finally:
        running.stop()
    assert table.values() == list(range(200))
