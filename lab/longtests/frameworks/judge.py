"""Judgement of one run: the messages that a program received, against those that the owner stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from longtests.frameworks.program import READER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from longtests.frameworks.cases import Case
    from longtests.frameworks.events import Events
    from longtests.frameworks.workload import Sent

NO_BACKLOG: Final = -1
"""The backlog of a subscription that does not exist."""

_ORDERED: Final[dict[str, Callable[[Sent], object]]] = {
    "Exclusive": lambda sent: sent.partition,
    "Failover": lambda sent: sent.partition,
    READER: lambda sent: sent.partition,
    "Key_Shared": lambda sent: (sent.partition, sent.key),
}
"""Messages for which Pulsar keeps the order, by type of subscription; Shared has none."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one run. Times, ids and payloads are not in it, so that two runs can be compared.

    Attributes:
        received: different messages received.
        lost: messages that were not received, although the subscription has acked them, or there is no subscription.
        left: messages that were not received, and are still in the backlog.
        duplicates: messages received again.
        disordered: pairs of messages of one partition (Key_Shared: of one key), whose order was not that of the topic.
        unknown: messages that nobody published.
        wrong_ids: messages whose id was not the one at the owner.
        redelivered: messages with a redelivery count above 0.
        errors: errors that the program reported.
        reconnects: reconnects that the program reported.
        backlog: entries in the backlog that should not be there: the program received their messages and ended cleanly.
        exit_status: exit status; -1 if it did not end by itself.
    """

    received: int = 0
    lost: int = 0
    left: int = 0
    duplicates: int = 0
    disordered: int = 0
    unknown: int = 0
    wrong_ids: int = 0
    redelivered: int = 0
    errors: int = 0
    reconnects: int = 0
    backlog: int = 0
    exit_status: int = 0

    def words(self) -> str:
        """Return the counts that are not 0, in words."""
        return ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in asdict(self).items() if value) or "none"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one run.

    Attributes:
        counts: its counts.
        faults: what a consumer of Pulsar must not observe in this case, in words; empty for a good run.
        details: first errors, for the log of the run.
    """

    counts: Counts
    faults: tuple[str, ...]
    details: tuple[str, ...] = field(default=(), compare=False)


def judge(
    case: Case,
    type_: str,
    sent: Sequence[Sent],
    events: Events,
    backlog: int,
    exit_status: int | None,
    copies: Sequence[Sent] = (),
) -> Verdict:
    """Judge a run.

    Args:
        case: the run.
        type_: subscription type, or Reader.
        sent: the messages, in the order of publication.
        events: events of the program.
        backlog: entries in the backlog after its end; NO_BACKLOG without a subscription.
        exit_status: its exit status; None if it was killed after its time limit.
        copies: further stored copies of messages: the publisher sends again what had no receipt before an unload.
    """
    by_payload = {each.payload: each for each in sent}
    stored: dict[str, list[Sent]] = {}
    for each in (*sent, *copies):
        stored.setdefault(each.payload, []).append(each)
    first: list[Sent] = []
    seen: set[str] = set()
    duplicates = unknown = wrong_ids = redelivered = 0
    for message in events.messages:
        original = by_payload.get(message.payload)
        if original is None:
            unknown += 1
            continue
        redelivered += bool(message.redeliveries)
        wrong_ids += message.entry is not None and not any(
            _same_id(message.entry, message.batch_index, each) for each in stored[message.payload]
        )
        if message.payload in seen:
            duplicates += 1
            continue
        seen.add(message.payload)
        first.append(original)
    missing = len(by_payload) - len(seen)
    in_backlog = max(backlog, 0)
    counts = Counts(
        received=len(seen),
        lost=missing if type_ == READER else max(0, missing - in_backlog),
        left=0 if type_ == READER else min(missing, in_backlog),
        duplicates=duplicates,
        disordered=_disordered(type_, first),
        unknown=unknown,
        wrong_ids=wrong_ids,
        redelivered=redelivered,
        errors=events.error_count,
        reconnects=events.reconnects,
        backlog=0 if type_ == READER else max(0, in_backlog - missing),
        exit_status=-1 if exit_status is None else exit_status,
    )
    return Verdict(counts, tuple(_faults(case, counts, events)), tuple(events.errors + events.broken))


def differences(owner: Verdict, pool: Verdict, *, disturbed: bool) -> list[str]:
    """Return what a run through the pool has and the owner's has not.

    Args:
        owner: the owner's run.
        pool: the run through the pool.
        disturbed: whether servers were disturbed: duplicates, redeliveries, errors and reconnects then depend on the moment.
    """
    names = ["lost", "left", "disordered", "unknown", "wrong_ids", "backlog", "exit_status"]
    if not disturbed:
        names += ["received", "duplicates", "redelivered", "errors", "reconnects"]
    found = []
    for name in names:
        at_owner, through_pool = getattr(owner.counts, name), getattr(pool.counts, name)
        if at_owner != through_pool:
            found.append(f"{name.replace('_', ' ')}: {at_owner} at the owner, {through_pool} through the pool")
    return found


def _faults(case: Case, counts: Counts, events: Events) -> list[str]:
    """Return what no run may have; a disturbed one may have duplicates, redeliveries and errors."""
    bad = ["lost", "left", "disordered", "unknown", "wrong_ids", "backlog"]
    if not case.disturbance:
        bad += ["duplicates", "redelivered", "errors"]
    found = [f"{getattr(counts, name)} {name.replace('_', ' ')}" for name in bad if getattr(counts, name)]
    if counts.exit_status:
        found.append("did not end by itself" if counts.exit_status < 0 else f"exit status {counts.exit_status}")
    if events.broken:
        found.append(f"{len(events.broken)} lines of another form")
    return found


def _same_id(entry: tuple[int, int], batch_index: int, original: Sent) -> bool:
    same_index = batch_index < 0 or original.batch_index < 0 or batch_index == original.batch_index
    return entry == original.entry and same_index


def _disordered(type_: str, received: Sequence[Sent]) -> int:
    group_of = _ORDERED.get(type_)
    if group_of is None:
        return 0
    groups: dict[object, list[tuple[tuple[int, int], int]]] = {}
    for each in received:
        groups.setdefault(group_of(each), []).append((each.entry, each.batch_index))
    return sum(after < before for group in groups.values() for before, after in pairwise(group))
