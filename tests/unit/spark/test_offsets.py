import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.position import Position
from readonly_spark.message_ids import PositionError, parse_message_id
from readonly_spark.offsets import OffsetError, Offsets

positions = st.builds(Position, st.integers(-1, 2**62), st.integers(-1, 2**40))
topics = st.dictionaries(st.text(min_size=1, max_size=20), positions, max_size=6)


@given(topics, st.randoms())
def test_equal_offsets_are_equal_texts_and_come_back(found, rng):
    names = list(found)
    rng.shuffle(names)
    text = Offsets("c", found).to_json()
    assert Offsets("c", {name: found[name] for name in names}).to_json() == text
    again = Offsets.from_dict(json.loads(text), "c")
    assert again.topics == found
    assert again.to_json() == text
    # Spark turns the text into a dictionary and back.
    assert json.dumps(json.loads(text)) == text


def test_the_form_of_an_offset():
    offsets = Offsets("id", {"b": Position(7, 3), "a": Position(-1, -1)})
    assert offsets.to_json() == '{"c": "id", "t": {"a": "-1:-1", "b": "7:3"}, "v": 1}'


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"partition-0": 5}, "is not an offset of pulsar-readonly"),
        ("x", "is not an offset of pulsar-readonly"),
        ({"c": "id", "t": {}, "v": 2}, "has offsets of version 2; supported is version 1"),
        ({"c": "other", "t": {}, "v": 1}, "is of cluster 'other', but metadataStoreUrl leads to cluster 'id'"),
        ({"c": "id", "t": {"a": "7"}, "v": 1}, "the checkpoint is damaged: a: '7' must be a message id"),
    ],
)
def test_what_is_no_offset_is_refused(found, told):
    with pytest.raises(OffsetError, match=told):
        Offsets.from_dict(found, "id")


@pytest.mark.parametrize("text", ["7:3", "7:3:-1", "7:3:0:12", "7:3:-1:0"])
def test_message_ids_as_clients_print_them(text):
    assert parse_message_id(text) == Position(7, 3)


@pytest.mark.parametrize("text", ["", "7", "7:", "a:b", "7:3:", "-7:3", 7, None, "7:3:1:2:3", "7 :3"])
def test_what_is_no_message_id(text):
    with pytest.raises(PositionError):
        parse_message_id(text)


def test_following_ledgers_are_part_of_an_offset_where_there_are_some():
    where = {"persistent://a/b/c": Position(5, 10), "persistent://a/b/d": Position(6, 1)}
    without = Offsets("k", where).to_json()
    assert '"n"' not in without, "checkpoints stay as earlier versions wrote them"
    made = Offsets("k", where, {"persistent://a/b/c": 8})
    assert made.to_json() == without.replace('"t"', '"n": {"persistent://a/b/c": 8}, "t"')
    assert Offsets.from_dict(json.loads(made.to_json()), "k") == made
    assert Offsets.from_dict(json.loads(without), "k").following == {}


@pytest.mark.parametrize("found", [[], "8", {"persistent://a/b/c": "8"}, {"persistent://a/b/c": True}])
def test_damaged_following_ledgers_are_refused(found):
    damaged = {**Offsets("k", {"persistent://a/b/c": Position(5, 10)}).to_dict(), "n": found}
    with pytest.raises(OffsetError, match=r"the checkpoint is damaged: .* must be ledger ids by topic"):
        Offsets.from_dict(damaged, "k")
