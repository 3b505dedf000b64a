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

QUIRKS: Final[dict[tuple[str, str], str]] = {}
"""By scenario and client (`go` or `go-0.14.0`): what a client does not do right at the owner either, by a fault of its own.
The scenario must then fail through the pool with the same words."""


def quirk(scenario: str, client: str) -> str:
    """Why a scenario fails with this client wherever it connects; empty when it should not."""
    return QUIRKS.get((scenario, client)) or QUIRKS.get((scenario, client.partition("-")[0]), "")
