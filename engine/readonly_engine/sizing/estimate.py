"""Estimates: a low, an expected and a high value of one quantity."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Case(IntEnum):
    """One set of constants; the value is its index in an Estimate."""

    LOW = 0
    EXPECTED = 1
    HIGH = 2


class Estimate(NamedTuple):
    """A quantity with its uncertainty.

    Attributes:
        low: the value with the lowest measured costs.
        expected: the value with the medians.
        high: the value with the highest measured costs.
    """

    low: float
    expected: float
    high: float


def estimated(value: Callable[[Case], float]) -> Estimate:
    """Return the estimate of a value for each case. Its bounds are the least and the greatest of the three."""
    found = [value(case) for case in Case]
    return Estimate(min(found), found[Case.EXPECTED], max(found))
