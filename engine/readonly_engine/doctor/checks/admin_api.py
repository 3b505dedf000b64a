"""Check of the admin API: each URL answers, and the pool's role may read the brokers' settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.doctor.checks.failure import ADMIN_API, TOKEN_FILE, Failure, FailureKind, remedy_of, superuser_by
from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_engine.doctor.checks.clocks import ClockSample

CHECK: Final = "admin API"
CHECK_RIGHTS: Final = "admin API rights"
_REFUSALS: Final = frozenset({FailureKind.CREDENTIALS, FailureKind.RIGHTS})


@dataclass(frozen=True, slots=True)
class AdminAnswer:
    """Answers of one host of the admin URL.

    Attributes:
        url: the URL of the host.
        failure: the reason why it did not report its version; None after a success.
        version: its version of Pulsar.
        clock: its clock; None after a failure.
        configuration: its runtime configuration, as texts by key; None if it was refused or not requested.
        configuration_failure: the reason for that; None for none.
    """

    url: str
    failure: Failure | None = None
    version: str = ""
    clock: ClockSample | None = None
    configuration: Mapping[str, Any] | None = None
    configuration_failure: Failure | None = None


def admin_findings(answers: Sequence[AdminAnswer], option: str = TOKEN_FILE) -> list[Finding]:
    """Return a finding for each host of the admin URL, and one about the right to read the configuration.

    Args:
        answers: the hosts.
        option: option of the pool's credentials.
    """
    alone = not any(one.failure is None for one in answers)
    found = [_finding(one, option, alone=alone) for one in answers]
    rights = _rights(answers, option)
    return found if rights is None else [*found, rights]


def _finding(one: AdminAnswer, option: str, *, alone: bool) -> Finding:
    if one.failure is None:
        return ok(CHECK, f"answers: Pulsar {one.version}", one.url)
    result = fail if alone or one.failure.kind in _REFUSALS else warn
    return result(CHECK, one.failure.text, remedy_of(one.failure, replace(ADMIN_API, credentials=option)), one.url)


def _rights(answers: Sequence[AdminAnswer], option: str) -> Finding | None:
    """Return the finding about the runtime configuration, which superusers alone may read; None if no host answers."""
    if any(one.configuration is not None for one in answers):
        return ok(CHECK_RIGHTS, "the role may read the brokers' configuration and policies")
    failures = [one.configuration_failure for one in answers if one.configuration_failure is not None]
    if not failures:
        return None
    if failures[0].kind in _REFUSALS:
        return warn(
            CHECK_RIGHTS,
            "the role may not read the brokers' configuration; a pool then assumes the defaults of a stock broker",
            f"if the brokers have other limits (batch acks, unacked messages), {superuser_by(option)}",
        )
    remedy = remedy_of(failures[0], replace(ADMIN_API, credentials=option))
    return warn(CHECK_RIGHTS, f"configuration unknown: {failures[0].text}", remedy)
