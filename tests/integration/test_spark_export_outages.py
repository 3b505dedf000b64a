"""Continuous exports through all that happens to a cluster in months: each message is in the table once, or one clear error.

On a local file system and in an object store, in every format.
"""

from __future__ import annotations

import io
import json
import time
import uuid
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from readonly_spark.export.iceberg import CATALOG_FILE

from devstack.jars.fetch import ensure_jars
from devstack.objectstore.server import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore
from tests.integration.java_client import JavaClient
from tests.integration.spark_export import DEADLINE_S, Export, publish, values
from tests.integration.test_spark_export_tables import in_store, objects
from tests.integration.test_spark_outages import AWAY_S, kill, metadata_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STORE_PORT: Final = 18902
BUCKET: Final = "lake"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]


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
        if self.form == "parquet":
            return self._of_log()
        # Opening a catalog of SQLite makes its file, and an export refuses a folder with files of somebody.
        begun = self.folder / "table" / (CATALOG_FILE if self.form == "iceberg" else "_delta_log")
        return values(self.folder, self.form) if begun.exists() else []

    def _of_log(self) -> list[int]:
        logs = sorted((self.folder / "table" / "_spark_metadata").glob("[0-9]*"))
        names = [json.loads(line)["path"] for log in logs for line in log.read_text().splitlines()[1:]]
        tables = [pq.read_table(unquote(name.removeprefix("file://")), columns=["value"]) for name in set(names)]
        return sorted(int(value) for table in tables for value in table["value"].to_pylist())


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
        log = "_spark_metadata" if self.form == "parquet" else "_delta_log"
        texts = objects(self.store, f"{self.prefix}/table/{log}")
        names: set[str] = set()
        for name in sorted(texts):
            lines = texts[name].decode(errors="replace").splitlines()
            if self.form == "parquet" and name.split(".")[0].isdigit():
                names |= {json.loads(line)["path"].partition(f"/{self.prefix}/table/")[2] for line in lines[1:]}
            elif self.form == "delta" and name.endswith(".json"):
                for action in map(json.loads, lines):
                    names |= {action["add"]["path"]} if "add" in action else set()
                    names -= {action["remove"]["path"]} if "remove" in action else set()
        s3 = fs.S3FileSystem(
            access_key=ACCESS_KEY, secret_key=SECRET_KEY, region=REGION, endpoint_override=self.store.endpoint
        )
        paths = [f"{BUCKET}/{self.prefix}/table/{unquote(name)}" for name in names]
        tables = [pq.read_table(io.BytesIO(s3.open_input_file(path).readall()), columns=["value"]) for path in paths]
        return sorted(int(value) for table in tables for value in table["value"].to_pylist())


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

    def away(running: Export) -> None:
        end = time.monotonic() + AWAY_S
        while time.monotonic() < end:
            assert running.process.poll() is None, running.said()
            time.sleep(0.1)  # between two looks

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

        server = metadata_server(spark_stack)
        kill(spark_stack, server)
        try:
            away(running)
        finally:
            spark_stack.start_metadata_server(server)
        publish(spark_client, kept, 120, 150)
        until(running, 150, "after a restart of the metadata store")

        for index in range(2):
            spark_stack.stop_bookie(index)
        try:
            away(running)
        finally:
            for index in range(2):
                spark_stack.start_bookie(index)
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
    assert table.values()[:180] == list(range(180)), "what was read is in the table"
    running = export("--option", "failOnDataLoss=false")
    try:
        until(running, 200, "without the deleted topic")
    finally:
        running.stop()
    assert table.values() == list(range(200))
