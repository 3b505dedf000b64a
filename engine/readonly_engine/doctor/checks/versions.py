"""Check of versions, against those that are tested (docs/reference/support.md)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECK: Final = "Pulsar version"

TESTED_PULSAR: Final = ("4.0.8", "4.2.4", "5.0.1")
"""Versions in docs/reference/support.md; a unit test compares them with that page."""

OLDEST_PULSAR: Final = (4, 0)

_PARTS: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})(?![0-9])")


def version_findings(versions: Mapping[str, str]) -> list[Finding]:
    """Return a finding for each version of Pulsar, and one if brokers differ.

    Args:
        versions: version by broker or URL; empty texts are unknown ones.
    """
    known = {where: version for where, version in versions.items() if version}
    if not known:
        return [
            warn(CHECK, "unknown: no broker reports its version", "correct the errors of service URL and admin API")
        ]
    found = [
        _finding(version, ", ".join(sorted(where for where, one in known.items() if one == version)))
        for version in sorted(set(known.values()))
    ]
    if len(found) > 1:
        found.append(
            warn(CHECK, f"brokers have different versions: {', '.join(sorted(set(known.values())))}", "end the upgrade")
        )
    return found


def _finding(version: str, where: str) -> Finding:
    tested = ", ".join(TESTED_PULSAR)
    if version in TESTED_PULSAR:
        return ok(CHECK, f"{version}, a tested version", where)
    release = _release(version)
    if release is None:
        return warn(
            CHECK, f"{version!r} is not a version of Pulsar", f"compare it with the tested versions: {tested}", where
        )
    if release < OLDEST_PULSAR:
        return fail(CHECK, f"{version} is older than 4.0", f"upgrade the brokers; tested are {tested}", where)
    if release in {_release(one) for one in TESTED_PULSAR}:
        return ok(CHECK, f"{version}, of a tested release ({tested})", where)
    return warn(CHECK, f"{version} is not a tested release", f"test your clients first; tested are {tested}", where)


def _release(version: str) -> tuple[int, int] | None:
    found = _PARTS.match(version)
    return None if found is None else (int(found[1]), int(found[2]))
