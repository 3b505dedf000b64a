"""How much of what is there a micro-batch takes: a share for each topic, and never nothing. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_spark.plan.topic_state import Run, TopicState


@dataclass(frozen=True, slots=True)
class Limits:
    """What a micro-batch may have; None for any amount.

    Attributes:
        bytes: stored bytes.
        messages: messages.
    """

    bytes: int | None = None
    messages: int | None = None

    @property
    def none(self) -> bool:
        """Whether there is no limit at all."""
        return self.bytes is None and self.messages is None


def admit(
    starts: Mapping[str, Position], states: Mapping[str, TopicState], ends: Mapping[str, Position], limits: Limits
) -> dict[str, Position]:
    """Where a micro-batch ends in each topic.

    The limits are shared out evenly; what a topic does not need of its share goes to the others. Every topic that has something
    to read gets one entry at least, so that none waits for ever, however small the limits are.

    Args:
        starts: where it begins; a topic that is not there begins at its first entry.
        states: the topics.
        ends: where they end now.
        limits: what it may have in all.

    Returns:
        A position for each topic of `ends`, not before its start and not behind its end.
    """
    runs = {
        topic: list(states[topic].runs(starts.get(topic, states[topic].earliest), end)) if topic in states else []
        for topic, end in ends.items()
    }
    if limits.none:
        return dict(ends)
    shares = {topic: float("inf") for topic in runs}
    for most, cost in (
        (limits.bytes, {topic: sum(run.bytes for run in found) for topic, found in runs.items()}),
        (limits.messages, {topic: sum(run.messages for run in found) for topic, found in runs.items()}),
    ):
        if most is None:
            continue
        for topic, granted in share_out(most, cost).items():
            if cost[topic]:
                shares[topic] = min(shares[topic], granted / cost[topic])
    return {
        topic: end if shares[topic] >= 1.0 or not runs[topic] else _end_of(runs[topic], shares[topic])
        for topic, end in ends.items()
    }


def share_out(most: float, wanted: Mapping[str, float]) -> dict[str, float]:
    """Even shares of an amount; nobody gets more than it wants, and what is left over goes to the others."""
    granted = dict.fromkeys(wanted, 0.0)
    left = most
    waiting = sorted(wanted, key=lambda topic: (wanted[topic], topic))
    for index, topic in enumerate(waiting):
        granted[topic] = min(wanted[topic], left / (len(waiting) - index))
        left -= granted[topic]
    return granted


def _end_of(runs: Sequence[Run], share: float) -> Position:
    """The place up to which entries cost about this share of them all; behind the first one at least."""
    budget = share * sum(run.bytes for run in runs)
    end = Position(runs[0].ledger.ledger_id, runs[0].first + 1)
    for run in runs:
        if budget >= run.bytes:
            budget -= run.bytes
            end = Position(run.ledger.ledger_id, run.last + 1)
            continue
        entries = int(budget / run.ledger.entry_bytes)
        if entries:
            end = max(end, Position(run.ledger.ledger_id, run.first + entries))
        break
    return end
