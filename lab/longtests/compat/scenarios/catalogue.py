"""All scenarios, in the order of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtests.compat.scenarios import acks, brokers, messages, moves, positions, producers, subscriptions, topics

if TYPE_CHECKING:
    from longtests.compat.registry import Scenario

_THEMES = (
    subscriptions.theme,
    acks.acks,
    acks.again,
    acks.flow,
    positions.seeks,
    positions.readers,
    messages.theme,
    messages.schemas,
    topics.theme,
    producers.theme,
    producers.transactions,
    moves.theme,
)

SCENARIOS: tuple[Scenario, ...] = tuple(scenario for theme in _THEMES for scenario in theme.scenarios)

SPLIT_SCENARIOS: tuple[Scenario, ...] = (*SCENARIOS, *brokers.theme.scenarios)
"""Those of a pool of which both brokers serve each subscription."""
