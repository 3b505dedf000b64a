"""Check of bookies: each registered one resolves, is reachable, and accepts this client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.failure import BOOKIES, Failure, FailureKind, remedy_of
from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECK: Final = "bookie"
CHECK_ALL: Final = "bookies"


@dataclass(frozen=True, slots=True)
class BookieAnswer:
    """Answer of one registered bookie.

    Attributes:
        bookie_id: its id.
        read_only: whether it is registered as read-only.
        address: HOST:PORT of its registration; empty if unknown.
        failure: the reason why it did not answer; None after a success.
        batch_reads: whether it supports batch reads, which BookKeeper 4.17 brought; None if unknown.
    """

    bookie_id: str
    read_only: bool = False
    address: str = ""
    failure: Failure | None = None
    batch_reads: bool | None = None


@dataclass(frozen=True, slots=True)
class BookieAnswers:
    """All registered bookies, and their answers.

    Attributes:
        answers: the registered bookies.
        unregistered: ids of bookies with data that are not registered now.
        failure: the reason why the list of bookies is unknown; None for none.
        more: number of further bookies, which were not asked.
    """

    answers: Sequence[BookieAnswer] = ()
    unregistered: Sequence[str] = ()
    failure: Failure | None = None
    more: int = 0


def bookie_findings(found: BookieAnswers) -> list[Finding]:
    """Return a finding for each bookie. BookKeeper's protocol has no version; support for batch reads tells 4.17 apart."""
    if found.failure is not None:
        return [
            fail(
                CHECK_ALL,
                f"not checked: {found.failure.text}",
                "correct the errors of configuration and metadata store",
            )
        ]
    findings = [_finding(one) for one in found.answers]
    if not found.answers:
        findings.append(
            fail(CHECK_ALL, "no bookie is registered", "start the bookies, or correct bookkeeper-metadata-store-url")
        )
    findings += [
        warn(
            CHECK,
            "has data of the cluster (its cookie), and is not registered: it is down",
            "start it; if it was removed for good, decommission it (bookkeeper shell decommissionbookie)",
            bookie_id,
        )
        for bookie_id in found.unregistered
    ]
    if found.more:
        findings.append(
            warn(CHECK_ALL, f"{found.more} more bookies were not asked", "check their addresses and logs yourself")
        )
    return findings


def _finding(one: BookieAnswer) -> Finding:
    subject = one.bookie_id if one.address in {"", one.bookie_id} else f"{one.bookie_id} at {one.address}"
    if one.failure is not None:
        remedy = remedy_of(one.failure, BOOKIES)
        if one.failure.kind is FailureKind.NAME:
            remedy = "let the DNS of this machine resolve the host that the bookie advertises (advertisedAddress)"
        return fail(CHECK, one.failure.text, remedy, subject)
    state = "answers, read-only" if one.read_only else "answers"
    if one.batch_reads is None:
        return ok(CHECK, f"{state}; support for batch reads unknown", subject)
    if one.batch_reads:
        return ok(CHECK, f"{state}; supports batch reads (BookKeeper 4.17 or newer)", subject)
    return warn(
        CHECK,
        f"{state}; does not support batch reads (BookKeeper before 4.17), so entries are read one by one",
        "upgrade the bookie to 4.17 or newer",
        subject,
    )
