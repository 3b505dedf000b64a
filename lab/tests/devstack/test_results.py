"""Files of results: one record a line."""

import json

import pytest

from devstack.common.results import encode_results


@pytest.mark.parametrize(
    ("results", "lines"),
    [
        ([], 1),
        ([{"seed": 1, "faults": {"a": [1, 2]}}, {"seed": 2}], 4),
        ({"bench": "shared", "settings": {"rounds": 5}, "measured": [{"round": 0}, {"round": 1}], "table": []}, 9),
    ],
)
def test_each_record_has_a_line_of_its_own(results: list[object] | dict[str, object], lines: int) -> None:
    text = encode_results(results)
    assert json.loads(text) == results
    assert len(text.splitlines()) == lines
