from __future__ import annotations

import pytest
from readonly_engine.owner.admin import acked_ranges, parse_ranges


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
    assert parse_ranges(text) == ranges


def test_what_is_acked_begins_with_all_up_to_the_mark_delete_position():
    stats = {"markDeletePosition": "4:7", "individuallyDeletedMessages": "[(4:9..5:1]]"}
    assert acked_ranges(stats) == [((-1, -1), (4, 7)), ((4, 9), (5, 1))]
    assert acked_ranges({"markDeletePosition": "4:-1", "individuallyDeletedMessages": "[]"}) == [((-1, -1), (4, -1))]
    assert acked_ranges({}) == []
