"""Planning is tried again while servers do not answer, for a bounded time, with bounded pauses and few lines in the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.errors import (
    BookieRefusedError,
    BookieUnavailableError,
    NoSuchEntryError,
    ReadFailedError,
)
from readonly_engine.metadata.errors import AccessDeniedError, MetadataUnavailableError, TopicNameError
from readonly_spark.errors import SourceError
from readonly_spark.outages import LOG_EVERY_S, PAUSES_S, RetryWindow, is_transient


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (MetadataUnavailableError("away"), True),
        (BookieUnavailableError("away"), True),
        (ReadFailedError("all replicas are away"), True),
        (NoSuchEntryError("not yet, or no more: the next plan knows"), True),
        (AccessDeniedError("wrong password"), False),
        (BookieRefusedError("wrong password"), False),
        (ReadFailedError("all replicas refuse", refused=True), False),
        (TopicNameError("wrong name"), False),
        (SourceError("no such topic"), False),
        (TimeoutError(), False),
    ],
)
def test_only_servers_that_do_not_answer_are_asked_again(error, transient):
    assert is_transient(error) == transient


@given(st.floats(0.1, 1000), st.floats(0, 1e6), st.floats(0, 5))
def test_an_outage_ends_at_its_bound_after_pauses_that_are_bounded(longest, begin, effort):
    outages, now, tries = RetryWindow(longest), begin, 0
    while (pause := outages.failed("", now)) is not None:
        assert 0 < pause <= PAUSES_S[1]
        now += pause + effort
        tries += 1
        assert tries < 10_000
    assert longest - 1e-3 <= now - begin <= longest + effort + 1e-3 * now
    assert tries <= 12 + longest / PAUSES_S[1], "the pauses grow"


def test_without_time_nothing_is_tried_again():
    assert RetryWindow(0).failed("", 5.0) is None


def test_each_topic_has_its_own_time():
    outages = RetryWindow(10)
    assert outages.failed("a", 0.0) is not None
    assert outages.failed("b", 8.0) is not None
    assert outages.failed("a", 10.0) is None
    assert outages.failed("b", 10.0) is not None
    outages.ended(["a"])
    assert outages.failed("a", 20.0) is not None, "a new outage"
    outages.keep(["a"])
    assert outages.failed("b", 100.0) is not None, "b was forgotten with its topic"


def test_a_long_outage_has_few_lines_in_the_log():
    outages = RetryWindow(1000)
    lines = sum(outages.to_log("a", 0.1 * tick) for tick in range(int(10 * LOG_EVERY_S * 3)))
    assert lines == 3
    outages.ended(["a"])
    assert outages.to_log("a", 1e4)
