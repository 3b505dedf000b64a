"""Label selectors as of `kubectl get -l`, without sets: KEY=VALUE, KEY!=VALUE, KEY and !KEY, with commas between. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_REQUIREMENTS: Final = 16
"""Requirements of a selector."""
_KEY: Final = r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_VALUE: Final = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_REQUIREMENT: Final = re.compile(
    rf"(?P<absent>!)?(?P<alone>{_KEY})|(?P<key>{_KEY})\s*(?P<sign>==?|!=)\s*(?P<value>{_VALUE})"
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement.

    Attributes:
        key: label's key.
        value: its value; None for any.
        negated: whether the label must be absent, or have another value.
    """

    key: str
    value: str | None
    negated: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet it. A label that is absent has another value, as in Kubernetes."""
        found = labels.get(self.key)
        holds = found is not None if self.value is None else found == self.value
        return holds != self.negated


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Selector of objects by their labels.

    Attributes:
        requirements: all must hold; none for all objects.
    """

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector | None:
        """Return the selector of a text; empty for all objects. None if it is no selector, or has too many requirements."""
        words = [word.strip() for word in text.split(",")] if text.strip() else []
        found = [_REQUIREMENT.fullmatch(word) for word in words]
        if len(words) > MAX_REQUIREMENTS or not all(found):
            return None
        return cls(tuple(_requirement(one) for one in found if one))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return all(one.matches(labels) for one in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(_text, self.requirements))


def _requirement(found: re.Match[str]) -> Requirement:
    if found["alone"]:
        return Requirement(found["alone"], None, found["absent"] is not None)
    return Requirement(found["key"], found["value"], found["sign"] == "!=")


def _text(one: Requirement) -> str:
    if one.value is None:
        return f"{'!' if one.negated else ''}{one.key}"
    return f"{one.key}{'!=' if one.negated else '='}{one.value}"
