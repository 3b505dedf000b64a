"""Rows that are known not to be equal, and why."""

from __future__ import annotations

from typing import Final

REASONS: Final[dict[str, str]] = {
    "consumer_metadata": (
        "What the client gave is there; beside it the pool notes its own name (`pulsar-readonly.pool`), by which it "
        "tells its consumers from those that are connected straight to the owner."
    ),
    "owner_dispatch_stats": (
        "Messages go out at the pool, so the pool counts them: `GET /stats` of its brokers, and the metrics. "
        "The owner sees a consumer that asks for nothing."
    ),
}
"""By scenario's name."""
