"""The state machine of reading a stretch of a ledger, driven by answers in any order, from bookies that fail in any way."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.bookkeeper.errors import BookKeeperError, NoSuchEntryError, NoSuchLedgerError, ReadFailedError
from readonly_engine.bookkeeper.replicas import SPECULATE_S, ReplicaOrder
from readonly_engine.wire.bookkeeper_pb2 import ENOENTRY, ENOLEDGER, ETOOMANYREQUESTS, EUA
from readonly_engine.wire.entry import Entry
from readonly_engine.wire.ledgers import LedgerMetadata
from readonly_spark.read.fetch import BUSY_DEADLINE_S, PART_BYTES, STRETCH_BYTES, Fetch

LEDGER = 5
ENTRY_BYTES = 1000


def ledger(*ensembles, quorum=2):
    return LedgerMetadata(ensembles or ((0, ("a", "b")),), quorum, quorum, True, 10**6, 3)


def entries(first, count):
    return [
        Entry(LEDGER, number, number - 1, (number + 1) * ENTRY_BYTES, b"x") for number in range(first, first + count)
    ]


def make(first, last, metadata=None, *, batches=frozenset("abc"), in_flight=2, entry_bytes=ENTRY_BYTES):
    return Fetch(
        LEDGER,
        metadata or ledger(),
        first,
        last,
        entry_bytes=entry_bytes,
        in_flight=in_flight,
        choice=ReplicaOrder("", lambda: 0.5),
        supports_batches=lambda bookie: bookie in batches,
        tokens=count(1).__next__,
    )


def taken(fetch):
    found = []
    while (part := fetch.take()) is not None:
        found += [entry.entry_id for entry in part]
    return found


def test_parts_are_of_one_mebibyte_and_go_to_one_replica():
    fetch = make(0, 5000)
    sent = fetch.requests(0.0)
    size = PART_BYTES // ENTRY_BYTES
    assert [(r.first, r.max_entries, r.batch) for r in sent] == [(0, size, True), (size, size, True)]
    assert {r.bookie_id for r in sent} == {"a"}
    assert fetch.requests(0.1) == [], "so many are under way"


def test_stretches_of_a_ledger_go_to_its_replicas_by_turns():
    stretch = STRETCH_BYTES // ENTRY_BYTES
    asked = [make(number * stretch, 10**7).requests(0.0)[0].bookie_id for number in range(4)]
    assert asked == ["a", "b", "a", "b"]


def test_answers_in_any_order_are_given_out_in_order():
    fetch = make(0, 3000)
    one, two = fetch.requests(0.0)
    fetch.on_entries(two.token, entries(two.first, two.max_entries), 0.1)
    assert fetch.take() is None
    fetch.on_entries(one.token, entries(one.first, one.max_entries), 0.2)
    assert taken(fetch) == list(range(two.first + two.max_entries))
    assert not fetch.done
    (last,) = fetch.requests(0.3)
    assert (last.first, last.first + last.max_entries) == (two.first + two.max_entries, 3001)
    fetch.on_entries(last.token, entries(last.first, last.max_entries), 0.4)
    assert taken(fetch)
    assert fetch.done


def test_a_short_answer_is_followed_by_a_request_for_the_rest():
    fetch = make(0, 99)
    (one,) = fetch.requests(0.0)
    fetch.on_entries(one.token, entries(0, 40), 0.1)
    (two,) = fetch.requests(0.1)
    assert (two.first, two.max_entries) == (40, 60)


def test_a_failure_asks_the_next_replica_at_once():
    fetch = make(0, 9)
    (one,) = fetch.requests(0.0)
    fetch.on_failure(one.token, None, "gone", 0.1)
    (two,) = fetch.requests(0.1)
    assert {one.bookie_id, two.bookie_id} == {"a", "b"}


def test_a_slow_replica_is_not_waited_for():
    fetch = make(0, 9)
    (one,) = fetch.requests(0.0)
    wake = fetch.next_timer()
    assert wake <= SPECULATE_S[1]
    assert fetch.requests(wake - 0.01) == []
    (two,) = fetch.requests(wake)
    assert two.bookie_id != one.bookie_id
    assert fetch.requests(wake + 100) == [], "nobody else is left; the requests have deadlines of their own"
    fetch.on_entries(two.token, entries(0, 10), wake + 0.1)
    assert taken(fetch) == list(range(10))
    fetch.on_entries(one.token, entries(0, 10), wake + 0.2)
    assert taken(fetch) == []
    assert fetch.done


def test_bookies_without_batches_and_striped_ensembles_are_read_entry_by_entry():
    striped = ledger((0, ("a", "b", "c")))
    for fetch in (make(0, 9, batches=frozenset()), make(0, 9, striped)):
        sent = fetch.requests(0.0)
        assert [(r.first, r.max_entries, r.batch) for r in sent] == [(number, 1, False) for number in range(10)]
    fetch = make(0, 9, striped)
    for request in fetch.requests(0.0):
        assert request.bookie_id in striped.replicas_of(request.first)


def test_a_batch_that_nobody_gives_is_read_entry_by_entry_and_from_every_replica():
    fetch = make(0, 4)
    (one,) = fetch.requests(0.0)
    fetch.on_entries(one.token, entries(0, 2), 0.0)
    for _ in range(2):
        (again,) = fetch.requests(0.0)
        assert again.batch
        fetch.on_failure(again.token, None, "damaged", 0.0)
    singles = fetch.requests(0.0)
    assert [(r.first, r.batch) for r in singles] == [(2, False), (3, False), (4, False)]
    for request in singles:
        fetch.on_entries(request.token, entries(request.first, 1), 0.1)
    assert taken(fetch) == [0, 1, 2, 3, 4]
    assert fetch.done


def test_parts_end_where_the_ensemble_changes():
    fetch = make(0, 20, ledger((0, ("a", "b")), (7, ("b", "c"))), in_flight=4)
    sent = fetch.requests(0.0)
    assert [(r.first, r.max_entries) for r in sent] == [(0, 7), (7, 14)]
    assert sent[1].bookie_id in {"b", "c"}


def drive(fetch, status, limit=200.0):
    """All replicas answer with one status, for ever."""
    now = 0.0
    while now < limit:
        for request in fetch.requests(now):
            fetch.on_failure(request.token, status, f"status {status}", now)
        now += 0.05
    raise AssertionError("it continues for ever")


@pytest.mark.parametrize(
    ("status", "error"),
    [(ENOLEDGER, NoSuchLedgerError), (ENOENTRY, NoSuchEntryError), (None, ReadFailedError), (501, ReadFailedError)],
)
def test_what_no_replica_has_is_the_named_error(status, error):
    with pytest.raises(error, match="entry 5:0"):
        drive(make(0, 9), status)


@pytest.mark.parametrize(
    ("status", "metadata", "missing"),
    [
        (ENOENTRY, ledger(), (0, 0)),
        (ENOLEDGER, ledger(), (0, 9)),
        (ENOLEDGER, ledger((0, ("a", "b")), (4, ("b", "c"))), (0, 3)),  # the others are at other bookies
        (ENOLEDGER, ledger((0, ("a", "b", "c"))), (0, 0)),  # striped
    ],
    ids=["an entry", "the ledger", "a fragment of the ledger", "an entry of a striped ledger"],
)
def test_the_error_says_what_is_missing(status, metadata, missing):
    with pytest.raises((NoSuchEntryError, NoSuchLedgerError)) as caught:
        drive(make(0, 9, metadata), status)
    assert caught.value.missing == missing


@pytest.mark.parametrize(
    ("answers", "refused"),
    [({"a": EUA, "b": EUA}, True), ({"a": EUA, "b": None}, False), ({"a": EUA, "b": ENOENTRY}, False)],
)
def test_the_error_says_whether_all_replicas_refuse(answers, refused):
    fetch, now = make(0, 9), 0.0
    with pytest.raises(ReadFailedError) as caught:  # noqa: PT012 - it is raised at the end of it
        while now < 200:
            for request in fetch.requests(now):
                fetch.on_failure(request.token, answers[request.bookie_id], "", now)
            now += 0.05
    assert caught.value.refused == refused


def test_busy_bookies_are_asked_again_and_not_for_ever():
    fetch = make(0, 9)
    now, asked = 0.0, []
    with pytest.raises(ReadFailedError):  # noqa: PT012 - it is raised at the end of it
        while now < 10 * BUSY_DEADLINE_S:
            for request in fetch.requests(now):
                asked.append(now)
                fetch.on_failure(request.token, ETOOMANYREQUESTS, "busy", now)
            now += 0.05
    assert len(asked) > 6
    assert asked[-1] > BUSY_DEADLINE_S / 2
    fetch = make(0, 9)
    (one,) = fetch.requests(0.0)
    fetch.on_failure(one.token, ETOOMANYREQUESTS, "busy", 0.0)
    (two,) = fetch.requests(0.0)
    fetch.on_failure(two.token, ETOOMANYREQUESTS, "busy", 0.0)
    assert fetch.requests(0.0) == []
    (three,) = fetch.requests(fetch.next_timer())
    fetch.on_entries(three.token, entries(0, 10), 1.0)
    assert taken(fetch) == list(range(10))


OUTCOMES = ("all", "all", "all", "some", "lost", "busy", "silent", "missing")


@given(
    st.integers(0, 300),
    st.integers(0, 60),
    st.sampled_from([2, 3]),
    st.sets(st.sampled_from("abc")),
    st.integers(1, 4),
    st.integers(100, 300_000),
    st.lists(st.tuples(st.sampled_from(OUTCOMES), st.floats(0.0, 1.0)), max_size=40),
    st.randoms(),
)
def test_whatever_happens_entries_come_in_order_or_an_error_does(
    first, more, width, batches, in_flight, entry_bytes, outcomes, rng
):
    metadata = ledger((0, ("a", "b", "c")[:width]), (20, ("b", "c", "a")[:width]))
    fetch = make(first, first + more, metadata, batches=batches, in_flight=in_flight, entry_bytes=entry_bytes)
    script, now, under_way, found = list(outcomes), 0.0, [], []
    for _ in range(5000):
        try:
            under_way += fetch.requests(now)
        except BookKeeperError:
            assert outcomes, "nothing went wrong"
            return
        found += taken(fetch)
        if fetch.done:
            break
        if not under_way:
            deadline = fetch.next_timer()
            now = max(
                deadline if deadline < float("inf") else now, now + 0.001
            )  # without one, there is room for a new part
            continue
        request = under_way.pop(rng.randrange(len(under_way)))
        outcome, delay = script.pop() if script else ("all", 0.0)
        now += delay
        size = request.max_entries if outcome != "some" else max(1, request.max_entries // 2)
        match outcome:
            case "all" | "some":
                fetch.on_entries(request.token, entries(request.first, size), now)
            case "busy":
                fetch.on_failure(request.token, ETOOMANYREQUESTS, "busy", now)
            case "missing":
                fetch.on_failure(request.token, ENOENTRY, "missing", now)
            case "silent":
                now += 5.0
                fetch.on_failure(request.token, None, "no answer in time", now)
            case _:
                fetch.on_failure(request.token, None, "lost", now)
    assert found == list(range(first, first + more + 1))
