"""Tables that an export must not touch, and those that it continues with: `pulsar-readonly export` as a user runs it."""

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from devstack.jars.fetch import ensure_jars
from devstack.objectstore.server import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore
from tests.integration.spark.export_process import DEADLINE_S, Export, publish, until_exported, values
from tests.integration.spark.table_files import LOGS, live_files, numbers_in

FORMS: Final = [
    "parquet",
    pytest.param("delta", marks=pytest.mark.slow),
    pytest.param("iceberg", marks=pytest.mark.slow),
]
STORE_PORT: Final = 18901
FOREIGN: Final = "part-00000-3b0a3c1e-5c3c-4f2e-9b53-0d3f1e0d8a11-c000.snappy.parquet"


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, and what is in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_a_folder_that_a_batch_job_wrote_is_refused_and_untouched(
    spark_stack, spark_client, topic, tmp_path, form
) -> None:
    publish(spark_client, topic, 0, 10)
    table = tmp_path / "table"
    table.mkdir()
    pq.write_table(pa.table({"value": [b"somebody's"]}), table / FOREIGN)
    before = files(table)
    said = Export(spark_stack, topic, tmp_path, form).refused()
    assert f"{table} holds data that this export did not write ({FOREIGN})" in said
    assert files(table) == before


@pytest.mark.nightly
@pytest.mark.parametrize("form", FORMS)
def test_a_new_checkpoint_is_refused_and_adopts_on_request(spark_stack, spark_client, topic, tmp_path, form) -> None:
    """Without the first checkpoint neither loss nor doubling: refused, and by --adopt each message is there once."""
    publish(spark_client, topic, 0, 100)
    until_exported(spark_stack, topic, tmp_path, form, 100)
    shutil.rmtree(tmp_path / "table" / "_checkpoint")
    publish(spark_client, topic, 100, 150)
    said = Export(spark_stack, topic, tmp_path, form).refused()
    assert "was written with another checkpoint" in said
    assert "--adopt" in said
    assert values(tmp_path, form) == list(range(100))
    until_exported(spark_stack, topic, tmp_path, form, 150, "--adopt")
    assert values(tmp_path, form) == list(range(150))


@pytest.fixture(scope="module")
def lake() -> Iterator[ObjectStore]:
    """MinIO with a bucket, `lake`."""
    store = ObjectStore("lake", STORE_PORT)
    store.up("lake")
    yield store
    store.down(purge=True)


def in_store(store: ObjectStore) -> list[str]:
    """Options by which Spark reaches it."""
    found = {
        "endpoint": store.endpoint, "endpoint.region": REGION, "path.style.access": "true",
        "access.key": ACCESS_KEY, "secret.key": SECRET_KEY,
    }  # fmt: skip
    settings = [word for name, value in found.items() for word in ("--conf", f"spark.hadoop.fs.s3a.{name}={value}")]
    return ["--jars", str(ensure_jars("s3a")), *settings]


def objects(store: ObjectStore, prefix: str) -> dict[str, bytes]:
    """Every object below a prefix of the bucket."""
    s3 = fs.S3FileSystem(access_key=ACCESS_KEY, secret_key=SECRET_KEY, region=REGION, endpoint_override=store.endpoint)
    selector = fs.FileSelector(f"lake/{prefix}", recursive=True, allow_not_found=True)
    found = [one.path for one in s3.get_file_info(selector) if one.type is fs.FileType.File]
    read = {}
    for path in found:
        with suppress(FileNotFoundError):  # Spark renames its drafts meanwhile
            read[path.removeprefix(f"lake/{prefix}/")] = s3.open_input_file(path).read()
    return read


def values_in_store(store: ObjectStore, prefix: str, form: str = "parquet") -> list[int]:
    """What the log of a table counts; the prefix ends in `/table`."""
    found = objects(store, prefix)
    folder = LOGS[form] + "/"
    log = {name.removeprefix(folder): text for name, text in found.items() if name.startswith(folder)}
    return numbers_in(live_files(form, log), found.__getitem__)


@pytest.mark.slow
def test_in_an_object_store_tables_are_marked_and_locked_too(spark_stack, spark_client, topic, tmp_path, lake) -> None:
    publish(spark_client, topic, 0, 100)
    options = in_store(lake)
    own = topic.rpartition("/")[2]
    table, foreign = f"{own}/table", f"{own}/foreign"
    other = ("--checkpoint", f"s3a://lake/{own}/other-checkpoint")

    def export(to: str, *more: str) -> Export:
        return Export(spark_stack, topic, tmp_path, "parquet", *options, *more, to=to)

    # A batch job's object is refused, and stays.
    s3 = fs.S3FileSystem(access_key=ACCESS_KEY, secret_key=SECRET_KEY, region=REGION, endpoint_override=lake.endpoint)
    with s3.open_output_stream(f"lake/{foreign}/{FOREIGN}") as stream:
        stream.write(b"somebody's")
    said = export(f"s3a://lake/{foreign}").refused()
    assert f"s3a://lake/{foreign} holds data that this export did not write ({FOREIGN})" in said
    assert objects(lake, foreign) == {FOREIGN: b"somebody's"}

    # While one export runs, another one with another checkpoint is refused, and then adopts.
    first = export(f"s3a://lake/{table}", "--trigger", "continuous", "--interval", "1")
    deadline = time.monotonic() + DEADLINE_S
    while len(values_in_store(lake, table)) < 100:
        assert time.monotonic() < deadline, first.said()
        assert first.process.poll() is None, first.said()
        time.sleep(0.2)  # until it has exported them
    try:
        said = export(f"s3a://lake//{table}/", *other, "--adopt").refused()
    finally:
        first.stop()
    assert "is in use by another export (process " in said
    assert (
        f"was written with another checkpoint (s3a://lake/{table}/_checkpoint)"
        in export(f"s3a://lake/{table}", *other).refused()
    )
    publish(spark_client, topic, 100, 150)
    while len(values_in_store(lake, table)) < 150:
        export(f"s3a://lake/{table}", *other, "--adopt").end()
        assert time.monotonic() < deadline
    assert values_in_store(lake, table) == list(range(150))
    assert "was written with another checkpoint" in export(f"s3a://lake/{table}").refused(), "the first one is out"
