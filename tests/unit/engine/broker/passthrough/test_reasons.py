from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.broker.passthrough.reasons import ABSENT_S, MIN_ABSENT_CHECKS, RECURRENCE_S, Reason, ReasonTracker
from readonly_engine.metadata.topic_name import parse_topic_name

TOPIC = parse_topic_name("a")
OTHER = parse_topic_name("b")
DIRECT = Reason.DIRECT_CONSUMERS


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
