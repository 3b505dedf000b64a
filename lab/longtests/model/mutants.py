"""Former behaviour of the engine that a search must find, if it takes more than a line of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtests.model.compare import compare
from longtests.model.serving import bits, load, position

if TYPE_CHECKING:
    from longtests.model.serving import Serving


def compare_by_ledger(
    serving: Serving,
    client: int,
    told: int,
    acked: int,
    written: int,
    newest_ledger: int,
    loaded: int,
    away: tuple[tuple[int, int], ...],
) -> tuple[bool, int]:
    """Do the same as `compare`, but take any new ledger as a loss of acks, however old their answers are."""
    load(serving.chain, serving.entries, loaded)
    anew = serving.chain.newest_ledger > newest_ledger
    missing = acked_of(serving) & ~acked & ~under_way(serving)
    if not anew or not missing:
        return compare(serving, client, told, acked, written, newest_ledger, loaded, away)
    serving.alone += [(client, entry) for entry in range(serving.entries) if missing >> entry & 1]
    return True, missing


def acked_of(serving: Serving) -> int:
    """Return the acked entries of the copy."""
    return bits(entry for entry in range(serving.entries) if serving.cursor.is_acked(position(entry)))


def under_way(serving: Serving) -> int:
    """Return the entries whose acks are on their way to the owner."""
    return bits(serving.acks.unanswered) | bits(entry for _, entry in serving.alone)
