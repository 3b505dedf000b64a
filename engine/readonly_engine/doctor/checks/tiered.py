"""Check of tiered storage: offloaded ledgers of the checked topics can be opened with the option `tiered-storage`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECK: Final = "tiered storage"


@dataclass(frozen=True, slots=True)
class OffloadedCopy:
    """An offloaded ledger that was opened, one for each store.

    Attributes:
        topic: its topic.
        ledger_id: the ledger.
        store: the driver, with bucket or path.
        only_copy: whether bookies have no copy of an offloaded ledger of this store any more.
        problem: the reason why it cannot be read; empty for none.
    """

    topic: str
    ledger_id: int
    store: str
    only_copy: bool
    problem: str = ""


def tiered_findings(copies: Sequence[OffloadedCopy], checked: int) -> list[Finding]:
    """Return a finding for each store of offloaded ledgers.

    Args:
        copies: one ledger of each store.
        checked: number of topics and partitions whose ledgers were examined; 0 for none.
    """
    if not checked:
        return []
    if not copies:
        return [ok(CHECK, f"no offloaded ledger in {checked} topics or partitions")]
    return [_finding(one) for one in copies]


def _finding(one: OffloadedCopy) -> Finding:
    ledger = f"ledger {one.ledger_id} of {one.topic}"
    if not one.problem:
        return ok(CHECK, f"{ledger} can be read", one.store)
    remedy = "set tiered-storage (endpoint, bucket, credentials-file), or the credentials in the environment"
    if one.only_copy:
        return fail(CHECK, f"{ledger} cannot be read, and bookies have no copy: {one.problem}", remedy, one.store)
    return warn(CHECK, f"{ledger} cannot be read; bookies still have a copy: {one.problem}", remedy, one.store)
