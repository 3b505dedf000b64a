"""The data source whose rows are the files that its tasks write, without Spark's JVM."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import IntegerType, StringType, StructType, TimestampType
from readonly_spark.export import file_source
from readonly_spark.export.errors import ExportError
from readonly_spark.export.file_source import FILES, WrittenFiles, layout_of, options_for
from readonly_spark.export.settings import ExportSettings
from readonly_spark.source import BatchReader

SOURCE = {"metadataUrl": "zk:h:2181", "topics": "a"}
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
    assert layout.folder == str(tmp_path / "a table" / "_pulsar-readonly" / "staging")
    assert (layout.columns, layout.partition_by, layout.codec) == (("value",), ("topic", "publishDate"), "zstd")
    assert StructType.fromJson(json.loads(layout.spark_schema)).names == ["value"]
    source = WrittenFiles({**SOURCE, "valueschema": "auto", **options_for(layout, COLUMNS)})
    reader = pickle.loads(pickle.dumps(source.reader(COLUMNS)))
    assert pickle.loads(pickle.dumps(source.streamReader(COLUMNS)))._layout == layout
    times = pa.array([0, None, 86_400_000_000], pa.timestamp("us", "UTC"))
    batch = pa.record_batch([["t"] * 3, times, [{"id": one} for one in range(3)]], schema=reader._schema)
    monkeypatch.setattr(BatchReader, "read", lambda *_: iter([batch, batch]))
    (files,) = reader.read(InputPartition(None))
    assert files.schema == pa.schema([("file", "string"), ("messages", "int64"), ("bytes", "int64")])
    assert (
        ", ".join(f"{field.name} {'string' if field.name == 'file' else 'bigint'}" for field in files.schema) == FILES
    )
    assert files["messages"].to_pylist() == [2, 2, 2]
    written = pq.read_table(f"{layout.folder}/{files['file'][0]}", partitioning=None)
    assert written.to_pylist() == [{"value": {"id": 0}}] * 2
    monkeypatch.setattr(BatchReader, "read", lambda *_: iter([]))
    assert list(reader.read(InputPartition(None))) == []
    monkeypatch.setattr(BatchReader, "read", lambda *_: iter([batch]))
    shutil.rmtree(layout.folder)
    Path(layout.folder).touch()
    with pytest.raises(ExportError, match=f"^files below {layout.folder} cannot be written: .*[Nn]ot a directory"):
        next(reader.read(InputPartition(None)))


def test_a_codec_that_arrow_lacks_is_refused(settings) -> None:
    for codec in ("lzo", "lz4"):
        with pytest.raises(ExportError, match=rf"^--conf {file_source.CODEC}={codec}: .*none, .*snappy, .*lz4_raw"):
            layout_of(settings, COLUMNS, codec)
