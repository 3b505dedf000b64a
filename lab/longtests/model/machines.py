"""The engine's own state machines as values: each state gets a number, each call is made once and cached.

A machine of the engine is a mutable object. A search must compare states, keep millions of them, and return to them. So a model
refers to a machine's state by its number, and a call is a lookup by number and arguments. Only the first call in a state runs the
engine's code, on a copy. Two objects are the same state if everything in them is equal. This includes the order of dictionaries,
on which the engine's code depends.
"""

from __future__ import annotations

import pickle
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

M = TypeVar("M")

NONE: Final = -1
"""No machine."""

_PLAIN = (int, float, str, bytes, bool, type(None))


class Machines(Generic[M]):
    """All known states of machines of one kind."""

    def __init__(self) -> None:
        self.calls = 0
        self._numbers: dict[Hashable, int] = {}
        self._kept: list[bytes] = []
        self._made: dict[tuple[Any, ...], tuple[int, Any]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, make: Callable[..., M], *args: Hashable) -> int:
        """Return the number of a new machine.

        Args:
            make: creates it.
            args: arguments of `make`.
        """
        key = (make, args)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._number_of(make(*args)), None
        return found[0]

    def call(self, number: int, function: Callable[..., Any], *args: Hashable) -> tuple[int, Any]:
        """Call a function with a machine.

        Args:
            number: the machine's state before the call.
            function: takes the machine and the arguments; its result must not be changed.
            args: the arguments.

        Returns:
            The machine's state after the call, and the function's result.
        """
        key = (number, function, args)
        found = self._made.get(key)
        if found is None:
            self.calls += 1
            machine: M = pickle.loads(self._kept[number])
            result = function(machine, *args)
            found = self._made[key] = self._number_of(machine), result
        return found

    def ask(self, number: int, function: Callable[..., Any], *args: Hashable) -> Any:
        """Call a function that changes nothing."""
        after, result = self.call(number, function, *args)
        assert after == number, f"{function.__name__} has changed the machine"
        return result

    def _number_of(self, machine: M) -> int:
        key = frozen(machine)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._kept)
            self._kept.append(pickle.dumps(machine, pickle.HIGHEST_PROTOCOL))
        return number


def frozen(value: Any) -> Hashable:
    """Return everything in a value in a comparable form."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple | list | deque):
        return tuple(frozen(item) for item in value)
    if isinstance(value, set | frozenset):
        return frozenset(frozen(item) for item in value)
    if isinstance(value, dict):
        return tuple((frozen(key), frozen(item)) for key, item in value.items())
    fields = _fields(value)
    assert fields or type(value).__module__.startswith(("readonly_engine", "longtests")), (
        f"{value!r} cannot be compared"
    )
    return (type(value).__qualname__, *(frozen(item) for item in fields))


def _fields(value: Any) -> list[Any]:
    """Return the attributes of an object: those in slots, then those in its dictionary."""
    names = [
        name
        for kind in reversed(type(value).__mro__)
        for name in _slots(kind)
        if name not in {"__dict__", "__weakref__"} and hasattr(value, name)
    ]
    return [getattr(value, name) for name in names] + list(getattr(value, "__dict__", {}).values())


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
