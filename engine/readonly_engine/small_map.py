"""A mapping that has one key as a rule, in a quarter of the memory of a dict: of each, a broker has tens of thousands."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, KeysView, ValuesView

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class _Absent(Enum):
    """A member is equal to no key, and stays one object when a map is pickled, as the models of lab/ do."""

    KEY = 0


_NO_KEY: Final = _Absent.KEY


class SmallMap(Generic[K, V]):
    """A mapping in the order of insertion, with the methods of a dict that are used. It becomes a dict with the second key.

    Do not use it where a lookup costs more than the rest: a dict of the interpreter is some 50 ns faster.
    """

    __slots__ = ("_dict", "_key", "_value")

    def __init__(self) -> None:
        self._key: object = _NO_KEY
        self._value: object = None
        self._dict: dict[K, V] | None = None

    def __len__(self) -> int:
        return (self._key is not _NO_KEY) if self._dict is None else len(self._dict)

    def __contains__(self, key: object) -> bool:
        return key == self._key if self._dict is None else key in self._dict

    def __iter__(self) -> Iterator[K]:
        if self._dict is not None:
            return iter(self._dict)
        return iter(() if self._key is _NO_KEY else (self._key,))  # type: ignore[arg-type]

    def __getitem__(self, key: K) -> V:
        if key == self._key:
            return self._value  # type: ignore[return-value]
        if self._dict is None:
            raise KeyError(key)
        return self._dict[key]

    def __setitem__(self, key: K, value: V) -> None:
        if self._dict is not None:
            self._dict[key] = value
        elif self._key is _NO_KEY or key == self._key:
            self._key, self._value = key, value
        else:
            self._dict = {**self._plain(), key: value}
            self._key, self._value = _NO_KEY, None

    def __delitem__(self, key: K) -> None:
        self.pop(key)

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: D) -> V | D: ...

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """Return the value of a key, or the default."""
        if key == self._key:
            return self._value  # type: ignore[return-value]
        return default if self._dict is None else self._dict.get(key, default)

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
            value, self._key, self._value = self._value, _NO_KEY, None
            return value  # type: ignore[return-value]
        if self._dict is None:
            if default:
                return default[0]
            raise KeyError(key)
        found = self._dict.pop(key, *default)
        if not self._dict:
            self._dict = None
        return found

    def clear(self) -> None:
        """Remove all keys."""
        self._key, self._value, self._dict = _NO_KEY, None, None

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
        if self._dict is not None:
            return self._dict
        return {} if self._key is _NO_KEY else {self._key: self._value}  # type: ignore[dict-item]
