"""Check of host names: each option's hosts resolve on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECK: Final = "DNS"
MAX_SHOWN: Final = 4
"""Addresses of a name that a finding lists."""


@dataclass(frozen=True, slots=True)
class HostName:
    """A host of an option.

    Attributes:
        host: the name or address.
        option: the option.
        required: whether this machine must resolve it; clients alone need advertised names.
    """

    host: str
    option: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Resolution:
    """Answer of the DNS.

    Attributes:
        name: the host and its option.
        addresses: its addresses; empty after a failure.
        problem: the reason of the failure; empty for none.
    """

    name: HostName
    addresses: tuple[str, ...] = ()
    problem: str = ""


def name_findings(resolutions: Sequence[Resolution]) -> list[Finding]:
    """Return a finding for each host. One unknown host of an option with several is a warning, as the others serve."""
    usable = {one.name.option for one in resolutions if one.addresses}
    return [_finding(one, alone=one.name.option not in usable) for one in resolutions]


def _finding(resolution: Resolution, *, alone: bool) -> Finding:
    name = resolution.name
    subject = f"{name.host} ({name.option})"
    if resolution.addresses:
        more = len(resolution.addresses) - MAX_SHOWN
        listed = ", ".join(resolution.addresses[:MAX_SHOWN])
        return ok(CHECK, listed + (f" and {more} more" if more > 0 else ""), subject)
    observed = f"does not resolve: {resolution.problem}"
    remedy = f"correct the host in {name.option}, or let the DNS of this machine resolve it"
    if not name.required:
        return warn(CHECK, observed, f"check that clients resolve it, or correct {name.option}", subject)
    return (fail if alone else warn)(CHECK, observed, remedy, subject)
