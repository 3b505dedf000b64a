"""The tables of a walk, which docs/how-to/release.md and the page of evidence show."""

from __future__ import annotations

import pytest

from docsite import evidence
from docsite.results import UNKNOWN, ResultsError
from tests.faults.table import write
from tests.release_walk.judging import Losses
from tests.release_walk.report import BEGIN, DOCUMENT, END, FIRST_STEPS, Report


def made(lost=()):
    report = Report("0.1.0", "c" * 40, published=1200)
    report.steps = {"check the files": 0.5, **dict.fromkeys(FIRST_STEPS, 10.04)}
    report.losses = {"shared": Losses(1200 - len(lost), lost, (3,), ())}
    return report


def test_the_tables_have_steps_and_subscriptions():
    rows = made().rows()
    assert rows[0] == (
        "Release 0.1.0 of commit cccccccccccc, 1,200 messages during the rollback, 0 lost, 0 objects or nodes left."
    )
    assert "| check the files | 0.5 s |" in rows
    assert "| from helm install to the first message | 30.1 s |" in rows
    assert rows[-1] == "| shared | 1,200 | 1,200 | 0 | 1 |"


def test_a_step_that_fails_has_no_duration():
    report = Report("0.1.0", "c" * 40)
    with pytest.raises(ValueError, match="no"), report.timed("a step"):
        raise ValueError("no")
    with report.timed("another"):
        pass
    assert list(report.steps) == ["another"]


def page(tmp_path, rows):
    path = tmp_path / "release.md"
    path.write_text(f"text\n{BEGIN}\nNot run yet.\n{END}\n")
    write(path, ["<!-- run of 2026-11-26; 2 CPUs -->", *rows], (BEGIN, END))
    return path


def test_the_page_of_evidence_has_the_result(tmp_path):
    row = evidence._release(page(tmp_path, made().rows()))
    assert row[2:5] == ["2026-11-26", "2 CPUs", evidence.PASSED]
    assert row[5] == "0 lost in the rollback; from helm install to the first message: 30.1 s"
    assert evidence._release(page(tmp_path, made(lost=(1, 2)).rows()))[4] == evidence.FAILED
    with pytest.raises(ResultsError, match="must have two tables, not 1"):
        evidence._release(page(tmp_path, ["| step | duration |", "|---|---|", "| a | 1 s |"]))


def test_before_the_first_run_it_says_so(tmp_path):
    path = tmp_path / "release.md"
    path.write_text(f"{BEGIN}\nNot run yet.\n{END}\n")
    assert evidence._release(path)[2:6] == [UNKNOWN, UNKNOWN, "", "not run yet"]
    assert BEGIN in DOCUMENT.read_text(encoding="utf-8")
