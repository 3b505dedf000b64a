"""Outcome of a release: the artefacts of its architectures that are made, and the missing ones with their reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MISSING: Final = "MISSING.txt"
"""File of a release that lists them; absent where nothing is missing."""


@dataclass(slots=True)
class Outcome:
    """Wheels and images of a release.

    Attributes:
        missing: reasons by artefact.
        made: artefacts that exist.
    """

    missing: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)

    def miss(self, artefact: str, reason: str) -> None:
        """Record an artefact that is not made.

        Args:
            artefact: its name, such as `wheel for arm64 and Python 3.11`.
            reason: why, and the remedy; one line.
        """
        self.missing[artefact] = " ".join(reason.split())

    def joined(self, other: Outcome) -> Outcome:
        """Return the outcome of two machines together: missing is what neither has made."""
        made = self.made | other.made
        reasons = {**self.missing, **other.missing}
        return Outcome({one: reason for one, reason in reasons.items() if one not in made}, made)

    def text(self) -> str:
        """Return one line for each missing artefact."""
        return "".join(f"{artefact}: {reason}\n" for artefact, reason in sorted(self.missing.items()))
