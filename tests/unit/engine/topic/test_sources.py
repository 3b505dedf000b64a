"""Choice of a ledger's copy, and the fallback to the other one. Both copies are functions here."""

from types import SimpleNamespace

import pytest
from readonly_engine.bookkeeper.errors import BookKeeperError, ReadFailedError
from readonly_engine.config.tiered import BOOKKEEPER_FIRST, TieredConfig
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.tiered.errors import TieredStorageError
from readonly_engine.topic.sources import LedgerSources
from readonly_engine.wire.managed_ledger_pb2 import ManagedLedgerInfo

TOPIC = parse_topic_name("persistent://public/default/orders")
PRIORITIES = {"tiered": TieredConfig(), "bookies": TieredConfig(read_priority=BOOKKEEPER_FIRST)}


def topic(*, complete=True, deleted=False):
    info = ManagedLedgerInfo()
    made = info.ledger_info.add(ledger_id=3, entries=5, size=1, timestamp=1)
    made.offload_context.complete = complete
    made.offload_context.bookkeeper_deleted = deleted
    return info


class Copies:
    def __init__(self, first="tiered"):
        self.asked = []
        self.failing = set()
        self.config = PRIORITIES[first]

    async def bookies(self, _ledger_id, _first, _last):
        self.asked.append("bookies")
        if "bookies" in self.failing:
            raise BookKeeperError("no bookie")
        return ["entries of the bookies"]

    async def open(self, path, ledger_id, _context):
        assert (path, ledger_id) == ("public/default/persistent/orders", 3)
        return SimpleNamespace(read=self.read)

    async def read(self, _first, _last):
        self.asked.append("tiered")
        if "tiered" in self.failing:
            raise TieredStorageError("no object")
        return ["entries of the store"]


def sources_of(info, copies, *, with_tiered=True):
    made = LedgerSources(TOPIC, copies.bookies, copies if with_tiered else None)
    made.topic_changed(info)
    return made


@pytest.mark.parametrize(
    ("first", "info", "asked"),
    [
        ("tiered", topic(), ["tiered"]),
        ("bookies", topic(), ["bookies"]),
        ("bookies", topic(deleted=True), ["tiered"]),
        ("tiered", topic(complete=False), ["bookies"]),
        ("tiered", None, ["bookies"]),
    ],
)
async def test_the_copy_is_the_owners_choice(first, info, asked):
    copies = Copies(first)
    sources = sources_of(info, copies)
    assert await sources.read(3, 0, 4) == [f"entries of the {'store' if asked == ['tiered'] else 'bookies'}"]
    assert copies.asked == asked


@pytest.mark.parametrize("first", ["tiered", "bookies"])
async def test_where_one_copy_fails_the_other_is_read_and_stays_the_first_choice_for_a_while(first, caplog):
    copies = Copies(first)
    other = {"tiered": "bookies", "bookies": "tiered"}[first]
    sources = sources_of(topic(), copies)
    copies.failing = {first}
    await sources.read(3, 0, 4)
    await sources.read(3, 0, 4)
    assert copies.asked == [first, other, other]
    copies.failing = {other}
    await sources.read(3, 0, 4)
    assert copies.asked[3:] == [other, first]
    assert caplog.text.count("a copy cannot be read: ledger=3") == 2, "each copy's failure is logged once"


async def test_where_both_fail_the_error_names_both_reasons():
    copies = Copies()
    copies.failing = {"tiered", "bookies"}
    sources = sources_of(topic(), copies)
    with pytest.raises(ReadFailedError, match="offloaded ledger 3: no object; no bookie"):
        await sources.read(3, 0, 4)


async def test_without_tiered_storage_the_bookies_are_read_as_long_as_they_have_the_ledger():
    copies = Copies()
    sources = sources_of(topic(), copies, with_tiered=False)
    assert await sources.read(3, 0, 4) == ["entries of the bookies"]
    sources.topic_changed(topic(deleted=True))
    with pytest.raises(ReadFailedError, match="it is in tiered storage only, which is not read here"):
        await sources.read(3, 0, 4)
    assert copies.asked == ["bookies"]
