"""The checker of `make -C lab churn`: good histories pass, and each kind of violation is found in a bad one."""

import pytest

from longtests.churn.check import Fault, Stored, Watched, check
from longtests.churn.history import Event, Id, Kind, decode, encode

S = "t/s"
IDS = [Id(1, entry) for entry in range(5)]
KEYS = ["a", "b", "a", "b", "a"]
STORED = {"t": [Stored(id_, key, f"m{id_.entry}") for id_, key in zip(IDS, KEYS, strict=True)]}


def history(*steps: tuple) -> list[Event]:
    """Return events of (kind, session, entries, number), one second apart."""
    events = []
    for at, (kind, session, entries, *number) in enumerate(steps):
        ids = tuple(IDS[entry] if entry < len(IDS) else Id(1, entry) for entry in entries)
        events.append(Event(float(at), kind, S, session, ids, *number))
    return events


def delivered(session, *entries, epoch=0):
    return (Kind.DELIVERED, session, entries, epoch)


def acking(session, *entries):
    return (Kind.ACKING, session, entries)


def acked(session, *entries):
    return (Kind.ACKED, session, entries)


def handled(session, *entries):
    return [delivered(session, *entries), acking(session, *entries), acked(session, *entries)]


def faults(kind: str, *steps, receipts=True):
    verdict = check(history(*steps), {S: Watched("t", kind, receipts)}, STORED)
    return [(violation.fault, violation.id.entry) for violation in verdict.violations]


TYPES = ["Exclusive", "Failover", "Shared", "Key_Shared"]


@pytest.mark.parametrize("kind", TYPES)
def test_everything_delivered_and_acked_is_right(kind):
    assert faults(kind, *handled("one", 0, 1), (Kind.ENDED, "one", ()), *handled("two", 2, 3, 4)) == []


@pytest.mark.parametrize("kind", TYPES)
def test_what_was_not_acked_may_come_again_in_another_session(kind):
    steps = [delivered("one", 0, 1, 2), (Kind.ENDED, "one", ()), *handled("two", 0, 1, 2, 3, 4)]
    assert faults(kind, *steps) == []


@pytest.mark.parametrize("kind", TYPES)
def test_a_delivery_after_a_confirmed_ack_is_found(kind):
    steps = [*handled("one", 0, 1, 2), (Kind.ENDED, "one", ()), *handled("two", 2, 3, 4)]
    assert faults(kind, *steps) == [(Fault.AFTER_ACK, 2)]


def test_a_cumulative_ack_covers_all_before():
    steps = [delivered("one", 0, 1, 2), (Kind.ACKED, "one", (2,), 1), (Kind.ENDED, "one", ()), *handled("two", 1, 3, 4)]
    assert faults("Failover", *steps) == [(Fault.AFTER_ACK, 1)]


@pytest.mark.parametrize(
    ("kind", "late", "found"), [("Failover", 0.9, []), ("Failover", 1.1, [2]), ("Exclusive", 0.9, [2])]
)
def test_a_failover_consumer_may_get_what_is_acked_while_it_takes_over(kind, late, found):
    events = history(*handled("one", 0, 1, 2), *handled("two", 3, 4))
    ack = next(event for event in events if event.kind is Kind.ACKED)
    events.append(Event(ack.at + late, Kind.DELIVERED, S, "two", (IDS[2],)))
    events = [
        event._replace(at=event.at + 2) if event.at > ack.at and event is not events[-1] else event for event in events
    ]
    verdict = check(events, {S: Watched("t", kind)}, STORED)
    assert [violation.id.entry for violation in verdict.violations if violation.fault is Fault.AFTER_ACK] == found
    assert verdict.handed_over == ({} if found else {S: [IDS[2]]})


def test_an_ack_in_flight_when_its_session_ended_is_counted_and_no_violation():
    steps = [delivered("one", 0, 1), acking("one", 0, 1), (Kind.ENDED, "one", ()), *handled("two", 0, 1, 2, 3, 4)]
    verdict = check(history(*steps), {S: Watched("t", "Shared")}, STORED)
    assert verdict.violations == []
    assert verdict.in_flight == {S: IDS[:2]}
    assert verdict.counts[S]["again"] == 2


def test_an_ack_in_flight_whose_message_never_came_again_has_counted():
    steps = [delivered("one", 0), acking("one", 0), (Kind.ENDED, "one", ()), *handled("two", 1, 2, 3, 4)]
    assert faults("Shared", *steps) == []


def test_a_receipt_that_comes_after_the_end_of_its_session_counts():
    steps = [
        delivered("one", 0),
        acking("one", 0),
        (Kind.ENDED, "one", ()),
        acked("one", 0),
        *handled("two", 0, 1, 2, 3, 4),
    ]
    assert faults("Shared", *steps) == [(Fault.AFTER_ACK, 0)]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_first_deliveries_out_of_the_topics_order_are_found(kind):
    steps = [*handled("one", 0, 2), (Kind.ENDED, "one", ()), *handled("two", 1, 3, 4)]
    assert faults(kind, *steps) == [(Fault.TOPIC_ORDER, 1)]


def test_going_back_in_a_session_is_right_only_in_a_new_epoch():
    steps = [
        delivered("one", 0, 1),
        (Kind.NACKED, "one", (0, 1)),
        delivered("one", 0, 1, epoch=1),
        *handled("one", 2, 3, 4),
    ]
    rest = [acking("one", 0, 1), acked("one", 0, 1)]
    assert faults("Exclusive", *steps, *rest) == []
    steps[2] = delivered("one", 0, 1)
    assert faults("Exclusive", *steps, *rest) == [(Fault.SESSION_ORDER, 0)]


def test_shared_has_no_order():
    assert faults("Shared", *handled("one", 3, 0, 4), *handled("two", 2, 1)) == []


def test_keys_may_overtake_each_other_and_a_key_may_not_overtake_itself():
    assert faults("Key_Shared", *handled("one", 1, 0, 3), *handled("two", 2, 4)) == []
    assert faults("Key_Shared", *handled("one", 0, 1, 4), *handled("one", 2, 3)) == [(Fault.KEY_ORDER, 2)]


def test_a_key_with_two_consumers_is_found():
    steps = [
        delivered("one", 0),
        delivered("two", 2),
        acking("one", 0),
        acked("one", 0),
        acking("two", 2),
        acked("two", 2),
    ]
    assert faults("Key_Shared", *steps, *handled("one", 1, 3, 4)) == [(Fault.KEY_SHARED_OUT, 2)]
    steps.insert(1, (Kind.NACKED, "one", (0,)))
    assert faults("Key_Shared", *steps, *handled("one", 1, 3, 4)) == []


@pytest.mark.parametrize(("killed", "found"), [("pulsar://a", []), ("pulsar://b", [(Fault.KEY_SHARED_OUT, 0)])])
def test_a_consumer_whose_broker_was_killed_has_nothing_although_it_has_not_noticed(killed, found):
    opened = Event(-1.0, Kind.OPENED, S, "one", text="pulsar://a")
    death = Event(0.5, Kind.KILLED, text=killed)
    steps = [
        delivered("one", 0),
        *handled("two", 0, 1, 2, 3, 4),
        delivered("one", 2),
        acking("one", 0),
        (Kind.ENDED, "one", ()),
    ]
    verdict = check([opened, death, *history(*steps)], {S: Watched("t", "Key_Shared")}, STORED)
    told = [(one.fault, one.id.entry) for one in verdict.violations if one.fault is Fault.KEY_SHARED_OUT]
    assert told[:1] == found


def test_what_never_came_and_what_was_never_acked_is_found():
    assert faults("Shared", *handled("one", 0, 1, 2), delivered("one", 3)) == [
        (Fault.NOT_ACKED, 3),
        (Fault.NOT_DELIVERED, 4),
    ]


def test_a_message_that_nobody_published_is_found():
    assert faults("Shared", *handled("one", 0, 1, 2, 3, 4), delivered("one", 9)) == [(Fault.UNKNOWN, 9)]


def test_after_a_seek_all_begins_anew_from_there():
    seek = [(Kind.ENDED, "one", ()), (Kind.SEEKING, "", ()), (Kind.SOUGHT, "", (2,))]
    assert faults("Exclusive", *handled("one", 0, 1, 2, 3), *seek, *handled("two", 2, 3, 4)) == []
    assert faults("Exclusive", *seek, *handled("two", 3, 4)) == [(Fault.NOT_DELIVERED, 2)]
    assert faults("Exclusive", *seek, *handled("two", 1, 2, 3, 4)) == [(Fault.BEFORE_SEEK, 1)]
    again = [*seek, *handled("two", 2), (Kind.ENDED, "two", ()), *handled("three", 2, 3, 4)]
    assert faults("Exclusive", *again) == [(Fault.AFTER_ACK, 2)]


def test_a_client_without_receipts_is_held_to_delivery_and_first_order_only():
    steps = [delivered("one", 0, 1), acking("one", 0, 1), delivered("one", 0, 1, 2, 3, 4), acking("one", 2, 3, 4)]
    assert faults("Exclusive", *steps, receipts=False) == []
    assert faults("Exclusive", delivered("one", 1, 0, 2, 3), acking("one", 0, 1, 2, 3), receipts=False) == [
        (Fault.TOPIC_ORDER, 0),
        (Fault.NOT_DELIVERED, 4),
    ]


def test_a_receipt_for_a_message_that_is_not_there_is_found():
    events = [Event(0.0, Kind.PUBLISHED, text="m0"), Event(1.0, Kind.PUBLISHED, text="m9")]
    assert [violation.text for violation in check(events, {}, STORED).violations] == ["m9"]


def test_events_are_judged_by_time():
    events = history(*handled("one", 0, 1, 2, 3, 4))
    assert check(reversed(events), {S: Watched("t", "Exclusive")}, STORED).violations == []


def test_an_event_is_the_same_when_read_from_its_line():
    event = Event(1.5, Kind.DELIVERED, S, "one", (Id(1, 2), Id(1, 3, 4)), 7, "x")
    assert decode(encode(event)) == event
    assert decode(encode(Event(0.25, Kind.NOTE))) == Event(0.25, Kind.NOTE)
