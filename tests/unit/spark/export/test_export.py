"""What `pulsar-readonly export` decides without Spark: its options, its checkpoint, its sums, what it removes."""

import json
import logging
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from pyspark.sql import types
from readonly_spark.export.checkpoint import Checkpoint
from readonly_spark.export.command import _cause, main, parser, settings_of
from readonly_spark.export.errors import ExportError
from readonly_spark.export.field_names import check_field_names
from readonly_spark.export.files import LocalFiles
from readonly_spark.export.leftovers import file_name, remove_leftovers
from readonly_spark.export.metrics import ExportMetrics
from readonly_spark.export.settings import ExportSettings, pairs, start_options
from readonly_spark.export.totals import Totals, progress_line, summary, summary_text
from readonly_spark.lag.listener import LagListener
from readonly_spark.lag.metrics import parse_address
from readonly_spark.lag.topic_lag import TopicLag
from readonly_spark.options import OptionError

from bench.spark.common import inserted
from bench.spark.report import CLIENTS, Result, Round, table
from devstack.common.ports import free_port

SOURCE = {"metadataStoreUrl": "zk:h:2181", "topics": "a,b"}
TOPIC = "persistent://public/default/a"


def settings(tmp_path: Path, **changed: object) -> ExportSettings:
    return ExportSettings(
        **{"source": SOURCE, "to": f"{tmp_path}/t", "checkpoint": f"{tmp_path}/c", **changed}  # type: ignore[arg-type]
    )


def of(tmp_path: Path, *words: str) -> ExportSettings:
    given = ["--metadata-store-url", "zk:h:2181", "--topics", "a", "--to", "t", *words]
    return settings_of(parser().parse_args(given), tmp_path)


# Options


def test_a_command_line_becomes_options_of_the_source(tmp_path) -> None:
    made = of(
        tmp_path, "--from", "2026-11-21T12:00:00Z", "--option", "readsInFlight=8", "--partition-by", "publishDate"
    )
    assert made.source == {
        "metadataStoreUrl": "zk:h:2181",
        "topics": "a",
        "startingTimestamp": "2026-11-21T12:00:00Z",
        "maxBytesPerTrigger": "512MiB",
        "readsInFlight": "8",
    }
    assert (made.to, made.checkpoint) == (f"{tmp_path}/t", f"{tmp_path}/t/_checkpoint")
    assert made.table_columns[-1] == "publishDate"


def test_places_elsewhere_stay_as_they_are(tmp_path) -> None:
    made = of(tmp_path, "--to", "s3a://lake/t/", "--checkpoint", "s3a://lake/c")
    assert (made.to, made.checkpoint) == ("s3a://lake/t/", "s3a://lake/c")
    assert of(tmp_path, "--to", "s3a://lake/t/").checkpoint == "s3a://lake/t/_checkpoint"


@pytest.mark.parametrize(
    ("words", "cores", "mebibytes"),
    [
        ((), 1, 256),
        ((), 2, 256),
        ((), 16, 32),
        ((), 64, 8),
        ((), 1000, 8),
        (("--max-bytes-per-batch", "8GiB"), 64, 128),
        (("--max-bytes-per-batch", "1MiB"), 4, 8),
        (("--option", "maxMessagesPerTrigger=1000"), 8, 32),
        (("--option", "MaxBytesPerPartition=1MiB"), 1, 1),
        (("--option", "maxBytesPerPartition=1GiB"), 64, 1024),
    ],
)
def test_a_full_micro_batch_occupies_all_cores(tmp_path, words, cores, mebibytes) -> None:
    assert of(tmp_path, *words).task_size(cores) == mebibytes << 20


def test_what_is_derived_is_read_from_what_it_is_made_of(tmp_path) -> None:
    made = settings(tmp_path, columns=("value",), partition_by=("publishHour",))
    assert made.source_columns == ("value", "publishTime")
    assert made.table_columns == ("value", "publishHour")
    assert settings(tmp_path, columns=("value", "topic")).source_columns == ("value", "topic")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"columns": ("valeu",)}, "--columns: unknown column 'valeu'"),
        ({"columns": ("value", "value")}, "--columns names a column twice"),
        ({"partition_by": ("date",)}, "--partition-by: unknown column 'date'"),
        ({"partition_by": ("value",)}, "value is binary; use a column such as publishDate or topic"),
        ({"partition_by": ("topic", "topic")}, "--partition-by names a column twice"),
        ({"columns": ("value",), "partition_by": ("topic",)}, "topic is not among --columns"),
        ({"columns": ("topic",), "partition_by": ("topic",)}, "--partition-by names every column"),
        ({"catalog": {"uri": "x"}}, "--catalog is for --format iceberg"),
        ({"expire_snapshots_h": 1.0}, "--expire-snapshots is for --format iceberg"),
        ({"table": "messages"}, "'messages' must be NAMESPACE.NAME"),
        ({"checkpoint": "/t", "to": "/t/"}, "--checkpoint and --to are the same"),
        ({"checkpoint": "s3a://l/t", "to": "s3://l//t/"}, "--checkpoint and --to are the same"),
        (
            {"checkpoint": "/t/_pulsar-readonly/c", "to": "/t/"},
            "_pulsar-readonly belongs to the table; use _checkpoint",
        ),
        ({"checkpoint": "/c", "to": "/c/t"}, "--to /c/t is inside of --checkpoint /c"),
        ({"source": {**SOURCE, "strat": "x"}}, "unknown option 'strat'"),
        ({"source": {"metadataStoreUrl": "zk:h:2181"}}, "no topic is named"),
    ],
)
def test_one_clear_error_for_what_cannot_be(tmp_path, changed, told) -> None:
    with pytest.raises(ExportError) as caught:
        settings(tmp_path, **changed)
    assert told in str(caught.value)


@pytest.mark.parametrize("to", ["t", "/t", "file:///t"])
@pytest.mark.parametrize("master", ["spark://h:7077", "k8s://https://h", "yarn"])
def test_a_local_path_and_executors_elsewhere_are_refused(tmp_path, to, master) -> None:
    with pytest.raises(
        ExportError, match=rf"--to .*t is a local path, and executors of --master {master} .*--shared-folder"
    ):
        of(tmp_path, "--to", to, "--master", master)
    shared = of(tmp_path, "--to", to, "--master", master, "--shared-folder")
    path = tmp_path / "t" if to == "t" else "/t"
    assert shared.required_file == {"requiredFile": f"{path}/_pulsar-readonly/table.json"}
    assert of(tmp_path, "--to", "s3a://lake/t", "--master", master, "--shared-folder").required_file == {}
    assert of(tmp_path, "--to", to).required_file == {}
    for local in ("local", "local[*]", "local[2,3]", "local-cluster[2,1,1024]"):
        of(tmp_path, "--to", to, "--master", local)
    with pytest.raises(ExportError, match="is a local path"):  # as spark-submit names it
        of(tmp_path, "--to", to).check_master(master)


def test_errors_of_the_command_line(tmp_path, capsys, monkeypatch) -> None:
    with pytest.raises(ExportError, match="--option topics: use the command's own option"):
        of(tmp_path, "--option", "topics=x")
    with pytest.raises(ExportError, match="--option 'x' must be NAME=VALUE"):
        pairs("--option", ["x"])
    with pytest.raises(ExportError, match="--conf a is given twice"):
        pairs("--conf", ["a=1", "a=2"])
    monkeypatch.delenv("PULSAR_READONLY_METADATA_STORE_URL", raising=False)
    assert main(["--topics", "a", "--to", str(tmp_path)]) == 1
    assert "--metadata-store-url is missing" in capsys.readouterr().err
    # py4j logs a stack trace of what ends a query.
    assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR)


@pytest.mark.parametrize(
    ("start", "option"),
    [("earliest", "startingOffsets"), ('{"a": "1:2"}', "startingOffsets"), ("1700000000000", "startingTimestamp")],
)
def test_where_it_begins(start, option) -> None:
    assert start_options(start) == {option: start}


@pytest.mark.parametrize(("schema", "decodes"), [("auto", True), ("raw", False), (None, False)])
def test_values_are_decoded_where_a_schema_is_asked_for(tmp_path, schema, decodes) -> None:
    more = {} if schema is None else {"valueschema": schema}
    assert settings(tmp_path, source={**SOURCE, **more}).decodes == decodes
    assert not settings(tmp_path, source={**SOURCE, **more}, columns=("key",)).decodes


def record(**fields: types.DataType) -> types.DataType:
    return types.StructType([types.StructField(name, kind) for name, kind in fields.items()])


INT = types.IntegerType()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (record(id=INT, name=INT), None),
        (record(a=record(id=INT), b=record(ID=INT)), None),
        (record(id=INT, name=INT, ID=INT), "value.id and value.ID"),
        (record(a=types.ArrayType(record(Ab=INT, aB=INT))), "value.a[].Ab and value.a[].aB"),
        (types.MapType(types.StringType(), record(x=INT, X=INT)), "value{}.x and value{}.X"),
    ],
)
def test_fields_whose_names_differ_in_case_only_are_refused(kind, told) -> None:
    if told is None:
        check_field_names(kind.jsonValue(), "value")
        return
    with pytest.raises(ExportError, match=re.escape(f"the fields {told} differ in case only")):
        check_field_names(kind.jsonValue(), "value")


# The checkpoint


HOLDER = """
import sys
from readonly_spark.export.checkpoint import Checkpoint
from readonly_spark.export.settings import ExportSettings
source = {"metadataStoreUrl": "zk:h:2181", "topics": "a,b"}
with Checkpoint(ExportSettings(source=source, to=f"{sys.argv[1]}/t", checkpoint=f"{sys.argv[1]}/c")):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_export_on_the_same_checkpoint_is_refused_until_the_first_has_gone(tmp_path) -> None:
    words = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(ExportError, match=rf"is in use by another export \(process {holder.pid} on "):
                Checkpoint(settings(tmp_path))
        finally:
            holder.kill()  # the lock goes with who held it, however that ended
    Checkpoint(settings(tmp_path)).close()


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"to": "/elsewhere"}, "to"),
        ({"table_format": "delta"}, "format"),
        ({"source": {**SOURCE, "topics": "a"}}, "topics"),
        ({"columns": ("value",)}, "columns"),
        ({"partition_by": ("topic",)}, "partitionBy"),
    ],
)
def test_a_checkpoint_stays_with_its_export(tmp_path, changed, name) -> None:
    Checkpoint(settings(tmp_path)).close()
    Checkpoint(settings(tmp_path, source={**SOURCE, "readsInFlight": "2"})).close()
    with pytest.raises(ExportError, match=f"belongs to an export with another {name}: "):
        Checkpoint(settings(tmp_path, **changed))
    Checkpoint(settings(tmp_path)).close()


def test_of_two_exports_that_begin_a_checkpoint_elsewhere_one_gets_it(tmp_path) -> None:
    class BeginsEarlier(LocalFiles):
        """Another export of another table takes the checkpoint between two steps of this one."""

        def create(self, name: str, content: bytes) -> bool:
            Checkpoint(settings(tmp_path, to="/elsewhere"), LocalFiles("s3a://lake/c", str(tmp_path / "c"))).close()
            return super().create(name, content)

    with pytest.raises(ExportError, match="belongs to an export with another to: '/elsewhere'"):
        Checkpoint(settings(tmp_path), BeginsEarlier("s3a://lake/c", str(tmp_path / "c")))


def test_a_checkpoint_that_cannot_be_made_or_read(tmp_path) -> None:
    (tmp_path / "c").write_text("a file")
    with pytest.raises(ExportError, match=r"--checkpoint .*File exists"):
        Checkpoint(settings(tmp_path))
    Checkpoint(settings(tmp_path, checkpoint=f"{tmp_path}/d")).close()
    (tmp_path / "d" / "_pulsar-readonly.json").write_text("{")
    with pytest.raises(ExportError, match="is damaged"):
        Checkpoint(settings(tmp_path, checkpoint=f"{tmp_path}/d"))


def test_a_run_knows_where_the_last_one_ended(tmp_path) -> None:
    with Checkpoint(settings(tmp_path)) as checkpoint:
        assert checkpoint.next_entries() == {}
        for name in ("commits", "offsets"):
            (tmp_path / "c" / name).mkdir()
        for batch, end in enumerate(("1:0", "1:5", "1:9")):
            (tmp_path / "c" / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'t': {TOPIC: end}})}")
        for batch in range(2):
            (tmp_path / "c" / "commits" / str(batch)).write_text("v1\n{}")
        assert checkpoint.next_entries() == {TOPIC: "1:5"}, "the last batch was begun, and not finished"
        (tmp_path / "c" / "offsets" / "1").write_text("v1\n")
        assert checkpoint.next_entries() == {}


def test_the_type_of_values_stays_that_of_the_first_run(tmp_path) -> None:
    for newest in ("struct<a:int>", "struct<a:int,b:int>"):
        with Checkpoint(settings(tmp_path)) as checkpoint:
            assert checkpoint.pinned_value_type(lambda newest=newest: newest) == "struct<a:int>"


# Files that do not count


OWN = "0f2f0a3e-2b7b-4f5f-9c0e-5b6f1f0d7a11"
OTHER = "9d1c4b1a-8a0e-4c9e-8f0b-1d2e3f4a5b6c"


def test_files_of_this_export_that_no_finished_batch_wrote_are_removed_and_no_others(tmp_path) -> None:
    names = [
        f"topic=a%3Ab/{file_name(0, OWN, 0, 'snappy.parquet')}",  # counted
        f"topic=a%3Ab/{file_name(1, OWN, 0, 'snappy.parquet')}",
        file_name(2, OWN, 1, "parquet"),
        f"_checkpoint/{file_name(3, OWN, 1, 'parquet')}",
        file_name(0, OTHER, 1, "snappy.parquet"),
        f"part-00000-{OWN}.c000.snappy.parquet",
        f"part-00000-{OWN}-c000.snappy.parquet",
        "part-2.parquet",
    ]
    for name in (*names, "_pulsar-readonly/staging/1/part-00000.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    counted = {"path": (tmp_path / names[0]).as_uri(), "action": "add", "size": 0}
    (log / "0").write_text("v1\n" + json.dumps(counted))
    (log / ".0.crc").write_bytes(b"\x00")
    assert remove_leftovers(tmp_path, {OWN}) == 2
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*part-*")}
    assert left == {names[0], *names[3:]}
    (tmp_path / names[2]).write_bytes(b"")
    for damaged in ("v2\n", "v1\n{", "v1\n{}"):
        (log / "1").write_text(damaged)
        assert remove_leftovers(tmp_path, {OWN}) == 0, "a log that is not understood"


def test_without_a_log_nothing_was_finished_but_foreign_files_stay(tmp_path) -> None:
    (tmp_path / file_name(0, OWN, 0, "snappy.parquet")).write_bytes(b"")
    (tmp_path / "part-00000-3b0a3c1e-5c3c-4f2e-9b53-0d3f1e0d8a11-c000.snappy.parquet").write_bytes(b"")
    assert remove_leftovers(tmp_path, {OWN}) == 1
    assert [path.name[:19] for path in tmp_path.iterdir()] == ["part-00000-3b0a3c1e"]


# Sums


def report(batch: int, messages: int, end: str, *, idle: bool = False) -> dict[str, object]:
    return {
        "batchId": batch,
        "durationMs": {"latestOffset": 1} if idle else {"addBatch": 1},
        "observedMetrics": {"export": {"messages": messages, "bytes": messages * 10}},
        "sources": [{"endOffset": json.dumps({"c": "x", "t": {TOPIC: end}, "v": 1})}],
    }


def test_each_micro_batch_counts_once() -> None:
    totals = Totals()
    for progress in (report(0, 5, "1:5"), report(0, 5, "1:5"), report(1, 0, "1:5", idle=True), report(1, 7, "2:1")):
        totals.add(progress)
    assert (totals.batches, totals.messages, totals.value_bytes, totals.ends) == (2, 12, 120, {TOPIC: "2:1"})
    totals.add({**report(2, 0, "2:2"), "observedMetrics": {}}, {2: (3, 4)})
    assert (totals.messages, totals.value_bytes) == (15, 124)


def test_a_line_and_a_summary_tell_how_far_it_is() -> None:
    totals = Totals()
    totals.add(report(0, 1000, "1:5"))
    lags = [TopicLag(TOPIC, 2, 3e6, 7.0, 12.5), TopicLag(f"{TOPIC}2", 0, 0)]
    assert progress_line(totals, 7.0, lags) == (
        f"1,000 messages, 0.0 MB in 1 batches, 7 s; 7 messages, 3.0 MB, 12 s behind in 1 of 2 topics, largest lag: {TOPIC} (7)"
    )
    assert progress_line(totals, 7.0, []).endswith("no lag")
    found = summary(totals, 2.0, lags)
    assert found["topics"][TOPIC] == {
        "next": "1:5", "lagMessages": 7, "lagEntries": 2, "lagBytes": 3000000, "lagSeconds": 12.5
    }  # fmt: skip
    assert summary_text(found, "/t").splitlines() == [
        "exported 1,000 messages (0.0 MB) to /t in 2.0 s: 500 messages/s, 1 batches",
        f"  {TOPIC}: next entry 1:5, 7 messages behind",
        f"  {TOPIC}2: next entry unchanged, 0 messages behind",
    ]


def test_of_a_long_error_what_went_wrong_is_told() -> None:
    text = "[STREAM_FAILED] Query terminated\nreadonly_spark.errors.DataLossError: a: entries are gone\n  at x\n\tat y"
    assert _cause(text) == "a: entries are gone"
    assert _cause(" anything else ") == "anything else"


@pytest.mark.parametrize(
    ("module", "advice"),
    [
        ("readonly_spark.source", "lack package readonly_spark; use --ship-code"),
        ("pyarrow", "install pulsar-"),
    ],
)
def test_packages_that_workers_lack_are_named(module, advice):
    text = (
        f"Failed to create\n  in read\nModuleNotFoundError: No module named '{module}'\n SQLSTATE: 38000\n=== Query ==="
    )
    assert advice in _cause(text)
    assert len(_cause(text).splitlines()) == 1


# The table of the bench


def test_the_bench_counts_the_cpu_of_all_processes() -> None:
    rounds = tuple(Round(1000, 100, 2.0, cpu, 1.0) for cpu in (3.0, 4.0, 9.0))
    results = [Result("a topic", "noop", client, rounds) for client in CLIENTS]
    lines = table(results).splitlines()
    assert lines[2] == "| a topic | noop | pulsar-readonly | 500 | 0 | 200 | 75% | 4.0 s | 1.0 s |  |"
    assert lines[3].endswith("| 1.00 |")
    text = "a\n<!-- spark: made by make -C lab bench-spark -->\nold\n<!-- end of spark -->\nz\n"
    assert inserted(text, "spark", "new") == text.replace("old", "new")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9100", ("0.0.0.0", 9100)),
        ("127.0.0.1:9100", ("127.0.0.1", 9100)),
        ("[::1]:9100", ("::1", 9100)),
        ("host-1:1", ("host-1", 1)),
    ],
)
def test_addresses_of_metrics(text, expected) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "0", "65536", "host", "a:b", "http://host:1", "1:2:3"])
def test_addresses_of_metrics_that_are_refused(text) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT or PORT"):
        parse_address(text)


def test_metrics_of_an_export() -> None:
    port = free_port()
    totals = Totals(messages=5, value_bytes=70, batches=2)
    with ExportMetrics(totals, ("127.0.0.1", port)) as metrics:
        metrics.measured([TopicLag("a", 3, 1000.0, 12.0, 1.5), TopicLag("b", 0, 0.0)], 1764000000.5)
        with pytest.raises(
            ExportError, match=f"--metrics 127.0.0.1:{port}: Address already in use; choose a free address"
        ):
            ExportMetrics(totals, ("127.0.0.1", port))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    assert {line for line in lines if not line.startswith("#")} == {
        "pulsar_readonly_export_messages_total 5.0",
        "pulsar_readonly_export_value_bytes_total 70.0",
        "pulsar_readonly_export_batches_total 2.0",
        'pulsar_readonly_export_lag_messages{topic="a"} 12.0',
        'pulsar_readonly_export_lag_messages{topic="b"} 0.0',
        'pulsar_readonly_export_lag_entries{topic="a"} 3.0',
        'pulsar_readonly_export_lag_entries{topic="b"} 0.0',
        'pulsar_readonly_export_lag_bytes{topic="a"} 1000.0',
        'pulsar_readonly_export_lag_bytes{topic="b"} 0.0',
        'pulsar_readonly_export_lag_seconds{topic="a"} 1.5',
        'pulsar_readonly_export_lag_seconds{topic="b"} 0.0',
        "pulsar_readonly_export_lag_measured_timestamp_seconds 1.7640000005e+09",
    }


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"query": ""}, "query: name the query, by queryName of its writer too"),
        ({"metrics": "here"}, "metrics: 'here' must be HOST:PORT or PORT"),
        ({"every_s": 0.0}, "every_s: 0.0 must be above 0"),
        ({"every_s": float("nan")}, "every_s: nan must be above 0"),
        ({"options": {"topic": "a"}}, "metadataStoreUrl is missing"),
    ],
)
def test_a_wrong_argument_of_the_listener_is_refused(wrong, told) -> None:
    arguments = {"options": SOURCE, "query": "orders", **wrong}
    with pytest.raises(OptionError, match=re.escape(told)):
        LagListener(**arguments)
