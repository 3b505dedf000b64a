from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.start import parse_start, show_time
from readonly_engine.topic.position import Position

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
