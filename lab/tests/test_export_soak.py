"""The verdict of `make -C lab export-soak`."""

from dataclasses import replace

import pytest

from longtests.export_soak import LEAST, Sample, grown, main, pause, report

FLAT = Sample(memory=800.0, files=300, checkpoint=1.0, log=0.0, table_log=0.5, lag=2.0)


def run(**rates: float) -> list[Sample]:
    """Thirty samples, of which some values grow by a rate each."""
    return [
        replace(FLAT, **{name: getattr(FLAT, name) + rate * number for name, rate in rates.items()})
        for number in range(30)
    ]


def test_what_is_flat_passes() -> None:
    assert grown(run()) == []
    assert grown(run(table_log=1.0)) == [], "no table of files can help that"


@pytest.mark.parametrize(
    ("name", "rate"), [("memory", 10), ("files", 6), ("checkpoint", 0.2), ("log", 0.1), ("lag", 0.2)]
)
def test_what_grows_is_named(name: str, rate: float) -> None:
    assert grown(run(**{name: rate})) == [name]


def test_the_start_does_not_count() -> None:
    assert grown([replace(FLAT, memory=100.0)] * 10 + [FLAT] * 20) == []


@pytest.mark.parametrize("late", [0.0, 0.04, 1.0])
def test_samples_of_a_lag_that_falls_at_each_trigger(late: float) -> None:
    """A fixed time between samples, each a little late, would show other parts in the last third than in the middle one."""
    interval, now, samples = 5.0, 0.0, []
    for taken in range(300):
        now += pause(taken, interval) + late
        samples.append(replace(FLAT, lag=1 + now % interval))
    assert grown(samples) == []
    assert {int(one.lag) for one in samples} == {1, 2, 3, 4, 5}


def test_the_report() -> None:
    lines = report([FLAT] * LEAST, 1200, 4.0).splitlines()
    assert lines[2] == "| memory, MB | 800.0 | 800.0 | 800.0 | 800.0 |"
    assert lines[3].startswith("| files | 300.0 ")
    assert lines[-1] == "1,200 messages in 4 minutes, each of them once in the table."


def test_too_short_a_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--minutes", "4.9"])
    assert "--minutes: at least 5" in capsys.readouterr().err
