"""Finding of a check: its result, the observation, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Result(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARN = "warn"
    """A pool works, with a disadvantage; or the check could not be made."""
    FAIL = "fail"
    """A pool does not work, or does not serve some topics."""


_ORDER = (Result.OK, Result.WARN, Result.FAIL)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: name of the check.
        result: its result.
        observed: the observation.
        remedy: the action for the user; empty for OK.
        subject: the server, topic or path that was checked; empty for the whole cluster or machine.
    """

    check: str
    result: Result
    observed: str
    remedy: str = ""
    subject: str = ""


def ok(check: str, observed: str, subject: str = "") -> Finding:
    """Return a finding without a problem."""
    return Finding(check, Result.OK, observed, "", subject)


def warn(check: str, observed: str, remedy: str, subject: str = "") -> Finding:
    """Return a finding with a disadvantage."""
    return Finding(check, Result.WARN, observed, remedy, subject)


def fail(check: str, observed: str, remedy: str, subject: str = "") -> Finding:
    """Return a finding with an error."""
    return Finding(check, Result.FAIL, observed, remedy, subject)


def worst(findings: Iterable[Finding]) -> Result:
    """Return the worst result; OK without findings."""
    return max((one.result for one in findings), key=_ORDER.index, default=Result.OK)
