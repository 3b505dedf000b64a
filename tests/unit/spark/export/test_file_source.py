"""The data source whose rows are the files that its tasks write, without Spark's JVM."""

import json
import pickle
import shutil
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import IntegerType, StringType, StructType, TimestampType
from readonly_spark.export import destinations, file_source
from readonly_spark.export.destinations import Target
from readonly_spark.export.errors import ExportError
from readonly_spark.export.file_source import FILES, WrittenFiles, layout_of, options_for
from readonly_spark.export.settings import ExportSettings
from readonly_spark.export.store_leftovers import owner_in
from readonly_spark.export.store_settings import StoreSettings
from readonly_spark.source import BatchReader

SOURCE = {"metadataStoreUrl": "zk:h:2181", "topics": "a"}
COLUMNS = StructType().add("topic", StringType()).add("publishTime", TimestampType())
COLUMNS = COLUMNS.add("value", StructType().add("id", IntegerType()))


@pytest.fixture
def settings(tmp_path) -> ExportSettings:
    return ExportSettings(
        source=SOURCE, to=f"file://{tmp_path}/a%20table/", checkpoint=str(tmp_path / "c"), columns=("topic", "value"),
        partition_by=("topic", "publishDate"),
    )  # fmt: skip


def test_a_task_writes_the_files_of_a_layout_and_yields_them(settings, tmp_path, monkeypatch) -> None:
    layout = layout_of(settings, COLUMNS, "ZSTD")
    folder = str(tmp_path / "a table")
    target = Target("/a table", folder)
    assert (layout.columns, layout.partition_by, layout.codec) == (("value",), ("topic", "publishDate"), "zstd")
    assert StructType.fromJson(json.loads(layout.spark_schema)).names == ["value"]
    source = WrittenFiles({**SOURCE, "valueschema": "auto", **options_for(layout, target, COLUMNS)})
    reader = pickle.loads(pickle.dumps(source.reader(COLUMNS)))
    stream = pickle.loads(pickle.dumps(source.streamReader(COLUMNS)))
    assert (stream._layout, stream._target) == (layout, target)
    times = pa.array([0, None, 86_400_000_000], pa.timestamp("us", "UTC"))
    batch = pa.record_batch([["t"] * 3, times, [{"id": one} for one in range(3)]], schema=reader._schema)
    monkeypatch.setattr(BatchReader, "read", lambda *_: iter([batch, batch]))
    (files,) = reader.read(InputPartition(None))
    assert files.schema == pa.schema([("file", "string"), ("messages", "int64"), ("bytes", "int64")])
    assert (
        ", ".join(f"{field.name} {'string' if field.name == 'file' else 'bigint'}" for field in files.schema) == FILES
    )
    assert files["messages"].to_pylist() == [2, 2, 2]
    written = pq.read_table(f"{folder}/{files['file'][0]}", partitioning=None)
    assert written.to_pylist() == [{"value": {"id": 0}}] * 2
    monkeypatch.setattr(BatchReader, "read", lambda *_: iter([]))
    assert list(reader.read(InputPartition(None))) == []
    monkeypatch.setattr(BatchReader, "read", lambda *_: iter([batch]))
    shutil.rmtree(folder)
    Path(folder).touch()
    with pytest.raises(ExportError, match=r"^files below /a table cannot be written: .*[Nn]ot a directory"):
        next(reader.read(InputPartition(None)))


class Context:
    """A task of a micro-batch."""

    def __init__(self, query: str | None) -> None:
        self._local = {"sql.streaming.queryId": query, "streaming.sql.batchId": "7"}

    def partitionId(self) -> int:  # noqa: N802  as Spark names it
        return 12

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self._local[name]


@pytest.mark.parametrize("query", ["a-query", None])
def test_files_in_a_store_name_their_micro_batch(settings, monkeypatch, query) -> None:
    bucket = MemoryStore()
    monkeypatch.setattr(destinations, "open_store", lambda given: bucket if given == store else None)
    monkeypatch.setattr(file_source.TaskContext, "get", lambda: Context(query))
    store = StoreSettings("lake", "http://store:9000", "r", False, ("access", "the-secret", "the-token"))
    layout = layout_of(settings, COLUMNS, "snappy")
    options = options_for(layout, Target("s3a://lake/a", "a", store), COLUMNS)
    shown = {name: text for name, text in options.items() if "secret" not in name.lower()}
    assert "access" not in str(shown)
    assert "the-" not in f"{shown}{store}"
    reader = WrittenFiles({**SOURCE, "valueSchema": "auto", **options}).reader(COLUMNS)
    rows = pa.record_batch([["t"], pa.array([0], pa.timestamp("us", "UTC")), [{"id": 1}]], schema=reader._schema)
    monkeypatch.setattr(BatchReader, "read", lambda *_: iter([rows]))
    (files,) = reader.read(InputPartition(None))
    (name,) = files["file"].to_pylist()
    assert name.startswith("topic=t/publishDate=1970-01-01/part-00012-")
    content = bytes(obstore.get(bucket, f"a/{name}").bytes())
    assert owner_in(content) == (None if query is None else ("a-query", 7))


def test_a_codec_that_arrow_lacks_is_refused(settings) -> None:
    for codec in ("lzo", "lz4"):
        with pytest.raises(ExportError, match=rf"^--conf {file_source.CODEC}={codec}: .*none, .*snappy, .*lz4_raw"):
            layout_of(settings, COLUMNS, codec)
