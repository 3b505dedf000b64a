"""Check of the service URL: TLS, protocol version, and authentication with the pool's own credentials; owners of topics."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from readonly_engine.doctor.checks.failure import BROKERS, TOKEN_FILE, Failure, FailureKind, remedy_of
from readonly_engine.doctor.checks.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECK: Final = "service URL"
CHECK_OWNER: Final = "topic owner"

MIN_PROTOCOL: Final = 21
"""Protocol version of Pulsar 4.0, the oldest supported release."""

_VERSION: Final = re.compile(r"\d+\.\d+\.\d+\S*")


@dataclass(frozen=True, slots=True)
class BrokerHandshake:
    """Handshake with one host of the service URL.

    Attributes:
        url: the URL of the host.
        failure: the reason why there was none; None after a success.
        server_version: version text of CONNECTED.
        protocol_version: protocol version of CONNECTED.
    """

    url: str
    failure: Failure | None = None
    server_version: str = ""
    protocol_version: int = 0


@dataclass(frozen=True, slots=True)
class OwnerLookup:
    """Connection to the owner broker of a topic.

    Attributes:
        topic: the topic.
        owner: URL of its owner; empty after a failure.
        failure: the reason of the failure; None after a success.
    """

    topic: str
    owner: str = ""
    failure: Failure | None = None


def version_in(server_version: str) -> str:
    """Return the version in a text such as `Pulsar Server4.0.8`; empty without one."""
    found = _VERSION.search(server_version)
    return found[0] if found else ""


def broker_findings(
    handshakes: Sequence[BrokerHandshake], credentials: str, option: str = TOKEN_FILE, *, required: bool
) -> list[Finding]:
    """Return a finding for each host of the service URL.

    Args:
        handshakes: the hosts.
        credentials: kind of the pool's own credentials, such as `token`; empty for none.
        option: their option.
        required: whether the pool itself consumes and produces, as with local cursors. Otherwise clients bring their credentials.
    """
    alone = not any(one.failure is None for one in handshakes)
    return [_finding(one, credentials, option, required=required, alone=alone) for one in handshakes]


def _finding(one: BrokerHandshake, credentials: str, option: str, *, required: bool, alone: bool) -> Finding:
    if one.failure is not None:
        if one.failure.kind is FailureKind.CREDENTIALS and not credentials and not required:
            return ok(CHECK, "answers, and requires credentials; the pool has none, clients bring theirs", one.url)
        result = fail if alone or one.failure.kind is FailureKind.CREDENTIALS else warn
        remedy = remedy_of(one.failure, replace(BROKERS, credentials=option))
        return result(CHECK, one.failure.text, remedy, one.url)
    login = f"accepts the {credentials} of the pool" if credentials else "accepts clients without credentials"
    observed = f"answers: {one.server_version or 'version unknown'}, protocol {one.protocol_version}; {login}"
    if one.protocol_version < MIN_PROTOCOL:
        return warn(CHECK, observed, f"use brokers of Pulsar 4.0 or newer: they have protocol {MIN_PROTOCOL}", one.url)
    return ok(CHECK, observed, one.url)


def owner_findings(lookups: Sequence[OwnerLookup], credentials: str, option: str = TOKEN_FILE) -> list[Finding]:
    """Return a finding for each topic: whether a lookup names its owner, and this machine reaches it.

    Args:
        lookups: the topics.
        credentials: as for `broker_findings`.
        option: their option.
    """
    return [_owner_finding(one, credentials, option) for one in lookups]


def _owner_finding(one: OwnerLookup, credentials: str, option: str) -> Finding:
    if one.failure is None:
        return ok(CHECK_OWNER, f"{one.owner} answers", one.topic)
    if one.failure.kind in {FailureKind.CREDENTIALS, FailureKind.RIGHTS} and not credentials:
        return warn(
            CHECK_OWNER,
            f"not checked: {one.failure.text}",
            "set admin-token-file to let doctor look the topic up",
            one.topic,
        )
    if one.failure.kind in {FailureKind.CREDENTIALS, FailureKind.RIGHTS}:
        remedy = remedy_of(one.failure, replace(BROKERS, credentials=option))
        return fail(CHECK_OWNER, one.failure.text, remedy, one.topic)
    return fail(
        CHECK_OWNER,
        one.failure.text,
        "let this machine reach the address that the owner broker advertises (advertisedAddress, advertisedListeners there)",
        one.topic,
    )
