"""Tables of the reactions to hostile clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longtests.hostile.frames import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from longtests.hostile.attacks import Attack
    from longtests.hostile.commands import CommandRow, Reactions
    from longtests.hostile.run import Outcome

BEGIN: Final = "<!-- hostile: written by make -C lab hostile HOSTILE_OPTIONS=--write -->"
END: Final = "<!-- end of hostile -->"
COMMANDS_BEGIN: Final = "<!-- hostile commands: written by make -C lab hostile HOSTILE_OPTIONS=--write -->"
COMMANDS_END: Final = "<!-- end of hostile commands -->"


def table(outcomes: Mapping[Attack, tuple[Outcome, Outcome]]) -> list[str]:
    """Make one row for each attack, in Markdown: the owner's columns before the pool's."""
    rows = [
        "| client | the owner | others' slowest PING | lost by others | the pool | others' slowest PING | lost by others |"
    ]
    rows.append("|---" * 7 + "|")
    for attack, both in outcomes.items():
        cells = [f"{one.did} | {one.slowest * 1000:.0f} ms | {one.losses}" for one in both]
        rows.append(f"| {attack.title} | {' | '.join(cells)} |")
    return rows


def commands_table(reactions: Mapping[CommandRow, tuple[Reactions, Reactions]]) -> list[str]:
    """Make one row for each command, in Markdown: the owner's reaction before the pool's if they differ."""
    rows = [
        f"| command | {' | '.join(MALFORMED.values())} | others' slowest PING |",
        "|---" * (len(MALFORMED) + 2) + "|",
    ]
    for row, (owner, pool) in reactions.items():
        cells = []
        for how in MALFORMED:
            one, other = (" or ".join(each.by_frame[how]) for each in (owner, pool))
            cells.append(one if one == other else f"{one} / {other}")
        title = f"`{row.title}`" if len(row.commands) == 1 else row.title
        rows.append(f"| {title} | {' | '.join(cells)} | {owner.slowest * 1000:.0f} / {pool.slowest * 1000:.0f} ms |")
    return rows
