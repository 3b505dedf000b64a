"""What consumers leave of batches, as it stands in the metadata store."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.batch_memory import MOST_BYTES, LeftBatches, decode_left, encode_left
from readonly_engine.topic.position import Position

POSITIONS = st.builds(Position, st.integers(0, 2**40), st.integers(0, 2**40))
BATCHES = st.dictionaries(POSITIONS, st.integers(1, 2**2000), max_size=30)


@given(st.text(max_size=40), st.floats(0, 2e9), BATCHES)
def test_a_broker_reads_what_another_has_written(version: str, at: float, batches: dict[Position, int]) -> None:
    left = LeftBatches(version, at, sorted(batches.items()))
    assert decode_left(encode_left(left)) == left


def test_the_first_batches_are_kept_where_not_all_have_room() -> None:
    batches = [(Position(7, entry), (1 << 1000) - 1) for entry in range(5000)]
    value = encode_left(LeftBatches("1:2", 0.0, batches[::-1]))
    assert MOST_BYTES / 2 < len(value) < MOST_BYTES + 200
    left = decode_left(value)
    assert left is not None
    assert left.batches == batches[: len(left.batches)]


SOUND = {"version": "1:2", "at": 1.5, "batches": [[1, 2, "f"]]}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        *(json.dumps({**SOUND, **change}).encode() for change in ({"batches": [[1]]}, {"batches": 3}, {"at": None})),
        json.dumps({**SOUND, "batches": [[1, 2, "zz"]]}).encode(),
    ],
)
def test_what_is_not_understood_is_left_out(value: bytes) -> None:
    assert decode_left(json.dumps(SOUND).encode()) is not None
    assert decode_left(value) is None
