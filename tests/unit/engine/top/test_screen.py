"""Screens of `top`: golden files, narrow terminals, and names that are hostile or wide.

A change that is meant: UPDATE_GOLDEN=1 pytest tests/unit/engine/top/test_screen.py, then read the diff.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from readonly_engine.top.columns import Column, display_width, fit, lay_out, padded
from readonly_engine.top.observed import Observed, merged
from readonly_engine.top.screen import render

from tests.support.golden import check_golden
from tests.support.states import ALL_HOSTILE, CLIENTS, SMALL, TOPIC

GOLDEN = Path(__file__).parents[1] / "golden" / "top"
ONE = Observed("http://orders-0:8080", SMALL)
OTHER = replace(SMALL, broker=replace(SMALL.broker, url="pulsar://orders-1:6650", draining=True), reasons=())
BUSY = Observed("http://orders-1:8080", OTHER, "This broker makes other status pages now", 4.0)
GONE = Observed("http://orders-2:8080", error="no answer within 5 s")

SCREENS = {
    "one": ([ONE], 120, None),
    "narrow": ([ONE], 60, 14),
    "several": ([ONE, BUSY, GONE], 140, None),
    "subscriptions": ([Observed("http://orders-0:8080", TOPIC)], 120, None),
    "consumers": ([Observed("http://orders-0:8080", CLIENTS)], 120, None),
}


@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_is_the_golden_one(name):
    check_golden(GOLDEN / f"{name}.txt", "\n".join([*render(*SCREENS[name]), ""]))


@pytest.mark.parametrize("width", [1, 2, 20, 79, 80, 200, 100_000])
@pytest.mark.parametrize("height", [1, 3, 24, None])
@pytest.mark.parametrize("status", [SMALL, TOPIC, CLIENTS, ALL_HOSTILE], ids=["small", "topic", "clients", "hostile"])
def test_a_screen_never_exceeds_its_terminal(status, width, height):
    for observed in ([Observed("u", status)], [Observed("u", status), GONE, BUSY]):
        lines = render(observed, width, height)
        assert height is None or len(lines) <= height
        assert all(display_width(line) <= width for line in lines)
        assert all(line.isprintable() for line in lines), "no name controls the terminal"


def test_wide_characters_take_two_columns_and_combining_ones_none():
    assert (display_width("abc"), display_width("数a"), display_width("e\u0301")) == (3, 3, 1)
    assert fit("数数数", 4) == "数~"
    assert padded("数", 4) == "数  "
    assert padded("7", 3, numeric=True) == "  7"


def test_the_first_column_shrinks_on_a_narrow_terminal():
    lines = lay_out([Column("NAME"), Column("N", numeric=True)], [["x" * 50, "12"], ["y", "3"]], 30)
    assert lines == ["NAME                         N", "x" * 25 + "~  12", "y                            3"]


def test_old_figures_stay_with_the_reason_and_their_age():
    failed = Observed(ONE.url, error="busy")
    (first,) = merged([ONE], [failed], 2.0)
    assert (first.status, first.error, first.age_s) == (SMALL, "busy", 2.0)
    (second,) = merged([first], [failed], 2.5)
    assert second.age_s == 4.5
    assert merged([second], [ONE], 2.0) == [ONE]
    assert merged([], [failed], 2.0) == [failed]


def test_a_document_of_what_is_known():
    document = BUSY.document()
    assert (document["url"], document["ageSeconds"]) == (BUSY.url, 4.0)
    assert document["status"]["broker"]["draining"] is True
    assert GONE.document() == {"url": GONE.url, "error": "no answer within 5 s", "ageSeconds": 0.0, "status": None}
