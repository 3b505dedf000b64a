import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.cursor_records import (
    ACKED,
    DEFINITIONS,
    MARK_DELETES,
    MAX_PAGES,
    MAX_RANGES,
    MAX_SEGMENT_BYTES,
    MAX_SEGMENTS,
    PAGE,
    MarkDelete,
    PageDefinitions,
    RecordKey,
    SubscriptionDefinition,
    decode_acked,
    decode_definitions,
    decode_key,
    decode_mark_deletes,
    encode_definitions,
    encode_key,
    encode_mark_deletes,
    encode_segment,
    split_acked,
)
from readonly_engine.wire.cursor_records_pb2 import Acked, MarkDeletes
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.position import Position

TOPIC = "persistent://public/default/a|b"
numbers = st.integers(-1, 1 << 62)
positions = st.builds(Position, numbers, numbers)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (RecordKey(DEFINITIONS, 0, TOPIC), f"d|0|{TOPIC}"),
        (RecordKey(MARK_DELETES, MAX_PAGES - 1, TOPIC), f"m|{MAX_PAGES - 1}|{TOPIC}"),
        (RecordKey(ACKED, 7, TOPIC, PAGE - 1, MAX_SEGMENTS - 1), f"a|7|{PAGE - 1}|{MAX_SEGMENTS - 1}|{TOPIC}"),
    ],
)
def test_keys(key, text):
    assert encode_key(key) == text
    assert decode_key(text) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x|0|t",
        "d",
        "d|0",
        "d|0|",
        "d|-1|t",
        "d|²|t",
        "d|99999999999|t",
        f"d|{MAX_PAGES}|t",
        "a|0|0|t",
        f"a|0|{PAGE}|0|t",
        f"a|0|0|{MAX_SEGMENTS}|t",
    ],
)
def test_other_keys_are_refused(text):
    with pytest.raises(MalformedFrameError, match="record of cursors has the"):
        decode_key(text)


DEFINED = PageDefinitions(
    9,
    (
        SubscriptionDefinition(3, "söb", 4, Position(-1, -1), 17, (("k", "v"),)),
        SubscriptionDefinition(0, "", 9, Position(5, 6)),
    ),
)


def test_definitions():
    assert decode_definitions(encode_definitions(DEFINED)) == DEFINED
    assert encode_definitions(DEFINED).hex() == (
        "0809" "12180803120473c3b6621804200128013011" "3a06" "0a016b" "120176" "120c08001200""1809200a280c3000"
    )  # fmt: skip


def test_definitions_with_the_time_of_the_topics_creation():
    defined = DEFINED._replace(topic_created_ms=1_700_000_000_000)
    assert decode_definitions(encode_definitions(defined)) == defined
    assert encode_definitions(defined) == encode_definitions(DEFINED) + bytes.fromhex("1880d095ffbc31")


def test_definitions_with_one_number_twice_are_refused():
    one = SubscriptionDefinition(1, "a", 1, Position(0, 0))
    with pytest.raises(MalformedFrameError, match="two subscriptions"):
        decode_definitions(encode_definitions(PageDefinitions(1, (one, one))))


@given(st.lists(st.builds(MarkDelete, st.integers(0, PAGE - 1), st.integers(0, 1 << 63), positions)))
def test_mark_deletes(marks):
    assert decode_mark_deletes(encode_mark_deletes(marks)) == marks


def test_mark_deletes_at_the_tail_need_a_dozen_bytes_each():
    marks = [MarkDelete(index, 300, Position(1_000_000, 50_000)) for index in range(PAGE)]
    assert len(encode_mark_deletes(marks)) / PAGE < 12


@pytest.mark.parametrize(
    ("decode", "value", "why"),
    [
        (decode_mark_deletes, MarkDeletes(number=[1]).SerializeToString(), "lists of different lengths"),
        (decode_mark_deletes, encode_mark_deletes([MarkDelete(PAGE, 1, Position(0, 0))]), f"the highest is {PAGE - 1}"),
        (decode_definitions, encode_definitions(PageDefinitions(0, (SubscriptionDefinition(PAGE, "", 0, Position(0, 0)),))),
         f"the highest is {PAGE - 1}"),
        (decode_acked, Acked(lower_entry_id=[1]).SerializeToString(), "lists of different lengths"),
        (decode_mark_deletes, b"\xff", "no MarkDeletes"),
        (decode_definitions, b"\xff", "no Definitions"),
        (decode_acked, b"\xff", "no Acked"),
    ],
)  # fmt: skip
def test_damaged_records_are_the_named_error(decode, value, why):
    with pytest.raises(MalformedFrameError, match=why):
        decode(value)


def encode_acked(generation, ranges, batches):
    return [encode_segment(generation, *part) for part in split_acked(ranges, batches)]


@given(
    st.lists(st.tuples(positions, positions), unique_by=lambda row: row[0]),
    st.dictionaries(positions, st.integers(1, 1 << 300)),
)
def test_acks(ranges, batches):
    segments = [decode_acked(value) for value in encode_acked(7, ranges, batches.items())]
    assert {segment.generation for segment in segments} <= {7}
    assert sorted(one for segment in segments for one in segment.ranges) == sorted(ranges)
    assert dict(one for segment in segments for one in segment.batches) == batches


def ranges_of(count):
    return [(Position(1, 2 * entry), Position(1, 2 * entry + 1)) for entry in range(count)]


@pytest.mark.parametrize(
    ("count", "segments"), [(0, 0), (MAX_RANGES, 1), (MAX_RANGES + 1, 2), (MAX_RANGES * MAX_SEGMENTS + 1, MAX_SEGMENTS)]
)
def test_acks_are_split_into_parts_up_to_a_bound(count, segments):
    found = encode_acked(1, ranges_of(count), ())
    assert len(found) == segments
    kept = [one for value in found for one in decode_acked(value).ranges]
    assert kept == ranges_of(min(count, MAX_RANGES * MAX_SEGMENTS))


def test_large_batches_fill_a_part_earlier():
    size = MAX_SEGMENT_BYTES // 10
    batches = [(Position(1, entry), 1 << (8 * size - 1)) for entry in range(25)]
    found = encode_acked(1, (), batches)
    assert len(found) == 3
    assert max(map(len, found)) < MAX_SEGMENT_BYTES + 2 * size
    assert [one for value in found for one in decode_acked(value).batches] == batches
