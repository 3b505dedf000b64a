"""LedgerChain against a naive model of a topic: a writer that rolls, closes and trims ledgers, with updates in any order."""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.ledgers import LedgerMetadata

from tests.support.ledgers import ledger_list


def info(*ledgers, terminated=False):
    made = ledger_list(*ledgers)
    if terminated:
        made.terminated_position.ledger_id = 1
    return made


def metadata(last_entry_id=None):
    ensembles = ((0, ("a:1", "b:1")),)
    if last_entry_id is None:
        return LedgerMetadata(ensembles, 2, 2, False, -1, 3)
    return LedgerMetadata(ensembles, 2, 2, True, last_entry_id, 3)


def walk(chain, position=EARLIEST):
    """All readable positions, in the order of a reader."""
    found = []
    position = chain.at_or_after(chain.after(position))
    while chain.readable(position):
        found.append(position)
        position = chain.after(position)
    return found


@dataclass
class Written:
    """A ledger at its writer: its entries, whether it is closed, and whether it is finished in the topic's list."""

    ledger_id: int
    entries: int = 0
    closed: bool = False
    listed: bool = False


class AReaderFollowsATopic(RuleBasedStateMachine):
    """A writer, and a chain that gets its state in pieces, late and in any order, as from ZooKeeper and bookies."""

    def __init__(self):
        super().__init__()
        self.chain = LedgerChain()
        self.written = [Written(1)]
        self.next_id = 2
        self.known = set()
        self.limit = None

    # The writer

    @rule(count=st.integers(1, 4))
    def write(self, count):
        if not self.written[-1].closed:
            self.written[-1].entries += count

    @rule()
    def close_last(self):
        """A roll or an unload begins: the ledger's own metadata is first."""
        self.written[-1].closed = True

    @precondition(lambda self: self.written[-1].closed)
    @rule(step=st.integers(1, 3))
    def roll(self, step):
        """The list has the closed ledger's size and the new ledger at the same time."""
        self.written[-1].listed = True
        self.next_id += step
        self.written.append(Written(self.next_id))

    @rule()
    def recover_with_one_more(self):
        """The writer died: recovery closes the ledger and keeps an entry beyond the LAC."""
        if not self.written[-1].closed:
            self.written[-1].entries += 1
            self.written[-1].closed = True

    @precondition(lambda self: len(self.written) > 1)
    @rule()
    def trim(self):
        del self.written[0]

    # The updates

    @rule()
    def the_list_arrives(self):
        gone = self.known - {ledger.ledger_id for ledger in self.written}
        if gone:
            self.limit = None  # entries were removed: the limit may be lower now
        self.known = {ledger.ledger_id for ledger in self.written}
        self.chain.topic_changed(info(*[(w.ledger_id, w.entries) if w.listed else w.ledger_id for w in self.written]))

    @rule(data=st.data())
    def a_ledgers_metadata_arrives(self, data):
        ledger = data.draw(st.sampled_from(self.written))
        self.chain.ledger_changed(ledger.ledger_id, metadata(ledger.entries - 1 if ledger.closed else None))

    @rule(data=st.data())
    def a_lac_arrives(self, data):
        """Of any ledger, any value that was once right."""
        ledger = data.draw(st.sampled_from(self.written))
        self.chain.lac_advanced(ledger.ledger_id, data.draw(st.integers(-1, ledger.entries - 1)))

    # Invariants

    def entries_of(self, ledger_id):
        return next((w.entries for w in self.written if w.ledger_id == ledger_id), None)

    @invariant()
    def nothing_is_read_that_was_not_written_and_nothing_is_left_out(self):
        """The readable entries are a prefix of the written entries in known ledgers."""
        found = walk(self.chain)
        truth = [
            Position(ledger_id, entry)
            for ledger_id in self.chain.ledger_ids
            if self.entries_of(ledger_id) is not None
            for entry in range(self.entries_of(ledger_id))
        ]
        kept = [position for position in found if self.entries_of(position.ledger_id) is not None]
        assert kept == truth[: len(kept)]
        assert found == sorted(found)
        assert self.chain.limit == (found[-1] if found else None)

    @invariant()
    def the_limit_does_not_step_back(self):
        limit = self.chain.limit
        if self.limit is not None:
            assert limit is not None
            assert limit >= self.limit
        self.limit = limit

    @invariant()
    def a_run_is_readable_as_far_as_it_goes_and_no_further_than_its_ledger(self):
        for position in walk(self.chain):
            for count in (1, 2, 100):
                first, last = self.chain.run(position, count)
                assert first == position.entry_id
                assert 1 <= last - first + 1 <= count
                assert all(self.chain.readable(Position(position.ledger_id, e)) for e in range(first, last + 1))
                if last - first + 1 < count:
                    assert not self.chain.readable(Position(position.ledger_id, last + 1))

    @invariant()
    def following_is_monotone_and_settles(self):
        for ledger_id in range(-1, self.next_id + 2):
            for entry_id in range(-1, 6):
                position = Position(ledger_id, entry_id)
                after = self.chain.after(position)
                assert after > position
                place = self.chain.at_or_after(position)
                assert place >= position
                assert place.entry_id >= 0
                assert self.chain.at_or_after(place) == place
                assert self.chain.at_or_after(after) == after
                if self.chain.readable(position):
                    assert place == position

    @invariant()
    def open_ledgers_are_those_whose_end_is_not_known(self):
        for ledger_id in self.chain.ledger_ids:
            assert (ledger_id in self.chain.open_ledgers) != self.chain.ledger(ledger_id).closed

    def teardown(self):
        """After all updates, all entries of closed ledgers are readable."""
        self.the_list_arrives()
        for ledger in self.written:
            self.chain.ledger_changed(ledger.ledger_id, metadata(ledger.entries - 1 if ledger.closed else None))
            if not ledger.closed:
                self.chain.lac_advanced(ledger.ledger_id, ledger.entries - 1)
        assert walk(self.chain) == [Position(w.ledger_id, e) for w in self.written for e in range(w.entries)]


TestAReaderFollowsATopic = AReaderFollowsATopic.TestCase


@pytest.fixture
def chain():
    return LedgerChain()


def three_ledgers(chain):
    chain.topic_changed(info((3, 2), (5, 0), (8, 3), 9))
    return [Position(3, 0), Position(3, 1), Position(8, 0), Position(8, 1), Position(8, 2)]


def test_what_comes_before(chain):
    entries = three_ledgers(chain)
    assert [chain.before(entry) for entry in entries] == [None, *entries[:-1]]
    assert chain.before(Position(9, 0)) == entries[-1]
    assert chain.before(Position(5, 0)) == Position(3, 1)
    assert chain.first == entries[0]


def test_distances_are_counted_in_entries(chain):
    entries = three_ledgers(chain)
    for i, start in enumerate(entries):
        assert chain.at(i) == start
        assert [chain.distance(start, end) for end in entries] == [j - i for j in range(5)]
    assert chain.distance(EARLIEST, Position(1 << 40, 0)) == 5
    assert chain.distance(Position(4, 7), Position(5, 100)) == 0
    assert chain.at(5) is None
    assert chain.at(-1) is None


def test_an_empty_topic_has_no_first_entry(chain):
    assert chain.first is None
    chain.topic_changed(info(3))
    assert chain.first is None
    assert chain.before(Position(3, 0)) is None
