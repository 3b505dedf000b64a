"""State of a pool: the answer of each of its brokers, the sums over them, and what needs attention. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.status.document import DocumentError, decode, encode
from readonly_engine.status.state import MemberState, Relief, Status
from readonly_engine.status.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_FINDINGS: Final = 50
"""Findings of a pool that are shown."""


@dataclass(frozen=True, slots=True)
class MemberAnswer:
    """A broker of the pool, and its state.

    Attributes:
        member: the broker, as the metadata store has it.
        status: its state without lists; None without an answer.
        error: reason without a state.
    """

    member: MemberState = field(default_factory=MemberState)
    status: Status | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class PoolState:
    """State of a pool, as one of its brokers sees it.

    Attributes:
        name: name of the pool.
        uid: uid of the pool; empty without one.
        member_count: number of its brokers.
        answers: the brokers, at most MAX_MEMBERS of `http/status/gather.py`.
    """

    name: str = ""
    uid: str = ""
    member_count: int = 0
    answers: tuple[MemberAnswer, ...] = ()

    @property
    def states(self) -> list[Status]:
        """The states of the brokers that answered."""
        return [one.status for one in self.answers if one.status is not None]

    def total(self, figure: Callable[[Status], int]) -> int:
        """Return the sum of a figure over the brokers that answered."""
        return sum(map(figure, self.states))

    @property
    def relief(self) -> Relief:
        """The deliveries of all brokers that answered."""
        return Relief(
            self.total(lambda one: one.relief.delivered_messages),
            self.total(lambda one: one.relief.delivered_bytes),
            self.total(lambda one: one.relief.pushed_messages),
            self.total(lambda one: one.relief.pushed_bytes),
        )

    @property
    def spared(self) -> tuple[int, int]:
        """Messages and bytes that were delivered without the owners: the sum over the brokers, none of which is negative."""
        return self.total(lambda one: one.relief.spared_messages), self.total(lambda one: one.relief.spared_bytes)

    def findings(self) -> list[str]:
        """Return what needs attention, in sentences; at most MAX_FINDINGS."""
        found = [f"{one.member.url} has no figures: {one.error}" for one in self.answers if one.error]
        versions = sorted({printable(one.broker.version, 40) for one in self.states})
        if len(versions) > 1:
            found.append(f"The brokers have different versions: {', '.join(versions[:5])}.")
        divided = sorted({one.member_count for one in self.states})
        if len(divided) > 1:
            numbers = " and ".join(f"{number:,}" for number in divided[:5])
            found.append(f"The brokers see different numbers of members: {numbers}.")
        for one in self.states:
            if one.source.bindings_error:
                found.append(f"{one.broker.url} cannot use its bindings: {one.source.bindings_error}")
            if not one.source.connected:
                found.append(f"{one.broker.url} is not connected to the metadata store.")
            if one.source.suspended:
                found.append(f"{one.broker.url} suspends delivery to its claimed subscriptions.")
        if len(found) > MAX_FINDINGS:
            found = [*found[: MAX_FINDINGS - 1], f"and {len(found) - MAX_FINDINGS + 1:,} more"]
        return found

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object. The status of a broker is that of /status, without lists."""
        return {
            "pool": self.name,
            "pool_uid": self.uid,
            "member_count": self.member_count,
            "members": [
                {
                    "url": one.member.url,
                    "status_url": one.member.status_url,
                    "itself": one.member.itself,
                    "error": one.error,
                    "status": None if one.status is None else encode(one.status),
                }
                for one in self.answers
            ],
            "findings": self.findings(),
        }


def answer_of(member: MemberState, name: str, uid: str, code: int, document: Any) -> MemberAnswer:
    """Return the answer of a broker to a request for its state.

    An address may have another broker by now, also one of a pool with the same name at another metadata store.

    Args:
        member: the broker that was asked.
        name: name of its pool.
        uid: uid of its pool; empty if unknown.
        code: the HTTP status.
        document: the answer, JSON; None for another one.
    """
    if code != HTTPStatus.OK:
        reason = document.get("reason") if isinstance(document, dict) else None
        return MemberAnswer(member, error=printable(str(reason or f"HTTP status {code}")))
    try:
        status = decode(document)
    except DocumentError as error:
        return MemberAnswer(member, error=str(error))
    broker = status.broker
    if broker.pool != name or (uid and broker.pool_uid and broker.pool_uid != uid):
        whose = f"{broker.pool} {broker.pool_uid}".strip()
        return MemberAnswer(member, error=printable(f"a broker of another pool answers there: {whose}"))
    if broker.url != member.url:
        return MemberAnswer(member, error=printable(f"another broker answers there: {broker.url}"))
    return MemberAnswer(member, replace(status, members=(), topics=(), subscriptions=(), clients=()))
