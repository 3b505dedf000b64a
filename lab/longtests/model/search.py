"""Breadth-first search of every reachable state of a model: the first path found to a violation is a shortest one."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

S = TypeVar("S", bound="Hashable")

MAX_STATES = 4_000_000


class Violation(Exception):  # noqa: N818 - a result of the search, not an error
    """A step that must never happen."""


class Model(Protocol[S]):
    """A system whose states the search visits.

    Attributes:
        name: for reports.
    """

    name: str

    def initial(self) -> S:
        """Return the first state."""

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """Yield the possible next steps: each in words, with the state after it.

        Raises:
            Violation: from the iterator, with the step and a description: `Violation(step, description)`.
        """

    def canonical(self, state: S) -> S:
        """Return the same state with interchangeable parts in one order."""

    def wrong(self, state: S) -> str:
        """Return the violation of a state by itself; empty for none."""

    def done(self, state: S) -> bool:
        """Return whether the state is a good end."""


@dataclass(slots=True)
class Outcome:
    """Result of a search.

    Attributes:
        states: number of states reached; interchangeable ones count once.
        transitions: number of steps from them.
        depth: number of steps to the farthest state.
        seconds: duration.
        violation: its description; empty for none.
        trace: the steps to the violation, from the first state.
        complete: whether every state was visited.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    violation: str = ""
    trace: list[str] = field(default_factory=list)
    complete: bool = True


class _Found(NamedTuple):
    """A state with a violation, or the state before a step that is one, with the step."""

    number: int
    step: str
    what: str


class Search(Generic[S]):
    """One search.

    Args:
        model: the model to search.
        most: limit of states, at which the search ends incomplete.
    """

    def __init__(self, model: Model[S], most: int = MAX_STATES) -> None:
        self._model = model
        self._most = most
        self._states: list[S] = []
        self._index: dict[S, int] = {}
        self._parents = array("l")
        self._heads = array("l")
        self._tails = array("l")

    def run(self, *, ends_well: bool = True) -> Outcome:
        """Run the search.

        Args:
            ends_well: whether a good end must be reachable from every state.
        """
        begun = time.monotonic()
        outcome = Outcome()
        found = self._explore(outcome)
        if found is None and ends_well and outcome.complete:
            found = self._first_without_good_end()
        outcome.states = len(self._states)
        outcome.transitions = len(self._heads)
        if found is not None:
            outcome.violation = found.what
            outcome.trace = self._trace(found)
        outcome.seconds = time.monotonic() - begun
        return outcome

    def _explore(self, outcome: Outcome) -> _Found | None:
        model, states, index = self._model, self._states, self._index
        canonical, wrong, steps = model.canonical, model.wrong, model.steps
        heads, tails, parents = self._heads, self._tails, self._parents
        first = canonical(model.initial())
        states.append(first)
        index[first] = 0
        parents.append(-1)
        at, level_ends = 0, 1
        while at < len(states):
            if at == level_ends:
                outcome.depth += 1
                level_ends = len(states)
            state = states[at]
            try:
                for _, after in steps(state):
                    canon = canonical(after)
                    known = index.get(canon)
                    if known is None:
                        known = index[canon] = len(states)
                        states.append(canon)
                        parents.append(at)
                        if what := wrong(canon):
                            return _Found(known, "", what)
                    heads.append(at)
                    tails.append(known)
            except Violation as violation:
                step, what = violation.args
                return _Found(at, step, what)
            if len(states) > self._most:
                outcome.complete = False
                return None
            at += 1
        return None

    def _first_without_good_end(self) -> _Found | None:
        """Return the first state from which no steps lead to a good end."""
        count = len(self._states)
        before = self._backwards(count)
        good = bytearray(count)
        reached = [number for number, state in enumerate(self._states) if self._model.done(state)]
        for number in reached:
            good[number] = 1
        while reached:
            number = reached.pop()
            for earlier in before(number):
                if not good[earlier]:
                    good[earlier] = 1
                    reached.append(earlier)
        bad = good.find(0)
        return None if bad < 0 else _Found(bad, "", "no further steps lead to a state in which every entry is acked")

    def _backwards(self, count: int) -> Any:
        """Return a function that returns the predecessors of a state."""
        starts = array("l", bytes(array("l").itemsize * (count + 1)))
        for tail in self._tails:
            starts[tail + 1] += 1
        for number in range(count):
            starts[number + 1] += starts[number]
        sources, filled = array("l", bytes(array("l").itemsize * len(self._tails))), array("l", starts)
        for head, tail in zip(self._heads, self._tails, strict=True):
            sources[filled[tail]] = head
            filled[tail] += 1
        return lambda number: sources[starts[number] : starts[number + 1]]

    def _trace(self, found: _Found) -> list[str]:
        """Return the steps to a violation. Interchangeable parts are tracked, so that one name means one part."""
        path, number = [], found.number
        while number >= 0:
            path.append(number)
            number = self._parents[number]
        state, trace = self._model.initial(), []
        for number in reversed(path[:-1]):
            step, state = next(self._towards(state, self._states[number]))
            trace.append(step)
        if found.step:
            try:
                for _ in self._model.steps(state):
                    pass
            except Violation as violation:
                trace.append(violation.args[0])
        return trace

    def _towards(self, state: S, wanted: S) -> Iterator[tuple[str, S]]:
        try:
            for step, after in self._model.steps(state):
                if self._model.canonical(after) == wanted:
                    yield step, after
        except Violation:
            return
