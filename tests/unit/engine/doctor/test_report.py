"""The report: table, JSON, exit status, and texts without secrets."""

import json

import pytest
from readonly_engine.doctor.checks.finding import fail, ok, warn
from readonly_engine.doctor.redaction import MAX_TEXT, Redactor
from readonly_engine.doctor.report import as_json, as_table, exit_status

GOOD, DOUBTFUL, BAD = (
    ok("cores", "4"),
    warn("clock", "5 s", "set NTP up", "http://a"),
    fail("DNS", "no", "correct it", "b"),
)


@pytest.mark.parametrize(
    ("findings", "strict", "status"),
    [
        ([], True, 0),
        ([GOOD], True, 0),
        ([GOOD, DOUBTFUL], False, 0),
        ([GOOD, DOUBTFUL], True, 1),
        ([BAD, DOUBTFUL], False, 2),
        ([BAD, DOUBTFUL], True, 2),
    ],
)
def test_the_exit_status(findings, strict, status):
    assert exit_status(findings, strict=strict) == status


def test_the_json_document():
    document = json.loads(as_json([GOOD, DOUBTFUL, BAD]))
    assert document["result"] == "fail"
    assert document["counts"] == {"ok": 1, "warn": 1, "fail": 1}
    assert document["findings"][1] == {
        "check": "clock",
        "subject": "http://a",
        "result": "warn",
        "observed": "5 s",
        "remedy": "set NTP up",
    }
    assert json.loads(as_json([]))["result"] == "ok"


def test_the_table():
    text = as_table([GOOD, DOUBTFUL, BAD], 100)
    assert text.splitlines() == [
        "CHECK            RESULT  OBSERVED                                  REMEDY",
        "cores            ok      4",
        "clock: http://a  warn    5 s                                       set NTP up",
        "DNS: b           fail    no                                        correct it",
        "",
        "1 ok, 1 warn, 1 fail",
    ]


@pytest.mark.parametrize("width", [0, 80, 200])
def test_long_cells_are_wrapped(width):
    words = "word " * 40
    text = as_table([fail("check", words, words, "x" * 90)], width)
    assert max(map(len, text.splitlines())) <= max(width, 80)
    assert text.count("word") == 80
    assert text.replace("\n", "").replace(" ", "").count("x") == 90


def test_texts_have_no_secret_and_no_control_character():
    redactor = Redactor(["open sesame", "", "key", "sesame street"])
    assert redactor.text("a\n\tb  open sesame, sesame street key") == "a b ***, *** key"
    assert redactor.text("pulsar://me:word@a:1,b http://x@y") == "pulsar://***@a:1,b http://***@y"
    assert redactor.text("pulsar://a:b@c:1,d:e@f:1") == "pulsar://***@c:1,***@f:1"
    assert redactor.text("\x1b[31mred\x07") == "\\x1b[31mred\\x07"
    assert len(redactor.text("x" * 10_000)) == MAX_TEXT + 3
    found = redactor.finding(fail("c", "open sesame", "not open sesame", "of open sesame"))
    assert (found.observed, found.remedy, found.subject) == ("***", "not ***", "of ***")
