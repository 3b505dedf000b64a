"""The checker of `make -C lab chaos`: good histories pass, and each kind of violation is found in a bad one."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtests.chaos.check import LATE_RESET_S, check
from longtests.chaos.observed import NEAR_S, Done, Faults, Stored, Topic, Watched
from longtests.chaos.verdict import Limits, Verdict, Violation
from longtests.churn.history import Event, Id, Kind

S = "t/s"
COUNT = 12
SENT = 100.0
STORED = [Stored(Id(1, n), f"k{n % 3}", f"m{n}", SENT + n) for n in range(COUNT)]
LIMITS = Limits(two_at_once_s=30.0, repeated=20)
FAR = Done(9_000.0, 9_001.0, "far", "far", writable=True)


def delivered(at: float, *numbers: int, session: str = "a") -> Event:
    return Event(at, Kind.DELIVERED, S, session, tuple(Id(1, n) for n in numbers))


def event(at: float, kind: Kind, *numbers: int, session: str = "a", number: int = 0, text: str = "") -> Event:
    return Event(at, kind, S, session, tuple(Id(1, n) for n in numbers), number, text)


def good(session: str = "a", start: int = 0, end: int = COUNT) -> list[Event]:
    events = [event(SENT, Kind.OPENED, session=session)]
    for n in range(start, end):
        at = SENT + n
        events += [
            delivered(at + 0.1, n, session=session),
            event(at + 0.2, Kind.ACKING, n, session=session),
            event(at + 0.3, Kind.ACKED, n, session=session),
        ]
    return events


def judge(
    events: list[Event],
    watched: Watched | None = None,
    stored: list[Stored] | None = None,
    faults: tuple[Done, ...] = (FAR,),
    limits: Limits = LIMITS,
    **topic: object,
) -> Verdict:
    held = Topic(STORED if stored is None else stored, **topic)  # type: ignore[arg-type]
    ordered = sorted(events, key=lambda one: one.at)
    return check(ordered, {S: watched or Watched("t", "Exclusive")}, {"t": held}, faults, limits)


def kinds(verdict: Verdict) -> set[Violation]:
    return {found.violation for found in verdict.found}


@pytest.mark.parametrize("type_", ["Exclusive", "Failover", "Shared", "Key_Shared", "Reader"])
def test_a_good_history_passes(type_: str) -> None:
    verdict = judge(good(), Watched("t", type_))
    assert not verdict.found
    assert verdict.counts[S]["first"] == COUNT
    assert verdict.latencies[1] == pytest.approx([0.1] * COUNT)


@settings(deadline=None)
@given(st.integers(0, COUNT - 1), st.sampled_from(["Exclusive", "Failover", "Shared", "Key_Shared"]))
def test_any_message_that_is_left_out_is_lost(missing: int, type_: str) -> None:
    events = [one for one in good() if Id(1, missing) not in one.ids]
    verdict = judge(events, Watched("t", type_))
    assert [(found.violation, found.id) for found in verdict.found] == [(Violation.LOST, Id(1, missing))]


@settings(deadline=None)
@given(st.integers(1, COUNT - 2))
def test_a_readers_gap_is_found(missing: int) -> None:
    events = [one for one in good() if Id(1, missing) not in one.ids]
    assert kinds(judge(events, Watched("t", "Reader"))) == {Violation.LOST, Violation.READER_GAP}


def test_a_reader_that_begins_at_the_end_owes_nothing_before_its_first_message() -> None:
    assert not judge(good(start=5), Watched("t", "Reader", latest=True)).found
    assert kinds(judge(good(start=5), Watched("t", "Reader"))) == {Violation.LOST}
    assert kinds(judge(good(start=5, end=9), Watched("t", "Reader", latest=True))) == {Violation.LOST}


def test_a_reader_gets_nothing_again_and_another_session_may() -> None:
    again = delivered(SENT + 50, 3)
    assert kinds(judge([*good(), again], Watched("t", "Reader"))) == {Violation.READER_ORDER}
    assert not judge([*good(), delivered(SENT + 50, 11, session="b")], Watched("t", "Reader")).found


@pytest.mark.parametrize("type_", ["Exclusive", "Failover", "Shared", "Key_Shared", "Reader"])
def test_entries_beyond_a_ledgers_size_in_the_topics_list_may_come_and_need_not(type_: str) -> None:
    ids = [Id(1, 0), Id(1, 1), Id(1, 2), Id(2, 0), Id(2, 1)]
    stored = [Stored(id_, "k", f"m{id_.ledger}{id_.entry}", SENT) for id_ in ids]
    all_ = [Event(SENT + n, Kind.DELIVERED, S, "a", (id_,)) for n, id_ in enumerate(ids)]
    without = [one for one in all_ if one.ids != (Id(1, 2),)]
    watched = Watched("t", type_)
    assert not judge(all_, watched, stored, sizes={1: 2}).found
    assert not judge(without, watched, stored, sizes={1: 2}).found
    assert Violation.LOST in kinds(judge(without, watched, stored, sizes={1: 3}))
    assert Violation.LOST in kinds(judge(without, watched, stored))
    assert Violation.LOST in kinds(judge(without[:-1], watched, stored, sizes={1: 2}))


def test_a_message_with_a_receipt_must_be_within_a_ledgers_size() -> None:
    receipt = Event(SENT, Kind.PUBLISHED, "", "", (Id(1, 11),), text="t m11")
    assert not judge([*good(), receipt], sizes={1: 12}).found
    assert kinds(judge([*good(), receipt], sizes={1: 11})) == {Violation.NOT_STORED}


def test_a_message_that_the_owner_repeats_in_a_new_ledger_is_not_there_twice() -> None:
    stored = [Stored(Id(1, 0), "k", "m0", SENT), Stored(Id(1, 1), "k", "m1", SENT), Stored(Id(2, 0), "k", "m1", SENT)]
    events = [Event(SENT + n, Kind.DELIVERED, S, "a", (stored[n].id,)) for n in (0, 2)]
    assert not judge(events, stored=stored, deduplicated=True, sizes={1: 1}).found
    assert kinds(judge(events, stored=stored, deduplicated=True)) == {Violation.STORED_TWICE, Violation.LOST}


def test_only_messages_of_committed_transactions_are_owed() -> None:
    events = [one for one in good() if Id(1, 5) not in one.ids]
    uncommitted = Event(SENT, Kind.UNCOMMITTED, text="t m5")
    assert not judge([uncommitted, *events]).found
    assert not judge([uncommitted, *good()]).found
    assert kinds(judge([uncommitted._replace(text="t m6"), *events])) == {Violation.LOST}


BATCH = (Id(1, 3, 0), Id(1, 3, 1))


def read_twice(*again: Id, next_index: int) -> tuple[list[Event], list[Stored]]:
    """A stock Reader's history: entry 3 is a batch of two, part of which it gets again before it gets entry 4."""
    ids = [Id(1, 2), *BATCH, Id(1, 4, next_index)]
    order = [*ids[:3], *again, ids[3]]
    stored = [Stored(id_, "", f"m{n}", SENT) for n, id_ in enumerate(ids)]
    return [Event(SENT + n, Kind.DELIVERED, S, "a", (id_,)) for n, id_ in enumerate(order)], stored


@pytest.mark.parametrize(
    ("again", "next_index", "stock", "near", "wrong"),
    [
        pytest.param(BATCH, -1, True, True, False, id="as at the owner"),
        pytest.param(BATCH, 0, True, True, True, id="the next message is in a batch"),
        pytest.param(BATCH[1:], -1, True, True, True, id="not from the batch's first message on"),
        pytest.param(BATCH, -1, False, True, True, id="no stock client"),
        pytest.param(BATCH, -1, True, False, True, id="no fault near"),
    ],
)
def test_a_stock_reader_may_get_its_last_batch_again(
    again: tuple[Id, ...], next_index: int, *, stock: bool, near: bool, wrong: bool
) -> None:
    events, held = read_twice(*again, next_index=next_index)
    fault = Done(SENT + 2, SENT + 3, "kill", "kill", writable=False)
    verdict = judge(events, Watched("t", "Reader", stock=stock), held, (fault,) if near else (FAR,))
    assert kinds(verdict) == ({Violation.READER_ORDER} if wrong else set())
    assert verdict.counts[S]["again"] == (0 if wrong else 1)


def test_a_receipt_without_a_message_is_found() -> None:
    receipt = Event(SENT, Kind.PUBLISHED, ids=(Id(1, 99),), text="t gone")
    assert kinds(judge([receipt, *good()])) == {Violation.NOT_STORED}
    kept = Event(SENT, Kind.PUBLISHED, ids=(Id(1, 3),), text="t m3")
    assert not judge([kept, *good()]).found


def test_a_message_that_an_owner_holds_back_is_not_lost() -> None:
    receipt = Event(SENT, Kind.PUBLISHED, text="t committed")
    assert kinds(judge([receipt, *good()])) == {Violation.NOT_STORED}
    assert not judge([receipt, *good()], held_back=True).found


def test_a_message_that_is_stored_twice_is_wrong_only_with_deduplication() -> None:
    twice = [*STORED, Stored(Id(1, COUNT), "k0", "m0", SENT + COUNT)]
    events = good(end=COUNT + 1)
    assert kinds(judge(events, stored=twice, deduplicated=True)) == {Violation.STORED_TWICE}
    assert not judge(events, stored=twice).found


def test_a_delivery_of_what_the_topic_does_not_have_is_found() -> None:
    assert kinds(judge([*good(), delivered(SENT + 40, 77)])) == {Violation.UNKNOWN}


@pytest.mark.parametrize("type_", ["Exclusive", "Failover"])
@given(st.randoms(use_true_random=False))
def test_first_deliveries_out_of_order_are_found(type_: str, rng: random.Random) -> None:
    numbers = list(range(COUNT))
    rng.shuffle(numbers)
    verdict = judge([delivered(SENT + 20 + at, n) for at, n in enumerate(numbers)], Watched("t", type_))
    assert (Violation.TOPIC_ORDER in kinds(verdict)) == (numbers != sorted(numbers))


@given(st.randoms(use_true_random=False))
def test_key_shared_is_in_order_by_key_alone(rng: random.Random) -> None:
    numbers = list(range(COUNT))
    rng.shuffle(numbers)
    sessions = {f"k{key}": f"session-{key}" for key in range(3)}
    events = [delivered(SENT + 20 + at, n, session=sessions[f"k{n % 3}"]) for at, n in enumerate(numbers)]
    by_key = [[n for n in numbers if n % 3 == key] for key in range(3)]
    wrong = any(mine != sorted(mine) for mine in by_key)
    assert (kinds(judge(events, Watched("t", "Key_Shared"))) == {Violation.KEY_ORDER}) == wrong
    assert not judge(events, Watched("t", "Shared")).found


def test_a_repetition_needs_a_fault_nearby() -> None:
    first = [one for one in good() if one.kind not in {Kind.ACKED, Kind.ACKING}]
    again = delivered(SENT + 60, 3)
    assert kinds(judge([*first, again])) == {Violation.UNEXPLAINED}
    near = Done(SENT + 40, SENT + 41, "kill", "kill", writable=False)
    verdict = judge([*first, again], faults=(near,))
    assert not verdict.found
    assert verdict.repeated == {(0, S): 1}


def test_a_repetition_after_the_session_changed_was_in_flight() -> None:
    first = [one for one in good() if one.kind not in {Kind.ACKED, Kind.ACKING}]
    ended = event(SENT + 50, Kind.ENDED)
    assert not judge([*first, ended, delivered(SENT + 60, 3, session="b")]).found


def test_what_was_given_back_comes_again() -> None:
    first = [one for one in good() if one.kind not in {Kind.ACKED, Kind.ACKING}]
    verdict = judge([*first, event(SENT + 50, Kind.NACKED, 3), delivered(SENT + 60, 3)])
    assert not verdict.found
    assert not verdict.repeated


def test_after_a_confirmed_ack_only_a_fault_at_the_writable_cluster_excuses() -> None:
    ended = event(SENT + 50, Kind.ENDED)
    events = [*good(), ended, delivered(SENT + 60, 3, session="b")]
    assert kinds(judge(events)) == {Violation.AFTER_ACK}
    client = Done(SENT + 2, SENT + 4, "SIGSTOP: client", "", writable=False)
    assert kinds(judge(events, faults=(client,))) == {Violation.AFTER_ACK}
    owner = Done(SENT + 2, SENT + 4, "kill -9: owner", "", writable=True)
    assert not judge(events, faults=(owner,)).found
    stored = Watched("t", "Exclusive", stored=True)
    assert kinds(judge(events, stored, faults=(owner,))) == {Violation.AFTER_ACK}


@pytest.mark.parametrize(
    ("node", "begin", "end", "held"),
    [
        ("clients-2", 1.0, 59.0, True),  # frozen from before the ack until just before the delivery
        ("clients-1", 1.0, 59.0, False),  # another client
        ("clients-2", 4.0, 59.0, False),  # frozen after the ack, so what it got then was sent after it
        ("clients-2", 1.0, 35.0, True),  # after so long an outage TCP waits as long
        ("clients-2", 1.0, 20.0, False),
    ],
)
def test_what_a_frozen_client_was_sent_before_an_ack_may_arrive_after_it(
    node: str, begin: float, end: float, *, held: bool
) -> None:
    ended = event(SENT + 50, Kind.ENDED)
    events = [*good(), ended, delivered(SENT + 60, 3, session="s 20r1o2.3")]
    fault = Done(SENT + begin, SENT + end, "SIGSTOP: client", f"1.0 s: SIGSTOP {node} for 9.0 s", writable=False)
    found = kinds(judge(events, Watched("t", "Shared", stored=True), faults=(fault,)))
    assert found == (set() if held else {Violation.AFTER_ACK})


def test_repetitions_after_one_fault_have_a_bound() -> None:
    first = [one for one in good() if one.kind not in {Kind.ACKED, Kind.ACKING}]
    near = Done(SENT + 13, SENT + 14, "kill", "kill", writable=True)
    allowed = [delivered(SENT + 15 + n / 10, n % COUNT) for n in range(20)]
    assert not judge([*first, *allowed], faults=(near,)).found
    one_more = delivered(SENT + 18, 0)
    assert kinds(judge([*first, *allowed, one_more], faults=(near,))) == {Violation.TOO_MANY}


@pytest.mark.parametrize(
    ("acked", "pause_s", "found"),
    [(False, 11.0, set()), (False, 31.0, {Violation.TOO_MANY}), (True, 11.0, {Violation.TOO_MANY})],
)
def test_what_no_stored_ack_confirms_may_come_again_as_a_whole_for_a_while(
    acked: bool, pause_s: float, found: set[Violation]
) -> None:
    """Of seed 58: a backlog came, its broker died before it stored the acks, and the next one answered after 11 s."""
    many = 2 * LIMITS.repeated
    stored = [Stored(Id(1, n), "k", f"m{n}", SENT) for n in range(many + 1)]
    first = [delivered(SENT + 1, n) for n in range(many)]
    acks = [event(SENT + 1.5, Kind.ACKED, n) for n in range(many if acked else 0)]
    between = delivered(SENT + pause_s, many), delivered(SENT + pause_s + 0.1, many)
    again = [delivered(SENT + pause_s + 1, n, session="b") for n in range(many)]
    fault = Done(SENT, SENT + 40.0, "kill -9", "ro-1", writable=True)
    verdict = judge([*first, *acks, *between, *again], Watched("t", "Shared", stored=True), stored, faults=(fault,))
    assert kinds(verdict) - {Violation.AFTER_ACK} == found


def test_what_an_owner_repeats_whose_cursor_went_back_does_not_count() -> None:
    first = [one for one in good() if one.kind not in {Kind.ACKED, Kind.ACKING}]
    near = Done(SENT + 13, SENT + 14, "kill", "kill", writable=True)
    again = [delivered(SENT + 15 + n / 100, 4 + n % 8) for n in range(2 * LIMITS.repeated)]
    assert kinds(judge([*first, *again], faults=(near,))) == {Violation.TOO_MANY}
    for number, at, found in ((3, 16.0, set()), (11, 16.0, {Violation.TOO_MANY}), (3, 40.0, {Violation.TOO_MANY})):
        back = Event(SENT + at, Kind.WENT_BACK, S, "", (Id(1, number),))
        assert kinds(judge([*first, *again, back], faults=(near,))) == found


@pytest.mark.parametrize("another", [False, True])
@pytest.mark.parametrize(("seconds", "found"), [(4.0, set()), (9.0, {Violation.TOO_MANY})])
def test_a_backlog_that_came_just_before_a_fault_may_come_again_as_a_whole(
    seconds: float, found: set, *, another: bool
) -> None:
    many = 2 * LIMITS.repeated
    stored = [Stored(Id(1, n), "k", f"m{n}", SENT) for n in range(many)]
    first = [delivered(SENT + seconds * n / many, n) for n in range(many)]
    fault = Done(SENT + 10.0, SENT + 150.0, "kill -9", "broker-0", writable=True)
    again = [
        event(SENT + 150.0, Kind.OPENED, session="b"),
        *[delivered(SENT + 151.0 + n / 100, n, session="b") for n in range(many)],
    ]
    amid = Done(SENT + 151.025, SENT + 152.0, "unload", "t", writable=True)
    faults = (fault, amid) if another else (fault,)
    assert kinds(judge([*first, *again], Watched("t", "Shared"), stored, faults=faults)) == found


def late(seconds: float) -> list[Stored]:
    return [*STORED, Stored(Id(1, COUNT), "k0", f"m{COUNT}", SENT + seconds)]


def test_an_exclusive_consumer_that_was_replaced_gets_nothing_that_was_sent_later_than_the_bound() -> None:
    replaced = event(SENT + 20, Kind.OPENED, session="b")
    within = judge([*good(), replaced, delivered(SENT + 60, COUNT)], stored=late(49))
    assert not within.found
    assert within.overlap == pytest.approx(29)
    beyond = judge([*good(), replaced, delivered(SENT + 60, COUNT)], stored=late(51))
    assert kinds(beyond) == {Violation.TWO_CONCURRENT}
    gone = event(SENT + 21, Kind.ENDED, session="b")
    assert not judge([*good(), replaced, gone, delivered(SENT + 60, COUNT)], stored=late(51)).found


def test_a_failover_consumer_is_held_to_what_the_broker_says_of_the_active_one() -> None:
    first = event(SENT, Kind.ACTIVE, number=1)
    other = event(SENT + 20, Kind.ACTIVE, session="b", number=1)
    events = [*good(), first, other, delivered(SENT + 60, COUNT)]
    assert kinds(judge(events, Watched("t", "Failover"), late(51))) == {Violation.TWO_CONCURRENT}
    back = event(SENT + 45, Kind.ACTIVE, number=1)
    assert not judge([*events, back], Watched("t", "Failover"), late(51)).found


@pytest.mark.parametrize("near", [True, False])
def test_what_a_broken_link_has_delayed_may_come_to_the_former_active_consumer(near: bool) -> None:
    watched = Watched("t", "Failover", stored=True)
    first = event(SENT, Kind.ACTIVE, number=1, session="b")
    other = event(SENT + 20, Kind.ACTIVE, session="a", number=1)
    cut = Done(SENT + 19, SENT + 24, "silent packet loss", "", writable=False)
    events = [first, other, *good(), delivered(SENT + 25, 3, session="b")]
    found = kinds(judge(events, watched, faults=(cut,) if near else (FAR,)))
    assert (Violation.AFTER_ACK in found) != near


RESETS = Watched("t", "Shared", resets=True)


def reset(at: float, number: int, *, unknown: int = 0) -> list[Event]:
    return [event(at, Kind.SEEKING, number), event(at + 1, Kind.SOUGHT, number, number=unknown)]


def test_after_a_reset_everything_from_its_position_on_comes_again() -> None:
    again = [delivered(SENT + 60 + n, n) for n in range(4, COUNT)]
    assert not judge([*good(), *reset(SENT + 50, 4), *again], RESETS).found
    verdict = judge([*good(), *reset(SENT + 50, 4), *again[:-2]], RESETS)
    assert [(one.violation, one.id.entry) for one in verdict.found] == [
        (Violation.RESET_UNDONE, 10),
        (Violation.RESET_UNDONE, 11),
    ]


def test_a_reset_that_may_not_have_been_done_owes_nothing() -> None:
    assert not judge([*good(), *reset(SENT + 50, 4, unknown=1)], RESETS).found


@pytest.mark.parametrize(
    ("after", "first", "explained"), [(LATE_RESET_S, 4, True), (LATE_RESET_S, 3, False), (LATE_RESET_S + 20, 4, False)]
)
def test_such_a_reset_may_be_done_soon_afterwards(after: float, first: int, explained: bool) -> None:
    watched = Watched("t", "Shared", resets=True, stored=True)
    again = [delivered(SENT + 51 + after, first)]
    found = kinds(judge([*good(), *reset(SENT + 50, 4, unknown=1), *again], watched))
    assert found == (set() if explained else {Violation.AFTER_ACK})


def test_what_a_reset_went_over_need_not_come() -> None:
    events = [*good(end=4), *reset(SENT + 50, 8), *[delivered(SENT + 60 + n, n) for n in range(8, COUNT)]]
    assert not judge(events, RESETS).found
    back = [*events, *reset(SENT + 90, 6)]
    verdict = judge(back, RESETS)
    assert [(one.violation, one.id.entry) for one in verdict.found] == [
        (Violation.LOST, 6),
        (Violation.LOST, 7),
        *((Violation.RESET_UNDONE, n) for n in range(8, COUNT)),
    ]


@pytest.mark.parametrize(("last", "explained"), [(8, True), (9, False)])
def test_what_came_while_a_reset_was_under_way_may_come_again(last: int, explained: bool) -> None:
    watched = Watched("t", "Shared", resets=True, stored=True)
    during = [event(SENT + 7.5, Kind.SEEKING, 4), event(SENT + 9, Kind.SOUGHT, 4)]
    again = [delivered(SENT + 60 + n, n) for n in range(4, last + 1)]
    found = kinds(judge([*good(), *during, *again], watched))
    assert found == (set() if explained else {Violation.AFTER_ACK})


def test_an_ack_that_was_under_way_with_a_reset_counts() -> None:
    events = [*good(), *reset(SENT + 12, 10)]
    # 10 and 11 were acked within the 5 s before.
    assert not judge(events, RESETS).found


def test_what_a_topic_held_before_its_deletion_is_owed_to_nobody() -> None:
    stored = [Stored(Id(2, n), "", f"n{n}", SENT + 40 + n) for n in range(3)]
    former = Event(SENT, Kind.PUBLISHED, ids=(Id(1, 3),), text="t m3")
    new = [Event(SENT + 41 + n, Kind.DELIVERED, S, "a", (Id(2, n),)) for n in range(3)]
    deleted = {"deletions": [(SENT + 20, SENT + 21)]}
    watched = Watched("t", "Shared")
    assert not judge([former, *good(), *new], watched, stored, **deleted).found
    assert kinds(judge([former, *good(), *new[1:]], watched, stored, **deleted)) == {Violation.LOST}
    receipt = Event(SENT + 45, Kind.PUBLISHED, ids=(Id(2, 9),), text="t n9")
    assert kinds(judge([receipt, *good(), *new], watched, stored, **deleted)) == {Violation.NOT_STORED}


def test_pauses_belong_to_the_last_fault_before_them() -> None:
    fault = Done(SENT + 4.5, SENT + 6, "kill", "kill", writable=True)
    held_up = [one._replace(at=max(one.at, SENT + 8)) if one.at > SENT + 4.5 else one for one in good()]
    verdict = judge(held_up, faults=(fault,))
    assert verdict.pauses[0] == pytest.approx(3.0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 60)), max_size=12), st.floats(0, 1100), st.floats(0, 50))
def test_near_is_what_a_look_at_each_fault_says(spans: list[tuple[float, float]], begin: float, long: float) -> None:
    done = [Done(at, at + seconds, "x", "x", writable=False) for at, seconds in spans]
    expected = any(one.begin <= begin + long and one.end + NEAR_S >= begin for one in done)
    assert Faults(done).near(begin, begin + long) == expected
