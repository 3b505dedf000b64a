from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.passthrough.reasons import (
    ABSENT_S,
    MIN_ABSENT_CHECKS,
    RECURRENCE_S,
    WHOLE_TOPIC,
    Reason,
    ReasonTracker,
)
from readonly_engine.metadata.topic_name import parse_topic_name

TOPIC = parse_topic_name("a")
OTHER = parse_topic_name("b")
DIRECT = Reason.DIRECT_CONSUMERS


def test_a_reason_is_in_force_from_when_it_is_seen_until_it_was_not_seen_for_a_while():
    reasons = ReasonTracker()
    assert reasons.oldest(TOPIC, "s") is None
    assert reasons.found(TOPIC, "s", DIRECT, "one consumer", 0)
    assert not reasons.found(TOPIC, "s", DIRECT, "two consumers", 1)
    case = reasons.oldest(TOPIC, "s")
    assert (case.reason, case.text, case.since) == (DIRECT, "two consumers", 0)
    assert reasons.oldest(TOPIC, "other") is None
    assert not reasons.absent(TOPIC, "s", DIRECT, 2)
    assert not reasons.absent(TOPIC, "s", DIRECT, 2 + ABSENT_S[0] - 0.1)
    assert reasons.oldest(TOPIC, "s") is case
    assert reasons.absent(TOPIC, "s", DIRECT, 2 + ABSENT_S[0])
    assert reasons.oldest(TOPIC, "s") is None
    assert not reasons.absent(TOPIC, "s", DIRECT, 3 + ABSENT_S[0])


def test_one_look_is_not_enough_however_late_it_is():
    reasons = ReasonTracker()
    reasons.found(TOPIC, "s", DIRECT, "", 0)
    assert not reasons.absent(TOPIC, "s", DIRECT, 10_000)


def test_what_is_seen_in_between_starts_the_wait_again():
    reasons = ReasonTracker()
    reasons.found(TOPIC, "s", DIRECT, "", 0)
    reasons.absent(TOPIC, "s", DIRECT, 1)
    reasons.found(TOPIC, "s", DIRECT, "", 9)
    assert not reasons.absent(TOPIC, "s", DIRECT, 12)
    assert not reasons.absent(TOPIC, "s", DIRECT, 13)


def test_a_reason_that_comes_and_goes_is_waited_for_longer_each_time():
    reasons = ReasonTracker()
    now, waits = 0.0, []
    for _ in range(10):
        reasons.found(TOPIC, "s", DIRECT, "", now)
        began = now
        while not reasons.absent(TOPIC, "s", DIRECT, now):
            now += 1
        waits.append(now - began)
        now += 1
    assert waits[:3] == [ABSENT_S[0], 2 * ABSENT_S[0], 4 * ABSENT_S[0]]
    assert waits[-1] == ABSENT_S[1]
    now += RECURRENCE_S
    reasons.found(TOPIC, "s", DIRECT, "", now)
    reasons.absent(TOPIC, "s", DIRECT, now)
    assert reasons.absent(TOPIC, "s", DIRECT, now + ABSENT_S[0])


def test_a_reason_of_a_topic_counts_for_all_its_subscriptions():
    reasons = ReasonTracker()
    reasons.found(TOPIC, WHOLE_TOPIC, Reason.ENTRY_FILTER, "f", 5)
    reasons.found(TOPIC, "s", DIRECT, "", 3)
    assert reasons.oldest(TOPIC, "any").reason == Reason.ENTRY_FILTER
    assert reasons.oldest(TOPIC, "s").reason == DIRECT, "the older one"
    assert reasons.oldest(OTHER, "s") is None


def test_what_nobody_looks_for_is_forgotten():
    reasons = ReasonTracker()
    reasons.found(TOPIC, "s", DIRECT, "", 0)
    reasons.found(OTHER, "s", DIRECT, "", 0)
    reasons.forget([TOPIC], RECURRENCE_S + 1)
    assert [topic for topic, _, _ in reasons.in_force()] == [TOPIC]


@given(st.lists(st.tuples(st.booleans(), st.floats(0.1, 30)), max_size=60))
def test_a_reason_is_never_out_of_force_soon_after_it_was_seen(looks):
    reasons, now, last_seen, vain = ReasonTracker(), 0.0, None, 0
    for seen, pause in looks:
        now += pause
        if seen:
            began = reasons.found(TOPIC, "s", DIRECT, "", now)
            assert began == (last_seen is None)
            last_seen, vain = now, 0
        else:
            ended = reasons.absent(TOPIC, "s", DIRECT, now)
            vain += 1
            if ended:
                assert vain >= MIN_ABSENT_CHECKS
                assert now - last_seen > ABSENT_S[0]
                last_seen = None
        assert (reasons.oldest(TOPIC, "s") is not None) == (last_seen is not None)
