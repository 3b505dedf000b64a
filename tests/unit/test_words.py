"""Names in code are the field's: no identifier is one of the home-made words that had to go."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("engine", "operator", "spark", "tests", "lab")
PRODUCTS = ("engine", "operator", "spark")


def words_of(text):
    return frozenset(re.findall(r"\w+", text))


GONE = words_of(
    """
    Together Group Cohort Row Seat Place take_place Had Follower Link left_over Turn pressed Announcer Burst
    Pace LimitAsking OwnerLimit LacTail Leader Polls Flow Rest await_more read_on first_good ReplicaChoice
    InFlight Beyond RelayedConsumer mute OwnerState Resident owner_said owner_gone AckRelay AckBatches Waves
    SharedAsking Owners Login Renewal expel ServedTopics Questions CursorCopy OwnerCursor take_over
    CursorWatch BatchMemory TxnGate TxnAcks TxnAckLog OwnerSettings acked_plainly Receiver offer_plainly
    affordable go_on KeyRing KeyRanges ReplayQueue DelayedEntries Fleet Claiming Hold REST GO_ON REFER Moves
    Arrivals move_on goes_where_told Balancer PassThrough Passage withdraw Arrival RelayedProducer
    turn_away_unbound LOOK_S FRESH_S Desk poke Wish Territory rivals Work Piece TaskPiece TaskLedger
    LedgerState Facts Taken Wanted await_notification going_on Namesakes LocalNamesakes bring_in on_not_kept
    former_may_ack left_unconfirmed gather_some lose_all Suits look_again last_words
    resync_now_and_then HandOver half_restored Outages
    """
)
"""No identifier anywhere, not even a local variable of a test."""

GONE_PATTERNS = (re.compile(r"_?MOST_\w+"), re.compile(r"\w+_AT_ONCE"))

UNDEFINED = words_of(
    """
    part settle news told came moved coming patient patience survey attach goes_on pump want offer dismiss
    look say tell seen holding
    """
)
"""Of the products' modules no function, class, attribute or parameter: as local variables they are ordinary English."""

ALLOWED = {
    ("part", "engine/readonly_engine/tiered/jcloud.py"): "an offloaded ledger has parts (the streaming offloader)",
    ("part", "engine/readonly_engine/tool/reading.py"): "a partition that the tool reads",
    ("part", "spark/readonly_spark/read/fetch.py"): "a part of a read",
    ("_seen", "spark/readonly_spark/rows/chunks.py"): "chunks that a task has seen",
}
"""Definitions that keep such a word, each with its reason."""

ORDINARY = {
    "Run": "a run of a test program (churn, chaos, oracle, compat)",
    "newest": "the newest entry, ledger or schema: plain English",
    "whole": "plain English",
    "plain": "a plain ack or entry, as in the codecs",
    "chunk": "Pulsar's word for a part of a large message",
    "oracle": "the tests' word: a stock broker whose answers are right",
    "take": "of a queue or an array: Python's and pyarrow's word",
}
"""Words of the glossary's left column that are not looked for, each with its reason."""


def sources(folders):
    found = [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.name.endswith("_pb2.py") and ".venv" not in path.parts
    ]
    assert found
    return found


def names_in(text):
    return {
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.NAME
    }


def definitions_in(text):
    """Names of functions and classes, parameters, attributes of `self`, and fields of classes."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
                if isinstance(node, ast.ClassDef):
                    yield from (one.target.id for one in node.body if isinstance(one, ast.AnnAssign))
            case ast.arg():
                yield node.arg
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


def gone(names):
    return {
        name
        for name in names
        if {name, name.strip("_")} & GONE or any(pattern.fullmatch(name) for pattern in GONE_PATTERNS)
    }


def undefined(text):
    return {name for name in definitions_in(text) if name.strip("_") in UNDEFINED}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_identifier_is_a_word_that_has_gone(folder):
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in sources([folder])
        if (names := gone(names_in(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize("folder", PRODUCTS)
def test_nothing_is_defined_under_an_ordinary_word_that_says_little(folder):
    found = {
        (name, path.relative_to(ROOT).as_posix())
        for path in sources([folder])
        for name in undefined(path.read_text(encoding="utf-8"))
    }
    assert found - set(ALLOWED) == set()
    assert {entry for entry in ALLOWED if entry[1].startswith(f"{folder}/")} <= found, (
        "an exception is not needed any more"
    )


def test_the_lists_have_nothing_in_common():
    assert not GONE & UNDEFINED
    assert not set(ORDINARY) & (GONE | UNDEFINED)


def test_such_names_are_found():
    code = "MOST_BYTES = 1\n\n\nclass Seat:\n    told: int\n\n    def look(self, want):\n        self._seen = want\n"
    assert gone(names_in(code)) == {"MOST_BYTES", "Seat"}
    assert undefined(code) == {"told", "look", "want", "_seen"}


def test_a_state_machine_that_acts_on_time_tells_when():
    """The pair of CONTRIBUTING: `next_timer()` is the time at which the shell calls `on_timer(now)`."""
    found = {
        f"{path.relative_to(ROOT)}: {node.name}": methods
        for path in sources(PRODUCTS)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and "on_timer" in (methods := {one.name for one in node.body if isinstance(one, ast.FunctionDef)})
    }
    assert [one for one, methods in found.items() if "next_timer" not in methods] == []
    assert len(found) > 8
