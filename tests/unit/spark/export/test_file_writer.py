"""Parquet files of a task: their rows, folders and footers, and what a task holds in memory."""

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore
from readonly_spark.export import file_writer, store_leftovers
from readonly_spark.export.destinations import LocalDestination, StoreDestination
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


@pytest.fixture(params=[LocalDestination, StoreDestination])
def destination(request, tmp_path) -> Any:
    """A folder, and a prefix in a store; each has a function that lists its files with their contents."""
    if request.param is LocalDestination:
        folder = tmp_path / "table"
        made: Any = LocalDestination(str(folder))
        made.found = lambda: {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }
        return made
    store = MemoryStore()
    made = StoreDestination(store, "lake/table")
    made.found = lambda: {
        str(one["path"]).removeprefix("lake/table/"): bytes(obstore.get(store, one["path"]).bytes())
        for one in obstore.list(store).collect()
    }
    return made


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
    with FileWriter(FileLayout(columns, SPARK, by), LocalDestination(str(tmp_path)), ROWS.schema, 7) as writer:
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
    with FileWriter(
        FileLayout(("amount", "value"), SPARK, codec=codec), LocalDestination(str(tmp_path)), schema, 0
    ) as writer:
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
    layout = FileLayout(("value",), SPARK, ("topic",))
    schema = pa.schema([("topic", pa.string()), ("value", pa.binary())])
    before, most = pa.total_allocated_bytes(), 0
    with FileWriter(layout, LocalDestination(str(tmp_path)), schema, 0) as writer:
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
def test_the_open_files_of_a_task_are_bounded(destination, extra) -> None:
    destination.most_open = 5
    numbers = pa.array(range(5 + extra), pa.int32())
    batch = pa.record_batch({"number": numbers, "value": numbers})
    with FileWriter(FileLayout(("value",), SPARK, ("number",)), destination, batch.schema, 0) as writer:
        writer.write(batch)
        writer.write(batch)
        files = writer.finish()
    assert len(files) == (5 if not extra else 12), "one more, and each is closed before its turn comes again"
    assert sum(file.messages for file in files) == 2 * len(batch)


def test_the_same_files_are_in_a_folder_and_in_a_store(destination) -> None:
    with FileWriter(FileLayout(("value",), SPARK, ("topic",)), destination, ROWS.schema, 3) as writer:
        writer.write(ROWS)
        files = writer.finish()
    found = destination.found()
    assert sorted(found) == sorted(file.file for file in files)
    assert {name.rpartition("/")[0] for name in found} == {
        "topic=a", "topic=b", f"topic={NONE}", "topic=a%2Fb%3Dc d%09%3A\xfc"
    }  # fmt: skip
    rows = [value for content in found.values() for value in pq.read_table(pa.BufferReader(content))["value"]]
    assert len(rows) == len(ROWS)
    assert all(store_leftovers._written_by_sink(name) for name in found), "a killed export's can be found"


@pytest.mark.parametrize("most", [1, 64])
def test_a_task_that_fails_leaves_no_file(destination, most) -> None:
    """With one open file all others are complete."""

    def fail() -> None:
        with FileWriter(FileLayout(("value",), SPARK, ("topic",)), destination, ROWS.schema, 0) as writer:
            writer.write(ROWS)
            assert (len(destination.found()) > 0) == (most == 1 or isinstance(destination, LocalDestination))
            raise OSError("no space left")

    destination.most_open = most
    with pytest.raises(OSError, match="no space left"):
        fail()
    assert destination.found() == {}


class Refusing:
    """An upload that fails at a step, perhaps after the store has made the object."""

    def __init__(self, upload: Any, step: str, *, after: bool) -> None:
        self._upload, self._step, self._after = upload, step, after

    def write(self, content: bytes) -> int:
        return self._fail("write") or self._upload.write(content)

    def close(self) -> None:
        if self._after:
            self._upload.close()
        self._fail("close")
        self._upload.close()

    def _fail(self, step: str) -> int:
        if step == self._step:
            raise GenericError("503 slow down\n\nDebug source: a long text")
        return 0


@pytest.mark.parametrize(("step", "after"), [("write", False), ("close", False), ("close", True)])
def test_an_upload_that_fails_leaves_no_object(monkeypatch, step, after) -> None:
    store = MemoryStore()
    begin = obstore.open_writer
    monkeypatch.setattr(obstore, "open_writer", lambda *a, **b: Refusing(begin(*a, **b), step, after=after))

    def write() -> None:
        with FileWriter(FileLayout(("value",), SPARK), StoreDestination(store, ""), ROWS.schema, 0) as writer:
            writer.write(ROWS)
            writer.finish()

    with pytest.raises(OSError, match=r"503 slow down$"):
        write()
    assert obstore.list(store).collect() == []


def test_without_rows_there_is_no_file(tmp_path) -> None:
    with FileWriter(FileLayout(("value",), SPARK), LocalDestination(str(tmp_path)), ROWS.schema, 0) as writer:
        assert writer.finish() == []
    assert list(tmp_path.iterdir()) == []
