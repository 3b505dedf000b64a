from readonly_engine.broker.consumer import rates as session_rates
from readonly_engine.broker.consumer.rates import Rate, Rates


def test_who_asks_again_at_once_is_told_the_same():
    rates = Rates()
    rates.of("s", 0, 0, 0.0)
    assert rates.of("s", 10, 100, 10.0) == rates.of("s", 11, 110, 10.5) == Rate(1.0, 10.0)
    assert rates.of("s", 12, 120, 12.0) == Rate(1.0, 10.0)


def test_few_samples_are_kept_and_those_in_use_stay(monkeypatch):
    monkeypatch.setattr(session_rates, "MAX_KEPT", 3)
    rates = Rates()
    for number in range(10):
        rates.of("used", number, 0, 10.0 * number)
        rates.of(f"gone-{number}", 0, 0, 10.0 * number)
    assert len(rates) == 3
    assert rates.of("used", 19, 0, 100.0) == Rate(1.0, 0.0)
