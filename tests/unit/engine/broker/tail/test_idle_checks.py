"""When a pushed topic is compared with its bookies."""

from readonly_engine.broker.tail.idle_checks import AFTER_S, ENDLESS_S, IdleChecks


def test_a_topic_that_rests_is_compared_three_times():
    checks = IdleChecks(100.0)
    for after in AFTER_S:
        assert checks.next(endless=False) == 100.0 + after
        checks.checked(100.0 + after)
    assert checks.next(endless=False) is None


def test_a_pushed_entry_puts_the_comparisons_off():
    checks = IdleChecks(100.0)
    checks.checked(101.0)
    checks.pushed(103.0)
    assert checks.next(endless=False) == 103.0 + AFTER_S[0]


def test_on_a_cluster_with_transactions_the_comparisons_go_on():
    checks = IdleChecks(0.0)
    for after in AFTER_S:
        checks.checked(after)
    for number in range(1, 4):
        assert checks.next(endless=True) == AFTER_S[-1] + number * ENDLESS_S
        checks.checked(AFTER_S[-1] + number * ENDLESS_S)
