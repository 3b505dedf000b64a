"""The table of hostile clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.hostile.attacks import Attack
    from tests.hostile.run import Outcome

BEGIN: Final = "<!-- hostile: written by make hostile HOSTILE_OPTIONS=--write -->"
END: Final = "<!-- end of hostile -->"


def table(outcomes: Mapping[Attack, tuple[Outcome, Outcome]]) -> list[str]:
    """One row an attack, the owner's columns before the pool's, in Markdown."""
    rows = [
        "| client | the owner | others' slowest PING | lost by others | the pool | others' slowest PING | lost by others |"
    ]
    rows.append("|---" * 7 + "|")
    for attack, both in outcomes.items():
        cells = [f"{one.did} | {one.slowest * 1000:.0f} ms | {one.losses}" for one in both]
        rows.append(f"| {attack.title} | {' | '.join(cells)} |")
    return rows
