"""docs/reference/evidence.md: made from the files of results, with failures, and with what they do not record."""

import json
import re
import shutil

import pytest

from bench.document import machine
from docsite import evidence
from docsite.__main__ import DOCS
from docsite.results import STAMP, UNKNOWN, ResultsError, records
from tests.support.stamp import stamp

ROOT = DOCS.parent
FILES = (
    "lab/longtests/chaos/results.json",
    "lab/longtests/matrix/results.json",
    "docs/testing/chaos.md",
    "docs/testing/hostile-clients.md",
    "docs/testing/messages.md",
    "docs/testing/model.md",
    "docs/how-to/release.md",
    "docs/reference/compatibility.md",
    "docs/explanation/performance/fan-out.json",
)


@pytest.fixture
def tree(tmp_path):
    """A copy of the files that the page is made from, one bench among them."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def row(page: str, subject: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {subject} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def change(path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_every_subject_has_command_day_machine_result_and_source(tree):
    page = evidence.page(tree)
    subjects = (
        "chaos",
        "soak",
        "faults",
        "compat",
        "hostile clients",
        "malformed commands",
        "model",
        "killed owners",
        "installation",
        "fuzz",
    )
    for subject in (*subjects, "matrix: churn", "matrix: oracle", "matrix: compat", "matrix: integration"):
        cells = row(page, subject)
        assert len(cells) == 7
        assert cells[1].startswith("`make ")
        assert all(cells[2:4])
        assert cells[6]
    assert "`make -C lab chaos SEED=12 MINUTES=15`" in page
    assert '`make -C lab chaos SEED=71 MINUTES=3.5 CHAOS_OPTIONS="--split --gap 0.85"`' in page
    assert "| fan-out | `python -m bench fan-out` | 2026-11-24 | 2 CPUs, x86_64, Python 3.11.7 | Pulsar 4.0.8 |" in page


def test_a_run_with_a_lost_message_is_a_failure_and_so_is_the_sum(tree):
    path = tree / "lab" / "longtests" / "chaos" / "results.json"
    runs = records(path)
    assert row(evidence.page(tree), "chaos")[4] == evidence.PASSED
    for name in ("lost", "disorder", "other"):
        broken = json.loads(json.dumps(runs))
        next(iter(broken[2]["faults"].values()))[name] = 1
        path.write_text(json.dumps(broken), encoding="utf-8")
        page = evidence.page(tree)
        assert row(page, "chaos")[4] == evidence.FAILED
        assert row(page, f"`make -C lab chaos SEED={runs[2]['seed']} MINUTES=15`")[3] == evidence.FAILED
        assert row(page, f"`make -C lab chaos SEED={runs[1]['seed']} MINUTES=12`")[3] == evidence.PASSED


def test_days_and_machines_are_shown_where_they_are_recorded(tree):
    path = tree / "lab" / "longtests" / "chaos" / "results.json"
    runs = records(path)[:2]  # those of before days were recorded
    runs[0] |= {"date": "2026-12-01", "machine": "8 CPUs"}
    path.write_text(json.dumps(runs), encoding="utf-8")
    page = evidence.page(tree)
    assert row(page, "chaos")[2:4] == [f"2026-12-01, {UNKNOWN}", f"8 CPUs, {UNKNOWN}"]
    assert row(page, "`make -C lab chaos SEED=12 MINUTES=15`")[1:3] == ["2026-12-01", "8 CPUs"]
    assert row(page, "soak")[2:4] == [UNKNOWN, UNKNOWN]


def test_the_line_of_a_run_gives_day_and_machine(tree):
    line, soak, compat = stamp(), "make -C lab soak CHAOS_OPTIONS=--write -->", "make -C lab compat: begin -->"
    change(tree / "docs" / "testing" / "chaos.md", soak, f"{soak}\n{line}")
    path = tree / "docs" / "reference" / "compatibility.md"
    path.write_text(STAMP.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
    change(path, compat, f"{compat}\n{line}")
    page = evidence.page(tree)
    for subject in ("soak", "compat"):
        day, known = row(page, subject)[2:4]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
        assert known == machine()
    assert row(page, "soak")[5].startswith("Seed 17, 120 minutes")


def test_a_failed_cell_of_the_matrix_is_shown_at_its_suite_and_its_release(tree):
    path = tree / "lab" / "longtests" / "matrix" / "results.json"
    cells = [cell | {"passed": True} for cell in records(path)]
    path.write_text(json.dumps(cells), encoding="utf-8")
    assert evidence.FAILED not in evidence.page(tree)
    (own,) = [cell for cell in cells if (cell["release"], cell["suite"]) == ("4.2.4", "churn")]
    own["passed"] = False
    path.write_text(json.dumps(cells), encoding="utf-8")
    page = evidence.page(tree)
    assert row(page, "matrix: churn")[4] == evidence.FAILED
    assert row(page, "matrix: churn")[5].endswith("; failed: 4.2.4 churn")
    assert row(page, "matrix: oracle")[4] == evidence.PASSED
    assert f"{evidence.FAILED} {own['date']}" in " ".join(row(page, "4.2.4"))
    assert "not run" in row(page, "4.0.8")


@pytest.mark.parametrize(
    ("page", "old", "new", "subject"),
    [
        ("chaos", "| all | 124 | 0 |", "| all | 124 | 1 |", "soak"),
        ("messages", "| 0.22 s | 0 | 0 | 0 | 0 |", "| 0.22 s | 0 | 2 | 0 | 0 |", "faults"),
        ("hostile-clients", "| closes | 0 ms | 0 |\n", "| closes | 0 ms | 5 |\n", "hostile clients"),
        ("model", "| 30 steps | none |", "| 30 steps | two brokers dispatch at once |", "model"),
        ("model", "| two brokers dispatch the subscription at once |", "| none |", "model"),
    ],
)
def test_a_violation_in_a_table_is_a_failure(tree, page, old, new, subject):
    assert row(evidence.page(tree), subject)[4] == evidence.PASSED
    change(tree / "docs" / "testing" / f"{page}.md", old, new)
    assert row(evidence.page(tree), subject)[4] == evidence.FAILED


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("docs/testing/chaos.md", "<!-- end of soak -->", "", "chaos.md: there is no part between the marks of 'soak'"),
        (
            "docs/testing/messages.md",
            "lost | duplicated | redelivered",
            "lost | again | redelivered",
            "no column 'duplicated'",
        ),
        ("docs/testing/chaos.md", "| all | 124 | 0 |", "| all | 124 | none |", "a cell of a table is no number"),
        ("docs/reference/compatibility.md", " features, ", " ", "the counts do not follow the mark"),
        ("lab/longtests/chaos/results.json", '"lost"', '"gone"', "results.json of chaos: seed 12"),
        ("lab/longtests/matrix/results.json", "[", "{", "results.json: no JSON"),
        ("docs/explanation/performance/fan-out.json", '"at"', '"when"', "fan-out.json: KeyError"),
    ],
)
def test_a_file_of_another_form_is_one_error_that_names_it(tree, name, old, new, message):
    change(tree / name, old, new)
    with pytest.raises(ResultsError, match=message.replace("'", ".")):
        evidence.page(tree)
