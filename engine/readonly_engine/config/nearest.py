"""The known name that a mistyped or foreign name of a setting is nearest to, for errors."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_COMPARED: Final = 200
"""Characters of a name that are compared."""

_SIMILAR: Final = 0.55
"""Least similarity of a name that an error suggests, as difflib measures it: 1 for equal names."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the most similar of some names; empty if none is similar.

    Case does not count, and neither does the order of words: verify-hostname is near hostname-verification.

    Args:
        name: the name that is not known.
        known: the names, of words with dashes between them, and also before them if they are flags.
    """
    asked = name[:MAX_COMPARED].lower().strip("-")

    def similarity(one: str) -> float:
        plain = one.lower().strip("-")
        return max(_ratio(asked, plain), _ratio(_sorted_words(asked), _sorted_words(plain)))

    best = max(known, key=similarity, default="")
    return best if best and similarity(best) >= _SIMILAR else ""


def _ratio(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def _sorted_words(name: str) -> str:
    return "-".join(sorted(name.split("-")))
