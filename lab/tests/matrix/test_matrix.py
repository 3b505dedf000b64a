"""The matrix of releases reads the reports of its suites, keeps one result for each cell, and writes them as a table."""

import dataclasses
import json
import re
import sys
from pathlib import Path

import pytest
from readonly_engine.demo.report import SubscriptionResult
from readonly_engine.demo.report import render as demo_render

from devstack.common import processes
from devstack.pulsar.spec import default_state
from devstack.pulsar.state import StateFolder
from longtests.churn.report import lines as churn_lines
from longtests.compat.__main__ import select
from longtests.faults.run import Outcome, ProbeResult
from longtests.faults.scenarios import SCENARIOS
from longtests.faults.table import table as faults_table
from longtests.matrix import suites
from longtests.matrix.__main__ import DOCUMENT, FORMER, RELEASES, RESULTS, main, run_cell
from longtests.matrix.cells import Cell, load, merge, save
from longtests.matrix.page import BEGIN, END, table
from longtests.oracle.run import Options, Report

SIZES = suites.Sizes(2.5, 1000)
CELL = Cell("5.0.1", "churn", "make -C lab churn", "2026-11-25", 61.2, passed=True, figures="7 messages")


def test_the_figures_of_the_oracle() -> None:
    report = Report(Options(seed=1, entries=1, topics=1, transactions=0))
    report.total.stored, report.total.delivered = 20_123, 20_000
    assert suites.oracle_figures("\n".join(report.lines())) == (
        "20,123 entries in storage, 20,000 delivered by the owner, 0 differences"
    )


def test_the_figures_of_faults() -> None:
    outcome = Outcome(1200, 0.1, {"Reader": ProbeResult(0.25, 0.1, 0, 0, 0), "consumer": ProbeResult(11, 9, 0, 3, 1)})
    output = "\n".join(["running", *faults_table({SCENARIOS[0]: [outcome], SCENARIOS[1]: [outcome]})])
    assert suites.faults_figures(output) == (
        "2 faults, 2 runs, 2,400 entries; 0 lost, 0 duplicated, 6 redelivered, 2 out of order; longest pause of a Reader 0.2 s"
    )
    assert suites.faults_figures("") == ""


def test_the_figures_of_churn_are_those_of_its_report() -> None:
    labels = [line.split("  ")[0].strip("'\" f") for line in churn_lines.__code__.co_consts if isinstance(line, str)]
    assert {"messages stored", "acks lost in flight", "VIOLATIONS"} <= {label.strip() for label in labels}
    output = "messages stored        2,345\nacks lost in flight    7\nVIOLATIONS             0\n"
    assert suites.churn_figures(output) == "2,345 messages, 0 violations, 7 acks lost in flight"


def test_the_figures_of_compat() -> None:
    counts = "153 features, 3 clients: 440 cells equal (1 of them at a second try), 2 equally wrong by a fault of the client,"
    rest = " 3 different, 4 not offered by the client, 0 failed at the owner"
    assert suites.compat_figures(f"x\n{counts}{rest}; 9 minutes.\n") == f"{counts}{rest}"
    assert suites.compat_figures("x") == ""


@pytest.mark.parametrize(
    ("rest", "added"),
    [("", ""), ("passed alone, having failed beside the others: a.py::b a.py::c\n", "; second try of 2: passed alone")],
)
def test_the_figures_of_integration(rest: str, added: str) -> None:
    output = f"...\ntotal: 9 passed, 0 failures, 0 errors, 1 skipped in 3 min 2 s\n{rest}"
    assert suites.integration_figures(output) == f"9 passed, 0 failures, 0 errors, 1 skipped{added}"
    assert suites.integration_figures("...") == ""


def test_the_figures_of_the_demo() -> None:
    results = [
        SubscriptionResult("exclusive", "Exclusive", 1, 2, [0, 1], 2, 0, 0, ["1:2"], {"demo-0": 2}),
        SubscriptionResult("shared", "Shared", 3, 2, [0, 0], 2, 0, 1, ["1:2"], {"demo-0": 1}),
    ]
    output = f"\n{demo_render(results)}\n\nThe demo took 73 s. To look around:\n"
    assert suites.demo_figures(output) == (
        "2 subscriptions, 4 messages received, 1 lost, 1 duplicated, 1 sent by the owner; 73 s"
    )
    assert suites.demo_figures("x") == ""


def test_each_command_names_release_and_sizes() -> None:
    for suite in suites.SUITES:
        argv = suite.argv("4.2.4", SIZES)
        assert argv[0] == "python" or ("PULSAR=4.2.4" in argv and "METADATA=oxia" not in argv)
        on_oxia = suite.argv("4.2.4+oxia", SIZES)
        assert on_oxia[0] == "python" or {"PULSAR=4.2.4", "METADATA=oxia"} <= set(on_oxia)
    assert "MINUTES=2.5" in next(s for s in suites.SUITES if s.name == "churn").argv("4.2.4", SIZES)
    assert len({suite.name for suite in suites.SUITES}) == len(suites.SUITES)
    assert [str(client) for client in select(list(suites.COMPAT_CLIENTS))] == list(suites.COMPAT_CLIENTS)


@pytest.mark.parametrize(("code", "output"), [(0, "3 things"), (1, "3 things"), (1, "")])
def test_a_cell_is_what_its_command_said(tmp_path: Path, code: int, output: str) -> None:
    words = "os.environ['PULSAR_READONLY_PULSAR'], os.environ['PULSAR_READONLY_METADATA']"
    program = f"import os, sys; print({output!r}, {words}); sys.exit({code})"
    suite = suites.Suite("short", lambda _, __: ["python", "-c", program], lambda text: text.strip() if output else "")
    cell = run_cell("4.2.4", suite, SIZES, tmp_path / "log", {})
    assert (cell.release, cell.suite, cell.passed) == ("4.2.4", "short", code == 0)
    assert cell.figures == ("3 things 4.2.4 zookeeper" if output else f"no report; exit status {code}")
    assert cell.command.startswith("PULSAR_READONLY_PULSAR=4.2.4 PULSAR_READONLY_METADATA=zookeeper python -c")
    assert sys.executable not in cell.command
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", cell.date)
    assert re.fullmatch(r"\d+ CPUs, \S+, Python [\d.]+\S*", cell.machine)


def test_cells_of_before_have_no_machine(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    row = {name: value for name, value in dataclasses.asdict(CELL).items() if name != "machine"}
    path.write_text(json.dumps([row]))
    assert load(path) == [CELL]
    assert CELL.machine == ""


def test_a_release_on_oxia_is_told_to_its_command(tmp_path: Path) -> None:
    program = "import os; print(os.environ['PULSAR_READONLY_PULSAR'], os.environ['PULSAR_READONLY_METADATA'])"
    suite = suites.Suite("short", lambda _, __: ["python", "-c", program], str.strip)
    assert run_cell("4.2.4+oxia", suite, SIZES, tmp_path / "log", {}).figures == "4.2.4 oxia"


def test_secure_stores_are_told_to_its_command(tmp_path: Path) -> None:
    program = "import os; print(os.environ['PULSAR_READONLY_STORES'], os.environ['PULSAR_READONLY_METADATA'])"
    suite = suites.Suite("short", lambda _, __: ["python", "-c", program], str.strip, secure=True)
    cell = run_cell("4.0.8+secure", suite, SIZES, tmp_path / "log", {})
    assert cell.figures == "secure zookeeper"
    assert "PULSAR_READONLY_STORES=secure" in cell.command


def test_a_new_result_replaces_that_of_its_cell_only(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert load(path) == []
    other = dataclasses.replace(CELL, release="4.2.4")
    save(path, merge(merge([], CELL), other))
    newer = dataclasses.replace(CELL, passed=False)
    save(path, merge(load(path), newer))
    assert load(path) == [other, newer]


def test_the_table_is_by_release_and_suite() -> None:
    oracle = dataclasses.replace(CELL, suite="oracle-2026", passed=False)
    rows = table([CELL, oracle, dataclasses.replace(CELL, release="4.2.4")])[2:]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| 4.2.4", "churn"],
        ["| 5.0.1", "oracle-2026"],
        ["| 5.0.1", "churn"],
    ]
    assert rows[1].split(" | ")[3:5] == ["**failed**", "1.0"]


def test_the_page_has_the_kept_results() -> None:
    cells = load(RESULTS)
    made = "\n".join([BEGIN, *table(cells), END])
    assert made in DOCUMENT.read_text(encoding="utf-8")
    assert {cell.release for cell in cells} <= {*RELEASES, *FORMER}
    assert {cell.suite for cell in cells} <= {suite.name for suite in suites.SUITES}


@pytest.mark.parametrize("options", [["--only", "1.0.0"], ["--suite", "none"], ["--minutes", "0"]])
def test_a_wrong_option_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err


def test_it_does_not_begin_beside_a_stack_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PULSAR_READONLY_CACHE", str(tmp_path))
    stack = StateFolder(default_state("left over"))
    stack.make()
    program = (sys.executable, "-c", "import time; time.sleep(60)")
    server = processes.Server("zookeeper", 1, program, {}, stack.record("zookeeper"), stack.log("zookeeper"), "")
    server.start()
    try:
        assert main(["--only", "4.2.4", "--suite", "integration"]) == 2
    finally:
        processes.stop([server.record], 10)
    assert f"down --state '{stack.root}'" in capsys.readouterr().err
    assert not (tmp_path / "matrix").exists()
