"""The table of bench-spark, of one run or put together from several."""

from __future__ import annotations

import json

from bench.spark.__main__ import main
from bench.spark.report import CLIENTS, CONNECTOR, ENGINE, KAFKA, Result, Round, figures, results_of, table

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
