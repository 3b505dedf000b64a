"""Explanations of a state, in sentences without links, for the status page and the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.status.state import BOOKIES, OWNER, RELAYED
from readonly_engine.status.text import time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.status.state import BrokerState, ReasonCount, SourceState, SubscriptionState

TAILS: Final[Mapping[str, str]] = {
    OWNER: "The owner broker pushes each new entry once to this broker.",
    BOOKIES: "This broker reads new entries from the bookies.",
    RELAYED: "Another broker reads the topic; this broker relays its messages.",
}

REASONS: Final[Mapping[str, str]] = {
    "direct-consumers": "The subscription has consumers directly on the owner broker. Both brokers would deliver each message.",
    "entry-filter": "The topic has an entry filter, which only the owner broker has.",
    "storage": "Storage does not return an entry of the subscription. The owner broker may still have it.",
    "replicated": "The subscription is replicated to other clusters, which only the owner broker does.",
    "unbound": "No binding of the pool names the subscription.",
}
"""Explanations of passthrough, by the values of `Reason` of `broker/passthrough/reasons.py`, and `unbound`."""


def reason_text(reason: str) -> str:
    """Return the explanation of a reason of passthrough; the reason itself if this version does not know it."""
    return REASONS.get(reason, reason)


def passed_text(counted: ReasonCount) -> str:
    """Return a reason of passthrough with its number of subscriptions."""
    number = counted.subscriptions
    return f"{counted.reason}, {number:,} {'subscription' if number == 1 else 'subscriptions'}"


def served_text(subscription: SubscriptionState) -> str:
    """Return which broker serves a subscription, in some words or a URL."""
    served = subscription.served_by or "this broker"
    if not subscription.split:
        return served
    if subscription.coordinator:
        return f"{served}, by leases of {subscription.coordinator}"
    if subscription.split == "coordinating":
        return f"{served}, which leases it to {subscription.members:,} more"
    return f"{served}, split: {subscription.split}"


def lac_text(source: SourceState) -> str:
    """Return the state of explicit LAC in a sentence."""
    if not source.lac_topics:
        return "unknown: this broker follows no open ledger"
    if not source.lac_explicit:
        return f"not observed in {source.lac_topics:,} topics; bookies show it after an entry without a successor"
    return f"observed in {source.lac_explicit:,} of {source.lac_topics:,} topics"


def replay_text(broker: BrokerState) -> str:
    """Return where the replay of a broker is, in a sentence; empty without a replay."""
    if broker.replay_ms is None:
        return ""
    if broker.replay_paused:
        pace = "paused"
    elif not broker.replay_speed:
        pace = "all messages at once"
    else:
        pace = f"{broker.replay_speed:g} times the original pace"
    end = broker.replay_end_ms
    last = (
        "without an end" if end is None else f"ended at {time(end)}" if broker.replay_ms >= end else f"to {time(end)}"
    )
    behind = f"; the slowest topic is {broker.replay_behind_s:.1f} s behind" if broker.replay_behind_s >= 0.1 else ""
    return f"at {time(broker.replay_ms)}, {pace}, {last}{behind}"


def store_text(source: SourceState) -> str:
    """Return the state of the metadata store in a sentence."""
    state = "connected" if source.connected else "not connected"
    if source.denied:
        state += f"; {source.denied:,} requests refused"
    if source.suspended:
        state += "; delivery to claimed subscriptions is suspended"
    return state
