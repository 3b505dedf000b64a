"""The lookup redirection config of a pool: which topics its brokers serve, from all bindings that name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from readonly_operator.desired.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.api.binding import Binding


@dataclass(frozen=True, slots=True)
class LookupConfig:
    """What each broker of a pool is to hold.

    Attributes:
        revision: name of this content; equal content has the same revision.
        bindings: (name, topics), sorted by name.
    """

    revision: str
    bindings: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, bindings: Iterable[Binding]) -> LookupConfig:
        """The config that says what the bindings say, in whatever order they come."""
        entries = tuple(sorted((binding.full_name, binding.topics) for binding in bindings))
        return cls(f"r{digest(_plain(entries))}", entries)  # the letter keeps YAML readers from taking it for a number

    def yaml(self) -> str:
        """The file that brokers read."""
        return yaml.safe_dump(
            {"revision": self.revision, "bindings": _plain(self.bindings)}, sort_keys=False, width=1000
        )


def _plain(entries: tuple[tuple[str, tuple[str, ...]], ...]) -> list[dict[str, Any]]:
    return [{"name": name, "topics": list(topics)} for name, topics in entries]
