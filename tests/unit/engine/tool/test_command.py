from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.net.tls import TlsFiles
from readonly_engine.tool.command import main, parser
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.security import security_of
from readonly_engine.tool.show import render
from readonly_engine.tool.start import parse_start, show_time
from readonly_engine.topic.position import Position


def test_the_environment_names_the_store(monkeypatch):
    monkeypatch.setenv("PULSAR_READONLY_METADATA_STORE_URL", "zk:a:1")
    assert parser().parse_args(["ls"]).metadata_store_url == "zk:a:1"
    assert parser().parse_args(["ls", "--metadata-store-url", "zk:b:2"]).metadata_store_url == "zk:b:2"
    monkeypatch.delenv("PULSAR_READONLY_METADATA_STORE_URL")
    assert parser().parse_args(["ls"]).metadata_store_url is None


def test_tls_and_logins(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PULSAR_READONLY_METADATA_STORE_LOGIN_FILE", "/login")
    options = parser().parse_args(["ls", "--metadata-store-tls-certificate", "/c", "--metadata-store-tls-key", "/k"])
    security = security_of(options)
    assert security.stores.tls == TlsFiles("metadata-store-tls", None, Path("/c"), Path("/k"))
    assert security.stores.login_file == Path("/login")
    assert security.bookies.login() is None
    assert (
        main(["ls", "--metadata-store-url", "zk:127.0.0.1:1", "--metadata-store-login-file", str(tmp_path / "none")])
        == 1
    )
    assert "--metadata-store-login-file: " in capsys.readouterr().err
    assert (
        main(["ls", "--metadata-store-url", "zk:127.0.0.1:1", "--bookie-tls-certificate", str(tmp_path / "none")]) == 1
    )
    assert "--bookie-tls-certificate: " in capsys.readouterr().err


def test_without_a_store_nothing_is_tried(monkeypatch, capsys):
    monkeypatch.delenv("PULSAR_READONLY_METADATA_STORE_URL", raising=False)
    assert main(["ls"]) == 1
    assert "--metadata-store-url is missing" in capsys.readouterr().err


def test_a_topic_for_people():
    lines = render(
        {
            "topic": "persistent://a/b/c", "exists": True, "first": "3:0", "last": "8:1", "entries": 7, "bytes": 99,
            "terminated": True, "properties": {"PULSAR.SHADOW_SOURCE": "x"},
            "ledgers": [
                {"ledger": 3, "state": "CLOSED", "entries": 5, "bytes": 99, "closed_at": "then", "quorums": "3/2/2",
                 "offloaded": "aws-s3",
                 "ensembles": [{"first_entry": 0, "bookies": ["a", "b"]}, {"first_entry": 4, "bookies": ["a", "c"]}]},
                {"ledger": 8, "state": "OPEN", "entries": 2, "bytes": 0, "quorums": "2/2/2", "lac": 1, "unconfirmed": 1,
                 "ensembles": [{"first_entry": 0, "bookies": ["a", "b"]}]},
                {"ledger": 9, "state": "UNKNOWN", "entries": 0, "bytes": 0, "error": "no answer"},
            ],
            "subscriptions": [
                {"name": "s", "mark_delete": "3:1", "backlog": 4, "acked_behind": 6, "stored_in": "metadata",
                 "acked_ranges": [f"(3:{n}..3:{n + 1}]" for n in range(6)], "partly_acked_batches": {"3:4": [0]}},
                {"name": "broken", "error": "no bookie"},
            ],
        }
    )  # fmt: skip
    text = "\n".join(lines)
    assert "7 entries, 3:0 to 8:1, terminated" in text
    assert "CLOSED (offloaded: aws-s3)" in text
    assert "a, b | a, c from entry 4" in text
    assert "OPEN (LAC 1, 1 unconfirmed)" in text
    assert "no answer" in text
    assert "6 in (3:0..3:1] (3:1..3:2] (3:2..3:3] (3:3..3:4] (3:4..3:5] and 1 more, 1 batches in part" in text
    assert "broken" in text
    assert all(line == line.rstrip() for line in lines)
    assert render({"topic": "t", "exists": False}) == ["t", "  no entry is stored yet"]


NOW = 1_795_000_000_000


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("12:0", Position(12, 0)),
        ("90s", NOW - 90_000),
        ("10m", NOW - 600_000),
        ("2h", NOW - 7_200_000),
        ("1d", NOW - 86_400_000),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", 1_700_000_000_500),
    ],
)
def test_every_way_to_say_where_to_begin(text, start):
    assert parse_start(text, NOW) == start


def test_a_time_without_a_zone_is_local():
    assert parse_start("2023-11-14T22:13:20", NOW) == int(datetime(2023, 11, 14, 22, 13, 20).timestamp() * 1000)  # noqa: DTZ001


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "12:",
        ":1",
        "-1:0",
        "10",
        "10w",
        "2023-13-01",
        "1:2:3",
        "9" * 5000,
        "9" * 5000 + ":0",
        "9" * 5000 + "d",
    ],
)
def test_anything_else_is_refused_with_what_would_be_right(text):
    with pytest.raises(ToolError, match="must be earliest, latest, LEDGER:ENTRY"):
        parse_start(text, NOW)


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_that_is_shown_can_be_read_again(ms):
    assert parse_start(show_time(ms), NOW) == ms
    assert datetime.fromisoformat(show_time(ms)).tzinfo == UTC


@pytest.mark.parametrize("ms", [1 << 63, -(1 << 62)])
def test_a_time_that_no_calendar_has_is_shown_as_it_is(ms):
    assert show_time(ms) == f"{ms}ms"
