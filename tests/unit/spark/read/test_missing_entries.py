"""failOnDataLoss: entries that no replica has are an error, or they alone are left out."""

import logging
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.errors import NoSuchEntryError, NoSuchLedgerError, ReadFailedError
from readonly_spark.errors import DataLossError
from readonly_spark.read.task_reader import MAX_SHOWN_RANGES, _existing, _shown
from readonly_spark.task import LedgerLocation, TaskRange

from tests.unit.spark.stored import entry, metadata


class Bookies:
    """A ledger with holes, read in parts; a read ahead of the taken entries may find a hole first."""

    def __init__(self, missing, *, part=4, ahead=0, kind=NoSuchEntryError, tell=True):
        self.missing = set(missing)
        self.part = part
        self.ahead = ahead
        self.kind = kind
        self.tell = tell

    def read(self, topic, ledger, first, last, entry_bytes):
        position = first
        while position <= last:
            hole = next(
                (one for one in range(position, min(position + self.ahead, last) + 1) if one in self.missing), None
            )
            if hole is not None:
                error = self.kind(f"entry {ledger.ledger_id}:{hole}")
                if self.tell:
                    end = hole
                    while end + 1 in self.missing and self.kind is NoSuchLedgerError:
                        end += 1
                    error.missing = (hole, end)
                raise error
            part = []
            while position <= last and position not in self.missing and len(part) < self.part:
                part.append(entry(position, metadata(), b"x"))
                position += 1
            yield part


def existing(bookies, first=0, last=49, *, fail=False, retry_s=0.0):
    ledger = LedgerLocation(7, last, SimpleNamespace())
    found = _existing(bookies, TaskRange("persistent://a/b/c", ledger, first, last), fail=fail, retry_s=retry_s)
    return [one.entry_id for part in found for one in part]


@given(
    st.sets(st.integers(0, 49)),
    st.integers(1, 9),
    st.integers(0, 20),
    st.sampled_from([NoSuchEntryError, NoSuchLedgerError]),
)
def test_what_exists_is_read_once_in_order(missing, part, ahead, kind):
    bookies = Bookies(missing, part=part, ahead=ahead, kind=kind)
    assert existing(bookies) == [one for one in range(50) if one not in missing]


@pytest.mark.parametrize("missing", [{0}, {49}, {7, 8, 30}, set(range(50))])
def test_the_lost_entries_are_logged_in_one_line(missing, caplog):
    with caplog.at_level(logging.WARNING):
        existing(Bookies(missing))
    (record,) = caplog.records
    assert record.getMessage().startswith("lost: persistent://a/b/c: entries ")
    assert record.getMessage().endswith(" of ledger 7")


def test_nothing_is_logged_where_nothing_is_lost(caplog):
    with caplog.at_level(logging.WARNING):
        assert existing(Bookies(())) == list(range(50))
    assert not caplog.records


def test_a_lost_entry_is_an_error_by_default():
    with pytest.raises(DataLossError, match=r"entries 7 to 7 of ledger 7 are lost: .*; set failOnDataLoss=false"):
        existing(Bookies({7, 20}), fail=True)


def test_a_reader_that_does_not_say_what_is_missing_loses_the_rest_of_the_range():
    assert existing(Bookies({7, 20}, tell=False)) == list(range(7))


def test_what_cannot_be_read_now_is_no_loss():
    with pytest.raises(ReadFailedError):
        existing(Bookies({7}, kind=ReadFailedError))


def test_what_cannot_be_read_now_is_read_again_from_where_it_was(monkeypatch):
    bookies, pauses = Bookies({7, 20}, kind=ReadFailedError), []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) % 3 == 0:
            bookies.missing.discard(min(bookies.missing))

    monkeypatch.setattr("readonly_spark.read.task_reader.time.sleep", pause)
    assert existing(bookies, retry_s=60.0) == list(range(50))
    assert len(pauses) == 6


def test_neighbours_are_shown_together_and_the_line_is_bounded():
    assert _shown([(3, 3), (5, 9), (4, 4), (12, 12)]) == "entries 3 to 9, 12 to 12"
    many = [(2 * number, 2 * number) for number in range(MAX_SHOWN_RANGES + 3)]
    assert _shown(many).endswith("and 3 other ranges")
    assert _shown(many[:MAX_SHOWN_RANGES]).endswith("18 to 18")
