"""Check of clocks: the difference to each broker, from the header Date of HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECK: Final = "clock"

WARN_S: Final = 1.0
"""Certain difference, in seconds, from which on delayed messages are delivered noticeably early or late."""

FAIL_S: Final = 60.0
"""Certain difference, in seconds, that no clock with NTP has."""

_DATE_RESOLUTION_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One answer with a date.

    Attributes:
        url: the broker's web service.
        date: header Date; empty without one.
        sent: time of the request by this machine's clock, in seconds since the epoch.
        received: time of the answer.
    """

    url: str
    date: str
    sent: float
    received: float


def clock_difference(sample: ClockSample) -> tuple[float, float] | None:
    """Return how far the broker's clock is ahead of this machine's, and the bound of the error, both in seconds.

    A date has whole seconds. The broker wrote it between request and answer, so the bound is half the round trip and 0.5 s.

    Returns:
        None if there is no valid date.
    """
    try:
        date = parsedate_to_datetime(sample.date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    middle = (sample.sent + sample.received) / 2
    bound = (max(0.0, sample.received - sample.sent) + _DATE_RESOLUTION_S) / 2
    return date + _DATE_RESOLUTION_S / 2 - middle, bound


def clock_findings(samples: Sequence[ClockSample]) -> list[Finding]:
    """Return a finding for each broker that answered."""
    return [_finding(one) for one in samples]


def _finding(sample: ClockSample) -> Finding:
    found = clock_difference(sample)
    if found is None:
        return warn(
            CHECK, "not measured: the answer has no valid header Date", "compare the clocks yourself", sample.url
        )
    difference, bound = found
    certain = abs(difference) - bound
    if certain <= WARN_S:
        return ok(CHECK, f"equal within {abs(difference) + bound:.1f} s", sample.url)
    side = "ahead of" if difference > 0 else "behind"
    observed = f"the broker is {abs(difference):.1f} s {side} this machine (error up to {bound:.1f} s)"
    result = fail if certain > FAIL_S else warn
    return result(CHECK, observed, "synchronize the clocks (NTP): delayed messages depend on them", sample.url)
