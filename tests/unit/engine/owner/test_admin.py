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
def test_ranges_of_internal_stats_are_parsed(text, ranges):
    assert parse_ranges(text) == ranges


def test_the_first_acked_range_ends_at_the_mark_delete_position():
    stats = {"markDeletePosition": "4:7", "individuallyDeletedMessages": "[(4:9..5:1]]"}
    assert acked_ranges(stats) == [((-1, -1), (4, 7)), ((4, 9), (5, 1))]
    assert acked_ranges({"markDeletePosition": "4:-1", "individuallyDeletedMessages": "[]"}) == [((-1, -1), (4, -1))]
    assert acked_ranges({}) == []
