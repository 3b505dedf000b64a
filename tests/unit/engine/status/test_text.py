"""Amounts in short forms, and foreign names."""

import pytest
from readonly_engine.status import words
from readonly_engine.status.state import OWNER, Relief, SourceState, SubscriptionState
from readonly_engine.status.text import (
    MAX_CLIPPED,
    MAX_NAME,
    byte_count,
    byte_rate,
    clipped,
    count,
    duration,
    printable,
    rate,
    short,
)
from readonly_engine.status.words import served_text

from tests.support.states import HOSTILE


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (5 << 30, "5 GiB"), (1.5e6, "1.43 MiB")]
)
def test_bytes_have_a_binary_unit(number, text):
    assert byte_count(number) == text


def test_a_figure_that_is_not_known_is_no_zero():
    assert [made(None) for made in (count, short, rate, byte_count, byte_rate)] == ["-"] * 5


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.9, "59 s"), (61, "1 min 1 s"), (7384, "2 h 3 min"), (90000, "1 d 1 h")]
)
def test_a_time_has_two_units(seconds, text):
    assert duration(seconds) == text


def test_a_name_of_a_state_is_clipped():
    whole = MAX_CLIPPED * "x"
    assert clipped(whole) == whole
    assert clipped(whole + "y") == f"{whole[:-1]}…"


def test_a_foreign_name_controls_nothing_and_is_bounded():
    shown = printable(HOSTILE)
    assert shown.isprintable()
    assert "\\x1b[2J\\u202e\\x00" in shown
    assert len(shown) < MAX_NAME + 20
    assert printable("Größe 数") == "Größe 数"


def test_the_owner_never_sent_less_than_nothing():
    assert (Relief(10, 100, 3, 40).spared_messages, Relief(10, 100, 3, 40).spared_bytes) == (7, 60)
    assert (Relief(1, 10, 3, 40).spared_messages, Relief(1, 10, 3, 40).spared_bytes) == (0, 0)


def test_every_reason_of_passthrough_has_an_explanation_without_a_link():
    from readonly_engine.broker.passthrough.reasons import Reason  # noqa: PLC0415

    assert set(Reason) < set(words.REASONS)
    assert all("http" not in text for text in words.REASONS.values())
    assert words.reason_text("of-a-later-version") == "of-a-later-version"


def test_explicit_lac_that_nobody_could_see_is_unknown():
    assert words.lac_text(SourceState()).startswith("unknown")
    assert words.lac_text(SourceState(lac_topics=3)).startswith("not observed in 3 topics")
    assert words.lac_text(SourceState(lac_topics=3, lac_explicit=2)) == "observed in 2 of 3 topics"


def test_the_metadata_store_has_all_that_is_wrong_with_it():
    text = words.store_text(SourceState(connected=False, denied=2, suspended=True))
    assert text == "not connected; 2 requests refused; delivery to claimed subscriptions is suspended"


COORDINATOR = "pulsar://broker-0:6650"


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({}, "this broker"),
        ({"served_by": OWNER}, OWNER),
        ({"split": "coordinating", "members": 2}, "this broker, which leases it to 2 more"),
        ({"split": "following", "coordinator": COORDINATOR}, f"this broker, by leases of {COORDINATOR}"),
        ({"split": "claiming"}, "this broker, split: claiming"),
    ],
)
def test_who_serves_a_subscription(state, text):
    assert served_text(SubscriptionState(**state)) == text
