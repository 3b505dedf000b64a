import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.cursors import NO_LEDGER, CursorState, decode_cursor, decode_cursor_entry
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.managed_ledger_pb2 import CursorEntry, CursorInfo


def acked(cursor):
    """What capture_cursors.py acknowledges, in three ledgers in a row, whose ids are the cluster's choice."""
    first, second, third = cursor.mark_delete[0], cursor.holes[-1][0][0], cursor.batches[0][0][0]
    assert first < second < third
    return {
        "mark_delete": (first, 9),
        "holes": (((first, 19), (first, 29)), ((first, 94), (first, 99)), ((second, -1), (second, 4))),
        # Of five messages the second and the fourth are acknowledged: indexes 0, 2 and 4 are left.
        "batches": (((third, 3), 0b10101),),
    }


def test_a_real_cursor_in_use_says_which_ledger_it_is_in(golden):
    cursor = decode_cursor(golden("zk_cursor_open"))
    assert cursor.cursor_ledger >= 0
    assert cursor.last_active > 1_700_000_000_000


@pytest.mark.parametrize("name", ["cursor_entry", "cursor_entry_long_arrays"])
def test_the_last_entry_of_a_real_cursor_ledger(golden, name):
    cursor = decode_cursor_entry(golden(name))
    assert cursor == CursorState(**acked(cursor))


@pytest.mark.parametrize("codec", ["closed", "lz4", "zlib", "zstd", "snappy"])
def test_a_real_cursor_after_an_unload_is_whole_compressed_or_not(golden, codec):
    value = golden(f"zk_cursor_{codec}")
    assert value.startswith(b"\x47\x78") == (codec != "closed")
    cursor = decode_cursor(value)
    assert cursor == CursorState(**acked(cursor), last_active=cursor.last_active)
    assert cursor.cursor_ledger == NO_LEDGER


def test_properties():
    info = CursorInfo(cursor_ledger_id=-1, mark_delete_ledger_id=3, mark_delete_entry_id=4)
    info.properties.add(name="CompactedTopicLedger", value=77)
    info.cursor_properties.add(name="owner", value="shop")
    cursor = decode_cursor(info.SerializeToString())
    assert cursor.properties == (("CompactedTopicLedger", 77),)
    assert cursor.cursor_properties == (("owner", "shop"),)


def test_a_range_that_ends_before_it_begins_is_the_named_error():
    info = CursorInfo(mark_delete_ledger_id=3, mark_delete_entry_id=4)
    one = info.individually_deleted.add()
    one.lower.ledger_id, one.lower.entry_id = 3, 9
    one.upper.ledger_id, one.upper.entry_id = 3, 9
    with pytest.raises(MalformedFrameError, match="range of acknowledged entries"):
        decode_cursor(info.SerializeToString())


@given(st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 300), min_size=1), max_size=4))
def test_bits_of_ledgers_are_the_ranges_of_the_same_entries(ledgers):
    entry = CursorEntry(ledger_id=0, entry_id=-1)
    for ledger_id, deleted in ledgers.items():
        bits = sum(1 << entry_id for entry_id in deleted)
        words = [bits >> shift & (1 << 64) - 1 for shift in range(0, bits.bit_length(), 64)]
        signed = [word - (1 << 64) if word >> 63 else word for word in words]
        entry.deleted_bits.add(ledger_id=ledger_id, words=signed)
    holes = decode_cursor_entry(entry.SerializeToString()).holes
    covered = [(low[0], n) for low, high in holes for n in range(low[1] + 1, high[1] + 1)]
    assert covered == sorted((ledger_id, n) for ledger_id, deleted in ledgers.items() for n in deleted)
    assert all(low[0] == high[0] for low, high in holes)
