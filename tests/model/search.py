"""Breadth-first search of every state that a model can reach: the first way found to a violation is a shortest one."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

S = TypeVar("S", bound="Hashable")

MAX_STATES = 4_000_000


class Violation(Exception):  # noqa: N818 - it is what the search looks for
    """What must never happen happens in a step."""


class Model(Protocol[S]):
    """A system of which every state is looked at.

    Attributes:
        name: for reports.
    """

    name: str

    def initial(self) -> S:
        """Where it begins."""

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """What can happen next: each step in words, and the state after it.

        Raises:
            Violation: from the iterator, with the step and what is wrong: `Violation(step, what)`.
        """

    def canonical(self, state: S) -> S:
        """The same state with interchangeable parts in one order."""

    def wrong(self, state: S) -> str:
        """What is wrong with a state by itself; empty for nothing."""

    def done(self, state: S) -> bool:
        """Whether everything has come to its good end."""


@dataclass(slots=True)
class Outcome:
    """What a search has found.

    Attributes:
        states: how many states were reached, interchangeable ones counted once.
        transitions: how many steps lead from them.
        depth: how many steps the farthest state is away.
        seconds: how long it took.
        violation: what is wrong; empty for nothing.
        trace: the steps that lead there, from the beginning.
        complete: whether every state was looked at.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    violation: str = ""
    trace: list[str] = field(default_factory=list)
    complete: bool = True


class _Found(NamedTuple):
    """A state at which something is wrong: the step that leads on into it where the step itself is wrong."""

    number: int
    step: str
    what: str


class Search(Generic[S]):
    """One search.

    Args:
        model: what is searched.
        most: end, incomplete, with so many states.
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
        """Search.

        Args:
            ends_well: whether a good end must be within reach from every state.
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
        """The first state from which no step leads to a good end any more."""
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
        """A function that gives the states from which one step leads to a state."""
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
        """The steps to what is wrong. Interchangeable parts are followed through, so that one name means one part."""
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
