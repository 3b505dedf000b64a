"""Admission of entries to a micro-batch under its limits, with a fair share for every topic. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from readonly_engine.topic.position import Position

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_spark.plan.topic_state import EntryRange, TopicState


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one micro-batch; None for no limit.

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


class Waiting:
    """Decides whether a stream waits for more messages before its next micro-batch. Pure: time is an argument.

    Args:
        messages: the number of messages to wait for; None to wait for none.
        longest_s: the longest time to wait, in seconds.
    """

    def __init__(self, messages: int | None, longest_s: float) -> None:
        self._messages = messages
        self._longest_s = longest_s
        self._since: float | None = None

    def more(
        self,
        starts: Mapping[str, Position],
        states: Mapping[str, TopicState],
        ends: Mapping[str, Position],
        now: float,
    ) -> bool:
        """Return whether to wait: too few messages are there, by an estimate, and the first one has not waited long enough.

        Args:
            starts: the start in each topic; a missing topic starts at its first entry.
            states: the topics.
            ends: the current ends of the topics.
            now: the time, in seconds.
        """
        if self._messages is None:
            return False
        found = sum(
            one.messages
            for topic, end in ends.items()
            for one in states[topic].entry_ranges(starts.get(topic, states[topic].earliest), end)
        )
        if not found:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if found >= self._messages or now - self._since >= self._longest_s:
            self._since = None
            return False
        return True


def admit(
    starts: Mapping[str, Position], states: Mapping[str, TopicState], ends: Mapping[str, Position], limits: Limits
) -> dict[str, Position]:
    """Return the end of a micro-batch in each topic.

    The limits are divided evenly; the unused part of a topic's share goes to the other topics. Every topic with unread entries
    gets at least one entry, so that no topic waits for ever under small limits. A compacted view is never divided: its reader
    has to read all of it to find a part of it.

    Args:
        starts: the start in each topic; a missing topic starts at its first entry.
        states: the topics.
        ends: the current ends of the topics.
        limits: the limits of the whole micro-batch.

    Returns:
        For each topic of `ends` a position from its start to its end.
    """
    ranges = {
        topic: list(states[topic].entry_ranges(starts.get(topic, states[topic].earliest), end))
        if topic in states
        else []
        for topic, end in ends.items()
    }
    if limits.none:
        return dict(ends)
    shares = {topic: float("inf") for topic in ranges}
    for limit, cost in (
        (limits.bytes, {topic: sum(one.bytes for one in found) for topic, found in ranges.items()}),
        (limits.messages, {topic: sum(one.messages for one in found) for topic, found in ranges.items()}),
    ):
        if limit is None:
            continue
        for topic, granted in share_out(limit, cost).items():
            if cost[topic]:
                shares[topic] = min(shares[topic], granted / cost[topic])
    return {
        topic: end
        if shares[topic] >= 1.0 or not ranges[topic]
        else min(states[topic].after_horizon, end)
        if ranges[topic][0].ledger.compacted
        else _end_of(ranges[topic], shares[topic])
        for topic, end in ends.items()
    }


def share_out(amount: float, requested: Mapping[str, float]) -> dict[str, float]:
    """Divide an amount evenly; no topic gets more than it requests, and the rest goes to the others."""
    granted = dict.fromkeys(requested, 0.0)
    left = amount
    waiting = sorted(requested, key=lambda topic: (requested[topic], topic))
    for index, topic in enumerate(waiting):
        granted[topic] = min(requested[topic], left / (len(waiting) - index))
        left -= granted[topic]
    return granted


def _end_of(ranges: Sequence[EntryRange], share: float) -> Position:
    """Return the position up to which entries take about this share of all bytes; at least after the first entry."""
    budget = share * sum(one.bytes for one in ranges)
    end = Position(ranges[0].ledger.ledger_id, ranges[0].first + 1)
    for one in ranges:
        if budget >= one.bytes:
            budget -= one.bytes
            end = Position(one.ledger.ledger_id, one.last + 1)
            continue
        entries = int(budget / one.ledger.entry_bytes)
        if entries:
            end = max(end, Position(one.ledger.ledger_id, one.first + entries))
        break
    return end
