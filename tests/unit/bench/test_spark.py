"""The table of bench-spark, of one run or put together from several."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.spark.__main__ import main
from bench.spark.latency import Latencies, report, rows_of
from bench.spark.latency import main as latency_main
from bench.spark.report import CLIENTS, CONNECTOR, ENGINE, KAFKA, Result, Round, figures, results_of, table
from devstack.errors import DevstackError

CPU = {ENGINE: 1.0, KAFKA: 2.0, CONNECTOR: 4.0}


def result(client, case="1 KB, 1 ledger", sink="noop", more=0.0):
    rounds = tuple(Round(1000, 1024, 2.0, CPU[client] + extra, 1.0 + more) for extra in (0.0, 0.1, 0.2))
    return Result(case, sink, client, rounds)


def file(folder, name, results):
    path = folder / name
    path.write_text(json.dumps(figures(results, machine="m", rounds=3)))
    return str(path)


def test_rows_per_core_second_count_the_servers_and_are_compared():
    lines = table([result(client) for client in CLIENTS]).splitlines()[2:]
    assert lines[0] == ("| 1 KB, 1 ledger | noop | pulsar-readonly | 500 | 1 | 476 | 10% | 1.1 s | 1.0 s |  |")
    assert lines[1].endswith("| 323 | 6% | 2.1 s | 1.0 s | 1.48 |")
    assert lines[2].endswith("| 2.43 |")


def test_what_was_measured_case_by_case_makes_one_table(tmp_path, capsys):
    first = file(tmp_path, "1", [result(client) for client in CLIENTS])
    second = file(tmp_path, "2", [result(client, "100 B, 20 ledgers") for client in CLIENTS])
    again = file(tmp_path, "3", [result(client, more=1.0) for client in CLIENTS])
    assert main(["--from", first, second, again]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| 100 B, 20 ledgers"] * 3 + ["| 1 KB, 1 ledger"] * 3
    assert "| 2.0 s |" in lines[3], "the later ones count"


def test_figures_survive_a_file():
    results = [result(client) for client in CLIENTS]
    assert results_of([json.loads(json.dumps(figures(results, machine="m", rounds=3)))]) == results


def written(folder, name, when, *files):
    """A log of a table of Spark, written at a time, which names files with the publish times of their rows."""
    log = folder / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    lines = ["v1"]
    for file_name, times in files:
        path = folder / file_name
        moments = pa.array([datetime.fromtimestamp(time, UTC) for time in times], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"publishTime": moments}), path)
        lines.append(json.dumps({"path": f"file://{path}"}))
    (log / name).write_text("\n".join(lines))
    os.utime(log / name, (when, when))


def test_the_latency_of_a_row_ends_with_the_first_log_that_names_its_file(tmp_path):
    table = tmp_path / "a table"
    written(table, "8", 100.5, ("one", [100.0, 100.2]))
    written(table, "9.compact", 101.0, ("one", [100.0, 100.2]), ("two", [100.9]))
    (table / "_spark_metadata" / ".9.compact.crc").write_text("")
    written(table, "10", 103.0, ("three", [102.0]))
    assert [(time, round(latency, 3)) for time, latency in rows_of(table, "publishTime")] == [
        (100.0, 0.5), (100.2, 0.3), (100.9, 0.1), (102.0, 1.0)
    ]  # fmt: skip


def test_a_table_without_rows_is_no_result(tmp_path):
    written(tmp_path / "table", "0", 1.0)
    with pytest.raises(DevstackError, match="has no rows"):
        rows_of(tmp_path / "table", "publishTime")


def test_the_report_of_latencies():
    def of(client, *high):
        return [Latencies(client, tuple(sorted([0.1] * 98 + [most, most]))) for most in high]

    lines = report([*of(ENGINE, 0.3, 0.4, 0.5), *of(KAFKA, 0.8, 0.2, 0.9)]).splitlines()
    assert lines[2] == "| pulsar-readonly | 300 | 100 ms | 400 ms | 300 to 500 ms |"
    assert lines[3] == "| Kafka source | 300 | 100 ms | 800 ms | 200 to 900 ms |"
    assert lines[-1] == "Ratio of the p99, pulsar-readonly to Kafka source: 0.50"


@pytest.mark.parametrize("options", [["--rounds", "0"], ["--seconds", "29"]])
def test_a_round_of_the_latency_bench_has_a_measured_part(options, capsys):
    with pytest.raises(SystemExit):
        latency_main(options)
    assert "--seconds at least 30" in capsys.readouterr().err
