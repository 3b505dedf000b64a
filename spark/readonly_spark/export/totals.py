"""Totals of a query's progress reports, which are dictionaries from Spark's JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_spark.lag.topic_lag import TopicLag

OBSERVED: Final = "export"
"""The name of the observation that counts messages and bytes."""


@dataclass(slots=True)
class Totals:
    """Sums over the micro-batches of this run; Spark can report a micro-batch several times.

    Attributes:
        batches: micro-batches with messages.
        messages: number of messages.
        value_bytes: bytes of their values; 0 if the table has no column `value`.
        ends: the next entry of each topic, `LEDGER:ENTRY`.
    """

    batches: int = 0
    messages: int = 0
    value_bytes: int = 0
    ends: dict[str, str] = field(default_factory=dict)
    _last: int = -1

    def add(self, progress: Mapping[str, Any], counted: Mapping[int, tuple[int, int]] | None = None) -> None:
        """Add a progress report unless its micro-batch was added before.

        Args:
            progress: the report.
            counted: messages and bytes by micro-batch, if the sink counts them.
        """
        batch = int(progress["batchId"])
        # An idle query reports too, with the number of the next micro-batch.
        if batch <= self._last or "addBatch" not in progress.get("durationMs", {}):
            return
        self._last = batch
        observed = (progress.get("observedMetrics") or {}).get(OBSERVED) or {}
        messages, size = (counted or {}).get(batch, (observed.get("messages") or 0, observed.get("bytes") or 0))
        self.batches += messages > 0
        self.messages += int(messages)
        self.value_bytes += int(size)
        for source in progress.get("sources", ()):
            end = source.get("endOffset")
            found = json.loads(end) if isinstance(end, str) else end
            if isinstance(found, dict):
                self.ends.update(found.get("t", {}))


def progress_line(totals: Totals, seconds: float, lags: list[TopicLag]) -> str:
    """Return one line of progress: exported messages and the lag."""
    line = f"{totals.messages:,} messages, {totals.value_bytes / 1e6:,.1f} MB in {totals.batches:,} batches, {seconds:.0f} s"
    behind = [lag for lag in lags if lag.entries]
    if not behind:
        return f"{line}; no lag"
    most = max(behind, key=lambda lag: lag.stored_bytes)
    left = (
        f"{sum(lag.messages for lag in behind):,.0f} messages, {sum(lag.stored_bytes for lag in behind) / 1e6:,.1f} MB"
    )
    left += f", {max(lag.seconds for lag in behind):,.0f} s behind"
    if len(lags) > 1:
        left += f" in {len(behind)} of {len(lags)} topics, largest lag: {most.topic} ({most.messages:,.0f})"
    return f"{line}; {left}"


def summary(totals: Totals, seconds: float, lags: list[TopicLag]) -> dict[str, Any]:
    """Return the summary of a run as JSON values."""
    return {
        "messages": totals.messages,
        "valueBytes": totals.value_bytes,
        "batches": totals.batches,
        "seconds": round(seconds, 3),
        "topics": {
            lag.topic: {
                "next": totals.ends.get(lag.topic),
                "lagMessages": round(lag.messages),
                "lagEntries": lag.entries,
                "lagBytes": round(lag.stored_bytes),
                "lagSeconds": round(lag.seconds, 3),
            }
            for lag in sorted(lags, key=lambda lag: lag.topic)
        },
    }


def summary_text(found: Mapping[str, Any], to: str) -> str:
    """Return the summary as text."""
    seconds = found["seconds"]
    rate = found["messages"] / seconds if seconds else 0.0
    lines = [
        (
            f"exported {found['messages']:,} messages ({found['valueBytes'] / 1e6:,.1f} MB) to {to} "
            f"in {seconds:,.1f} s: {rate:,.0f} messages/s, {found['batches']:,} batches"
        )
    ]
    lines += [
        f"  {name}: next entry {topic['next'] or 'unchanged'}, {topic['lagMessages']:,} messages behind"
        for name, topic in found["topics"].items()
    ]
    return "\n".join(lines)
