"""Scenarios: functions of a session that return an observation; a docstring's first line is the row's title."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtests.compat.session import Session


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row.

    Attributes:
        name: name of the function.
        theme: section of the table.
        title: first cell of the row.
        run: the function; it returns a JSON value without ids, times and names of brokers.
        own_pool: whether it gets its own pool, because it kills brokers.
    """

    name: str
    theme: str
    title: str
    run: Callable[[Session], Any]
    own_pool: bool = False


class Theme:
    """The scenarios of one section; an instance decorates functions.

    Args:
        title: title of the section.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.scenarios: list[Scenario] = []

    def __call__(self, function: Callable[[Session], Any]) -> Callable[[Session], Any]:
        """Add a scenario."""
        return self._add(function, own_pool=False)

    def own_pool(self, function: Callable[[Session], Any]) -> Callable[[Session], Any]:
        """Add a scenario that gets its own pool."""
        return self._add(function, own_pool=True)

    def _add(self, function: Callable[[Session], Any], *, own_pool: bool) -> Callable[[Session], Any]:
        assert function.__doc__, function.__name__
        title = function.__doc__.strip().splitlines()[0].rstrip(".")
        self.scenarios.append(Scenario(function.__name__, self.title, title, function, own_pool))
        return function
