"""Parquet files of a task: their rows, folders and footers, and what a task holds in memory."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from readonly_spark.export import file_writer
from readonly_spark.export.file_writer import CODECS, SPARK_SCHEMA, FileLayout, FileWriter
from readonly_spark.export.partitions import by_folder

MEBIBYTE = 1 << 20
SPARK = json.dumps({"type": "struct", "fields": []})


def at(year: int, month: int, day: int, hour: int = 0) -> dt.datetime:
    return dt.datetime(year, month, day, hour, 59, 59, 999_999, tzinfo=dt.UTC)


ROWS = pa.record_batch(
    {
        "topic": ["a", "b", "a", None, "", "a/b=c d\t:ü"],
        "number": pa.array([1, -2, 1, None, 1, 1], pa.int64()),
        "flag": [True, False, True, None, True, True],
        "publishTime": pa.array(
            [at(2026, 11, 25), at(1969, 12, 31, 23), at(2026, 11, 25), None, at(2026, 11, 25, 1), at(2026, 11, 25)],
            pa.timestamp("us", "UTC"),
        ),
        "value": [b"0", b"1", b"2", b"3", None, b"5"],
    }
)
NONE = "__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("by", "folders"),
    [
        ((), {"": [0, 1, 2, 3, 4, 5]}),
        (("topic",), {"topic=a": [0, 2], "topic=b": [1], f"topic={NONE}": [3, 4], "topic=a%2Fb%3Dc d%09%3Aü": [5]}),
        (("number",), {"number=1": [0, 2, 4, 5], "number=-2": [1], f"number={NONE}": [3]}),
        (
            ("flag", "publishDate"),
            {
                "flag=true/publishDate=2026-11-25": [0, 2, 4, 5],
                "flag=false/publishDate=1969-12-31": [1],
                f"flag={NONE}/publishDate={NONE}": [3],
            },
        ),
        (
            ("publishHour",),
            {
                "publishHour=2026-11-25 00%3A00%3A00": [0, 2, 5],
                "publishHour=1969-12-31 23%3A00%3A00": [1],
                f"publishHour={NONE}": [3],
                "publishHour=2026-11-25 01%3A00%3A00": [4],
            },
        ),
    ],
)
def test_rows_are_in_the_folder_of_their_partition(tmp_path, by, folders) -> None:
    columns = tuple(name for name in ROWS.schema.names if name not in by)
    with FileWriter(FileLayout(str(tmp_path), columns, SPARK, by), ROWS.schema, 7) as writer:
        writer.write(ROWS.slice(0, 3))
        writer.write(ROWS.slice(3))
        files = writer.finish()
    found: dict[str, list[int]] = {}
    for file in files:
        assert Path(file.file).name.startswith("part-00007-")
        parquet = pq.ParquetFile(tmp_path / file.file)
        rows = parquet.read()
        assert tuple(rows.column_names) == columns
        assert (rows.num_rows, sum(len(one or b"") for one in rows["value"].to_pylist())) == (file.messages, file.bytes)
        assert parquet.metadata.metadata[SPARK_SCHEMA.encode()] == SPARK.encode()
        assert b"ARROW:schema" not in parquet.metadata.metadata
        numbers = [4 if one is None else int(one) for one in rows["value"].to_pylist()]
        found.setdefault(str(Path(file.file).parent), []).extend(numbers)
    assert found == {folder or ".": rows for folder, rows in folders.items()}
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")) == sorted(
        file.file for file in files
    )


@pytest.mark.parametrize(("days", "text"), [(2_932_896, "9999-12-31"), (2_932_897, "+10000-01-01")])
def test_dates_beyond_those_of_python(days, text) -> None:
    times = pa.array([days * 86_400_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    ((folder, _),) = by_folder(pa.record_batch({"publishTime": times}), ("publishDate",))
    assert folder == f"publishDate={text}"


@pytest.mark.parametrize(("codec", "suffix"), [(name, suffix) for name, (_, suffix) in CODECS.items()])
def test_codecs_and_the_names_of_files(tmp_path, codec, suffix) -> None:
    schema = pa.schema([("amount", pa.decimal128(9, 2)), ("value", pa.list_(pa.int32()))])
    batch = pa.record_batch([[Decimal("1.50")] * 1000, [[1, 2]] * 1000], schema=schema)
    with FileWriter(FileLayout(str(tmp_path), ("amount", "value"), SPARK, codec=codec), schema, 0) as writer:
        writer.write(batch)
        (file,) = writer.finish()
    assert file.file.endswith(f"{suffix}.parquet")
    assert file.file.count(".") == 1 + bool(suffix)
    assert (file.messages, file.bytes) == (1000, 0)
    column = pq.ParquetFile(tmp_path / file.file).metadata.row_group(0).column(0)
    expected = {"none": "UNCOMPRESSED", "lz4_raw": "LZ4"}.get(codec, codec.upper())
    assert (column.compression, column.physical_type) == (expected, "INT32")
    assert pq.read_table(tmp_path / file.file).to_batches()[0].equals(batch)


@pytest.mark.parametrize("topics", [1, 3, 20])
def test_the_memory_of_a_task_is_bounded_also_with_many_partitions(tmp_path, monkeypatch, topics) -> None:
    """The first of the topics has half of the rows: the rows of the others must not keep those of the first in memory."""
    monkeypatch.setattr(file_writer, "ROW_GROUP_BYTES", 8 * MEBIBYTE)
    names = [f"t{max(number % (2 * topics) - topics, 0)}" for number in range(1000)]
    layout = FileLayout(str(tmp_path), ("value",), SPARK, ("topic",))
    schema = pa.schema([("topic", pa.string()), ("value", pa.binary())])
    before, most = pa.total_allocated_bytes(), 0
    with FileWriter(layout, schema, 0) as writer:
        for _ in range(64):  # 64 MiB
            writer.write(pa.record_batch([names, [os.urandom(1024)] * 1000], schema=schema))
            most = max(most, pa.total_allocated_bytes() - before)
        files = writer.finish()
    assert most < 14 * MEBIBYTE, "8 MiB, a record batch, its copy by folder, and what Arrow needs to write"
    assert sum(file.messages for file in files) == 64_000
    assert len(files) == topics
    metadata = [pq.read_metadata(tmp_path / file.file) for file in files]
    sizes = [one.row_group(index).total_byte_size for one in metadata for index in range(one.num_row_groups)]
    assert max(sizes) < 9.5 * MEBIBYTE
    assert pa.total_allocated_bytes() - before < 2 * MEBIBYTE


@pytest.mark.parametrize("extra", [0, 1])
def test_the_open_files_of_a_task_are_bounded(tmp_path, monkeypatch, extra) -> None:
    monkeypatch.setattr(file_writer, "MAX_OPEN_FILES", 5)
    numbers = pa.array(range(5 + extra), pa.int32())
    batch = pa.record_batch({"number": numbers, "value": numbers})
    with FileWriter(FileLayout(str(tmp_path), ("value",), SPARK, ("number",)), batch.schema, 0) as writer:
        writer.write(batch)
        writer.write(batch)
        files = writer.finish()
    assert len(files) == (5 if not extra else 12), "one more, and each is closed before its turn comes again"
    assert sum(file.messages for file in files) == 2 * len(batch)


def test_a_task_that_fails_leaves_no_file(tmp_path) -> None:
    def fail() -> None:
        with FileWriter(FileLayout(str(tmp_path), ("value",), SPARK, ("topic",)), ROWS.schema, 0) as writer:
            writer.write(ROWS)
            assert list(tmp_path.rglob("*.parquet"))
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        fail()
    assert not list(tmp_path.rglob("*.parquet"))


def test_without_rows_there_is_no_file(tmp_path) -> None:
    with FileWriter(FileLayout(str(tmp_path), ("value",), SPARK), ROWS.schema, 0) as writer:
        assert writer.finish() == []
    assert list(tmp_path.iterdir()) == []
