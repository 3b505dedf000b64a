"""The oracle finds every kind of difference, but accepts entries that the owner omits by rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.topic.position import Position

from longtests.oracle.compare import TXN_ABORT, TXN_COMMIT, Comparison, StoredFrame, TransactionId, compare
from longtests.oracle.owner import OwnerFrame

ONE, TWO = TransactionId(0, 1), TransactionId(0, 2)


def entry(number: int, transaction: TransactionId | None = None, marker: int | None = None) -> StoredFrame:
    return StoredFrame(Position(1, number), b"frame %d" % number, marker, transaction)


def sent(*numbers: int) -> list[OwnerFrame]:
    return [OwnerFrame(Position(1, number), b"frame %d" % number) for number in numbers]


PLAIN = [entry(number) for number in range(4)]


def test_equal_logs_have_no_difference() -> None:
    result = compare("t", PLAIN, sent(0, 1, 2, 3))
    assert (result.differences, result.stored, result.delivered) == (0, 4, 4)
    assert result.frame_bytes == sum(len(e.frame) for e in PLAIN)


@pytest.mark.parametrize(
    "numbers", [(0, 1, 2), (1, 2, 3), (0, 1, 3), (0, 1, 2, 3, 4), (), (0, 1, 1, 2, 3), (0, 2, 1, 3)]
)
def test_an_entry_more_less_twice_or_out_of_order_is_a_difference(numbers: tuple[int, ...]) -> None:
    assert compare("t", PLAIN, sent(*numbers)).differences


@given(st.integers(0, 3), st.data())
def test_any_changed_byte_is_a_difference(number: int, data: st.DataObject) -> None:
    frame = bytearray(PLAIN[number].frame)
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    frames = sent(0, 1, 2, 3)
    frames[number] = OwnerFrame(frames[number].position, bytes(frame))
    result = compare("t", PLAIN, frames)
    assert result.differences == 1
    assert f"1:{number} differs" in result.examples[0]


def test_what_storage_gives_twice_or_out_of_order_is_a_difference() -> None:
    assert compare("t", [*PLAIN[:2], PLAIN[1], *PLAIN[2:]], sent(0, 1, 2, 3)).differences
    assert compare("t", [PLAIN[1], PLAIN[0]], sent(0, 1)).differences


def test_markers_and_aborted_entries_are_in_storage_only() -> None:
    stored = [
        entry(0, ONE),
        entry(1, TWO),
        entry(2),
        entry(3, ONE, TXN_COMMIT),
        entry(4, TWO, TXN_ABORT),
        entry(5, marker=12),
    ]
    result = compare("t", stored, sent(0, 2))
    assert (result.differences, result.markers, result.aborted, result.held_back) == (0, 3, 1, 0)
    assert compare("t", stored, sent(0, 1, 2)).differences
    assert compare("t", stored, sent(2)).differences
    assert compare("t", stored, sent(0, 2, 3)).differences


def test_nothing_is_delivered_from_an_open_transaction_on() -> None:
    stored = [entry(0), entry(1, ONE), entry(2), entry(3, TWO), entry(4, TWO, TXN_COMMIT)]
    result = compare("t", stored, sent(0))
    assert (result.differences, result.held_back, result.markers) == (0, 3, 1)
    assert compare("t", stored, sent(0, 2)).differences


def test_comparisons_add_up() -> None:
    total = Comparison()
    total.add(compare("a", PLAIN, sent(0, 1, 2, 3)))
    total.add(compare("b", PLAIN, sent(0, 1, 2)))
    assert (total.topics, total.stored, total.delivered, total.differences) == (2, 8, 7, 1)
    assert "b: 1:3" in total.examples[0]
