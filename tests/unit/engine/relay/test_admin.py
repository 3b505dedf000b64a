from __future__ import annotations

import pytest
from readonly_engine.relay.admin import parse_holes


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("[]", []),
        ("", []),
        ("[(4:0..4:1]]", [((4, 0), (4, 1))]),
        ("[(4:-1..4:1],(4:5..7:12]]", [((4, -1), (4, 1)), ((4, 5), (7, 12))]),
    ],
)
def test_the_holes_of_a_cursor_as_internal_stats_write_them(text, ranges):
    assert parse_holes(text) == ranges
