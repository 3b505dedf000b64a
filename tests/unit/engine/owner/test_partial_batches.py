"""The search for partly acked batches at the owner: what it finds, how many permits it spends, and where it ends."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.owner.partial_batches import (
    MAX_BYTES,
    MAX_MESSAGES,
    PERMITS_BYTES,
    SEARCH_MESSAGES,
    PartialBatchQuery,
)
from readonly_engine.topic.position import Position
from readonly_engine.wire.bit_set import words_of
from readonly_engine.wire.pulsar_pb2 import CommandMessage

LAST = Position(9, 10**6)


def message(entry: int, unacked: int = 0) -> CommandMessage:
    command = CommandMessage(consumer_id=1, ack_set=words_of(unacked))
    command.message_id.ledger_id, command.message_id.entry_id = 9, entry
    return command


class Owner:
    """An owner with entries of a size; `bits` are of the partly acked ones. It sends while a permit is unused."""

    def __init__(self, bits: dict[int, int], size: int = 100) -> None:
        self.bits = bits
        self.size = size
        self.granted = 0
        self.sent = 0

    def messages(self, permits: int) -> Iterator[tuple[CommandMessage, bytes]]:
        self.granted += permits
        while self.granted > 0:
            unacked = self.bits.get(self.sent, 0)
            self.granted -= unacked.bit_count() or 1
            yield message(self.sent, unacked), bytes(self.size)
            self.sent += 1


def search(query: PartialBatchQuery, owner: Owner) -> list[int]:
    """Run a search to its end; return the permits of each step."""
    steps = []
    while not query.ended:
        permits = query.permits()
        assert permits > 0, "the search would hang"
        steps.append(permits)
        for one in owner.messages(permits):
            query.on_message(*one)
            if query.ended:
                break
    return steps


def test_the_search_ends_after_so_many_messages_without_bits() -> None:
    query, owner = PartialBatchQuery(LAST), Owner({5: 0b1, 5 + SEARCH_MESSAGES: 0b1, 7 + 2 * SEARCH_MESSAGES: 0b1})
    search(query, owner)
    assert [position.entry_id for position, _ in query.batches] == [5, 5 + SEARCH_MESSAGES]
    assert owner.sent <= 2 * SEARCH_MESSAGES + 7
    assert query.permits() == 0


def test_a_search_is_bounded_in_messages_and_bytes() -> None:
    everywhere = dict.fromkeys(range(MAX_MESSAGES + 10), 0b1)
    owner = Owner(everywhere, size=10)
    search(PartialBatchQuery(LAST), owner)
    assert owner.sent == MAX_MESSAGES - 1
    owner = Owner(everywhere, size=MAX_BYTES // 20 + 1)
    steps = search(PartialBatchQuery(LAST), owner)
    assert owner.sent == 20 - 1
    assert steps[1:] == [1] * (len(steps) - 1), "large messages come one by one after the first permits"
    owner = Owner(everywhere, size=PERMITS_BYTES // 10)
    assert max(search(PartialBatchQuery(LAST), owner)[1:]) <= 10


@given(
    st.dictionaries(st.integers(0, 500), st.integers(1, 2**130), max_size=50), st.integers(0, 5000), st.integers(0, 500)
)
def test_bits_are_those_of_the_owner(bits: dict[int, int], size: int, last: int) -> None:
    query = PartialBatchQuery(Position(9, last))
    search(query, Owner(bits, size))
    assert dict(query.batches).items() <= {(Position(9, entry), unacked) for entry, unacked in bits.items()}
    if len(bits) * 130 < MAX_MESSAGES and last < SEARCH_MESSAGES:
        assert {position.entry_id for position, _ in query.batches} == {entry for entry in bits if entry <= last}
