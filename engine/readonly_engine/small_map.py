"""A mapping that has one key as a rule, in a quarter of the memory of a dict: of each, a broker has tens of thousands."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, KeysView, ValuesView

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class _Mark(Enum):
    """A member is equal to no key, and stays one object when a map is pickled, as the models of lab/ do."""

    EMPTY = 0
    MANY = 1


_EMPTY: Final = _Mark.EMPTY
_MANY: Final = _Mark.MANY


class SmallMap(Generic[K, V]):
    """A mapping in the order of insertion, with the methods of a dict that are used. It becomes a dict with the second key.

    Do not use it where a lookup costs more than the rest: a dict of the interpreter is some 50 ns faster.
    """

    __slots__ = ("_key", "_value")

    def __init__(self) -> None:
        self._key: object = _EMPTY
        self._value: Any = None  # of the key; with _MANY a dict

    def __len__(self) -> int:
        return len(self._value) if self._key is _MANY else self._key is not _EMPTY

    def __contains__(self, key: object) -> bool:
        return key in self._value if self._key is _MANY else key == self._key

    def __iter__(self) -> Iterator[K]:
        return iter(self._plain())

    def __getitem__(self, key: K) -> V:
        if key == self._key:
            return self._value  # type: ignore[no-any-return]
        if self._key is not _MANY:
            raise KeyError(key)
        return self._value[key]  # type: ignore[no-any-return]

    def __setitem__(self, key: K, value: V) -> None:
        if self._key is _MANY:
            self._value[key] = value
        elif self._key is _EMPTY or key == self._key:
            self._key, self._value = key, value
        else:
            self._key, self._value = _MANY, {self._key: self._value, key: value}

    def __delitem__(self, key: K) -> None:
        self.pop(key)

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: D) -> V | D: ...

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """Return the value of a key, or the default."""
        if key == self._key:
            return self._value  # type: ignore[no-any-return]
        return self._value.get(key, default) if self._key is _MANY else default

    @overload
    def pop(self, key: K, /) -> V: ...

    @overload
    def pop(self, key: K, default: D, /) -> V | D: ...

    def pop(self, key: K, /, *default: D) -> V | D:
        """Remove a key and return its value, or the default.

        Raises:
            KeyError: the key is not there, and there is no default.
        """
        if key == self._key:
            value: V = self._value
            self.clear()
            return value
        if self._key is not _MANY:
            if default:
                return default[0]
            raise KeyError(key)
        found: V | D = self._value.pop(key, *default)
        if not self._value:
            self.clear()
        return found

    def clear(self) -> None:
        """Remove all keys."""
        self._key, self._value = _EMPTY, None

    def keys(self) -> KeysView[K]:
        """Return the keys. As those of `values` and `items`, they do not follow later changes."""
        return self._plain().keys()

    def values(self) -> ValuesView[V]:
        """Return the values."""
        return self._plain().values()

    def items(self) -> ItemsView[K, V]:
        """Return the keys with their values."""
        return self._plain().items()

    def _plain(self) -> dict[K, V]:
        if self._key is _MANY:
            return self._value  # type: ignore[no-any-return]
        return {} if self._key is _EMPTY else {self._key: self._value}  # type: ignore[dict-item]
