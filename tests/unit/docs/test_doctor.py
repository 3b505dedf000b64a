"""The page of the doctor's reports: what a run recorded, without folders and made-up names; nothing that shows something else."""

import json

import pytest

from docsite import doctor
from docsite.doctor import ReportError, page, record

OK = {"check": "admin API", "subject": "http://127.0.0.1:8080", "result": "ok", "observed": "answers", "remedy": ""}
BAD = {**OK, "result": "fail", "observed": "no answer", "remedy": "correct admin-url"}
RUN = ("2026-11-26", "2 CPUs")


def test_without_a_report_the_page_says_so(tmp_path):
    text = page(tmp_path)
    assert text.count("This report is not recorded.") == len(doctor.SCENARIOS) == 13
    assert sum(one.healthy for one in doctor.SCENARIOS) == 4
    assert len({one.name for one in doctor.SCENARIOS}) == 13


def test_a_report_is_shown_as_the_command_prints_it(tmp_path):
    record("healthy-open", 0, [OK], *RUN, tmp_path)
    record("wrong-admin-url", 2, [BAD], *RUN, tmp_path)
    text = page(tmp_path)
    assert "Run of 2026-11-26; 2 CPUs; exit status 2." in text
    assert "no answer" in text
    assert "1 ok, 0 warn, 0 fail" in text
    assert "| [Broken: a wrong admin URL](#broken-a-wrong-admin-url) | `admin API` | fail | 2026-11-26 |" in text


def test_folders_of_the_machine_and_made_up_names_are_not_shown(tmp_path):
    made = {**OK, "observed": f"test-{'0' * 12} by doctor-{'a' * 32} reads /home/user/.cache/x/ca.pem, and /ledgers"}
    record("healthy-open", 0, [made], *RUN, tmp_path)
    assert json.loads((tmp_path / "healthy-open.json").read_text())["findings"][0]["observed"] == (
        "orders by doctor reads FOLDER, and /ledgers"
    )


@pytest.mark.parametrize(
    ("name", "status", "findings", "text"),
    [
        ("healthy-open", 2, [BAD], "a healthy cluster has failures: admin API"),
        ("healthy-open", 0, [], "0 findings instead of 1 to 200"),
        ("healthy-open", 0, [OK] * 201, "201 findings instead of 1 to 200"),
        ("wrong-admin-url", 0, [OK], "no finding of admin API is fail"),
        ("clock-skew", 2, [BAD], "no finding of clock is fail"),
        ("../wrong", 0, [OK], "no scenario of lab/docsite/doctor.py"),
    ],
)
def test_a_report_that_does_not_show_its_scenario_is_not_written(tmp_path, name, status, findings, text):
    with pytest.raises(ReportError, match=text):
        record(name, status, findings, *RUN, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"findings": 3}', json.dumps({"status": 0, "findings": [{"check": "x"}]})]
)
def test_a_damaged_report_names_its_file(tmp_path, text):
    (tmp_path / "healthy-open.json").write_text(text)
    with pytest.raises(ReportError, match="healthy-open"):
        page(tmp_path)


def test_the_most_findings_are_shown(tmp_path):
    record("healthy-open", 0, [OK] * 200, *RUN, tmp_path)
    assert "200 ok" in page(tmp_path)
