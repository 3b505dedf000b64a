"""The timed table of a walk, and its place in docs/how-to/release.md."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.console import step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from longtests.release_walk.judging import Losses

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "how-to" / "release.md"
BEGIN: Final = "<!-- release walk: written by make -C lab test-release RELEASE_WALK_OPTIONS=--write -->"
END: Final = "<!-- end of release walk -->"
FIRST_STEPS: Final = (
    "helm install, until the operator is ready",
    "apply pool and binding, until both are ready",
    "start a consumer and publish, until the first message is there",
)
"""The steps of the tutorial to the first message."""


@dataclass(slots=True)
class Report:
    """Durations and counts of a walk.

    Attributes:
        version: of the release.
        commit: of the release.
        steps: seconds by step, in their order.
        losses: by subscription, after the rollback.
        published: messages during the rollback.
        left: what is left in Kubernetes and in the metadata store.
    """

    version: str
    commit: str
    steps: dict[str, float] = field(default_factory=dict)
    losses: dict[str, Losses] = field(default_factory=dict)
    published: int = 0
    left: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure a step; one that fails has no duration."""
        began = time.monotonic()
        with step(name):
            yield
        self.steps[name] = time.monotonic() - began

    def to_first_message(self) -> float:
        """Return the seconds from the installation to the first message."""
        return sum(self.steps[name] for name in FIRST_STEPS)

    def rows(self) -> list[str]:
        """Return a note and two tables, Markdown."""
        lost = sum(len(one.lost) for one in self.losses.values())
        which = f"Release {self.version} of commit {self.commit[:12]}"
        note = f"{which}, {self.published:,} messages during the rollback, {lost} lost"
        rows = [
            f"{note}, {len(self.left)} objects or nodes left.",
            "",
            "| step | duration |",
            "|---|---:|",
            *(f"| {name} | {seconds:.1f} s |" for name, seconds in self.steps.items()),
            f"| from helm install to the first message | {self.to_first_message():.1f} s |",
            "",
            "| subscription | published | received | lost | delivered again |",
            "|---|---:|---:|---:|---:|",
        ]
        return rows + loss_rows(self.losses, self.published)


def loss_rows(losses: Mapping[str, Losses], published: int) -> list[str]:
    """Return a row for each subscription."""
    return [
        f"| {name} | {published:,} | {one.received:,} | {len(one.lost):,} | {len(one.again):,} |"
        for name, one in losses.items()
    ]
