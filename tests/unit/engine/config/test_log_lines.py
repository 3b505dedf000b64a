"""Log lines as JSON: fields are keys of their own, values cannot forge any, and secrets are hidden."""

import ast
import json
import logging
import time
from pathlib import Path

import pytest
from readonly_engine.config.log_lines import (
    MAX_FIELD,
    MAX_TEXT,
    RESERVED,
    JsonFormatter,
    TextFormatter,
    _names,
    fields_of,
    redact,
)

ROOT = Path(__file__).parents[4]
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyZWFkZXIifQ.c2lnbmF0dXJl"


def record(text, *args, level=logging.INFO, error=None, **extra):
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.getLogger("readonly_engine.x").makeRecord("readonly_engine.x", level, __file__, 1, text, args, info)
    vars(made).update(extra)
    return made


def raised(text):
    """An error with a traceback."""
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError(text)
    return caught.value


def line(*args, formatter=None, **given):
    text = (formatter or JsonFormatter()).format(record(*args, **given))
    assert "\n" not in text
    return json.loads(text)


def test_fields_are_keys_beside_time_level_logger_and_message():
    topic, error = "persistent://a/b/c", ValueError("no bookie answers")
    found = line("read failed: topic=%s subscription=%s client=%s error=%s", topic, "s", "10.0.0.7:4001", error)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "info",
        "logger": "readonly_engine.x",
        "message": f"read failed: topic={topic} subscription=s client=10.0.0.7:4001 error=no bookie answers",
        "topic": topic,
        "subscription": "s",
        "client": "10.0.0.7:4001",
        "error": "no bookie answers",
    }


@pytest.mark.parametrize("value", ["a\ud800", "\udc00\ud83d", "\\ud800\udfff"])
def test_halves_of_surrogates_become_valid_json(value):
    """A path in another encoding has them. Strict parsers refuse the whole line for one."""
    text = JsonFormatter(of_record=lambda _: {"object": {"name": value}}).format(record("a: path=%s", value))
    found = json.loads(text)
    for one in (found["message"], found["path"], found["object"]["name"]):
        assert "?" in one
        one.encode()  # fails for a half of a pair


def test_keys_of_a_record_that_json_does_not_have_become_texts():
    found = line("a", formatter=JsonFormatter({}, lambda _: {"object": {"path": Path("/a"), "set": {1}}}))
    assert found["object"] == {"path": "/a", "set": "{1}"}


@pytest.mark.parametrize("break_", ["\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_value_forges_no_line_of_text(break_):
    text = TextFormatter().format(record("connects: client=%s", f"a{break_}2026-01-01 ERROR forged\x1b[2J"))
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert "2026-01-01 ERROR forged" in text


def test_a_traceback_keeps_its_lines():
    text = TextFormatter().format(record("failed", error=raised("unexpected")))
    assert len(text.splitlines()) > 3
    assert text.endswith("RuntimeError: unexpected")


def test_numbers_stay_numbers():
    found = line("trimmed: count=%d wait=%.1f ready=%s none=%s", 3, 0.25, True, None)
    assert (found["count"], found["wait"], found["ready"], found["none"]) == (3, 0.25, True, None)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_every_line_is_json_that_all_parsers_read(value):
    text = JsonFormatter().format(record("x=%s", value))
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_values_that_look_like_fields_make_none():
    found = line("connects: client=%s version=%s", "a error=boom level=error", 'x", "topic": "forged')
    assert "error" not in found
    assert "topic" not in found
    assert found["level"] == "info"
    assert found["client"] == "a error=boom level=error"


@pytest.mark.parametrize(
    "value",
    [
        "é \U0001f600 \\ud800",
        'a\n{"level": "error"}\x1b[31m',  # inside of the line
        "persistent://a/b/c@d",
        "pulsar://broker:6650",
    ],
)
def test_other_values_stay_as_they_are(value):
    assert line("a: value=%s", value)["value"] == value


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_no_field_replaces_a_key_of_every_line(name):
    found = line(f"a: {name}=%s topic=%s", "forged", "t")
    assert found.get(name) != "forged"
    assert found["topic"] == "t"


@pytest.mark.parametrize(
    ("text", "args", "fields"),
    [
        ("100%% of x=%s", ("a",), {"x": "a"}),
        ("%s x=%s", ("first", "second"), {"x": "second"}),
        ("%*d x=%s", (5, 7, "a"), {"x": "a"}),
        ("x=%(one)s y=%(two)d", ({"one": "a", "two": 2},), {"x": "a", "y": 2}),
        ("x=%r", ("a",), {"x": "a"}),
        ("no fields: %s", ("a=b",), {}),
        ("a.x=%s", ("a",), {}),
        ("x=%s", (), {}),
        (ValueError("x=%s"), ("a",), {}),
    ],
)
def test_fields_belong_to_their_arguments(text, args, fields):
    assert fields_of(record(text, *args)) == fields


def test_arguments_that_do_not_fit_lose_the_fields_only():
    assert fields_of(record("x=%s y=%s", "a")) == {}


def test_a_long_value_is_cut():
    assert len(line("client=%s", "x" * (MAX_FIELD + 1))["client"]) == MAX_FIELD + 3
    assert len(line("client=%s", "x" * MAX_FIELD)["client"]) == MAX_FIELD


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
def test_messages_and_exceptions_of_any_length_have_a_bound(formatter):
    text = formatter.format(record("a: b=%s", "x" * (5 << 20), error=raised("y" * (5 << 20) + " the end")))
    assert len(text) < 2 * (MAX_TEXT + MAX_FIELD) + 1000
    assert "the end" in text, "the error is at the end of a traceback"
    assert formatter.format(record("%s", "x" * (MAX_TEXT - 100))).count("x") >= MAX_TEXT - 100


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
@pytest.mark.parametrize("secret", ["pulsar://user:pa55word@broker", f"x {TOKEN}"], ids=["url", "token"])
def test_no_cut_shows_a_part_of_a_secret(formatter, secret):
    for length in (MAX_FIELD, MAX_TEXT, 2 * MAX_FIELD, 2 * MAX_TEXT):
        for move in range(0, len(secret) + 60, 5):  # the cut is at many places in the secret
            text = formatter.format(record("a: b=%s", "x" * (length - move) + f" {secret}" + "y" * 100_000))
            assert "pa55w" not in text
            assert "c2lnbm" not in text


@pytest.mark.parametrize(
    "piece", ["eyJ-", "eyJaaaaaaaa-", "eyJaaaaaaaa.", "bearer ", "bearer" + " " * 50, "://", "://a", "a@"]
)
def test_the_time_for_any_text_is_linear(piece):
    """A client chooses such texts. With a search from each place, 80 kB took minutes."""
    began = time.thread_time()
    redact(piece * (100_000 // len(piece)))
    assert time.thread_time() - began < 5


def test_an_exception_is_a_key_and_its_error_another():
    found = line("task failed unexpectedly", error=raised("unexpected"), level=logging.ERROR)
    assert (found["level"], found["error"]) == ("error", "RuntimeError: unexpected")
    assert "test_log_lines.py" in found["exception"]


@pytest.mark.parametrize(
    ("secret", "value"),
    [
        ("pa55word", "pulsar://user:pa55word@broker:6650"),
        ("pa55word", "https://a:1@x,pa55word@y:8080/path"),
        (TOKEN, f"token:{TOKEN}"),
        (TOKEN, f"header Authorization: Bearer {TOKEN} refused"),
        ("opaque-0123", "Authorization: bearer opaque-0123"),
    ],
)
@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
def test_secrets_are_hidden_in_messages_fields_and_exceptions(formatter, secret, value):
    text = formatter.format(record("refused: url=%s error=%s", value, value, error=raised(value)))
    assert secret not in text
    assert "***" in text


def test_constant_keys_and_those_of_a_record():
    formatter = JsonFormatter({"worker": 3}, lambda made: {"object": made.ref})
    found = line("a: topic=%s", "t", formatter=formatter, ref={"kind": "Pod"})
    assert (found["worker"], found["object"], found["topic"]) == (3, {"kind": "Pod"}, "t")


def calls_of_logs():
    """The texts of all log calls of the products."""
    for folder in ("engine", "operator", "spark"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in {"debug", "info", "warning", "error", "exception"}
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id in {"log", "logger"}
                    and node.args
                ):
                    yield path, node.args[0]


def test_the_text_of_a_log_call_is_constant_and_its_fields_are_no_keys_of_every_line():
    found = list(calls_of_logs())
    assert len(found) > 150
    for path, text in found:
        assert isinstance(text, ast.Constant), f"{path.relative_to(ROOT)}:{text.lineno}"
        assert isinstance(text.value, str)
        assert not {name for name, _ in _names(text.value)} & RESERVED, path
