"""Figures of a replay: how far its clock is, and how far the topics are behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from readonly_engine.topic.replay.log import ReplayLog

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from readonly_engine.broker.server.broker import Broker
    from readonly_engine.http.status.slices import Slices

MS_PER_S: Final = 1000


async def behind_s(broker: Broker, slices: Slices) -> float:
    """Return how far the slowest topic of a broker is behind the clock, in seconds of publish time."""
    slowest = 0.0
    for _, served in broker.topics.all:
        if isinstance(served.log, ReplayLog):
            slowest = max(slowest, served.log.behind_ms)
        if slices.add():
            await slices.pause()
    return slowest / MS_PER_S


async def replay_metrics(broker: Broker, slices: Slices) -> list[Metric]:
    """Return the metrics of a replay; none for a broker of present messages."""
    if broker.replay is None:
        return []
    shared = broker.replay.shared
    clock, now_ms = shared.clock, shared.now_ms()
    return [
        GaugeMetricFamily(f"pulsar_readonly_replay_{name}", text, value=value)
        for name, text, value in (
            (
                "clock_timestamp_seconds",
                "Publish time that the clock of the replay has reached, since the epoch",
                clock.position(now_ms) / MS_PER_S,
            ),
            (
                "speed_ratio",
                "Seconds of publish time in each second; +Inf for all messages at once, 0 while the replay is paused",
                0.0 if clock.paused else clock.speed,
            ),
            ("ended", "1 after the last publish time of the replay", float(clock.ended(now_ms))),
            (
                "behind_seconds",
                "Publish time by which the slowest topic of the broker is behind the clock, because it cannot be read in time",
                await behind_s(broker, slices),
            ),
        )
    ]
