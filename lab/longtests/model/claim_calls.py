"""Claims as a machine of the model: its calls, and the passing of time. There is one subscription; the other broker is `PEER`."""

from __future__ import annotations

from typing import Final

from readonly_engine.broker.pool.claims import NO_EPOCH, ClaimAction, ClaimKey, Claims
from readonly_engine.metadata.lease import LEASE_SHARE, SESSION_TIMEOUT_S
from readonly_engine.metadata.topic_name import parse_topic_name

KEY: Final = ClaimKey(parse_topic_name("orders"), "s")
OWN: Final = "pulsar://own"
PEER: Final = "pulsar://peer"
LEASE_S: Final = LEASE_SHARE * SESSION_TIMEOUT_S
TICK_S: Final = 3.0
NOW: Final = 0.0
"""Constant: recorded times move into the past instead, so states that differ only in the time of day are equal."""

LONG_AGO: Final = -2 * TICK_S
FIRST_EPOCH: Final = 1


def make(lease: float) -> Claims:
    """Return the claims of a new broker that has an answer from ZooKeeper."""
    claims = Claims(OWN)
    claims.renewed(1, lease, NOW)
    return claims


def want(claims: Claims, client: int) -> tuple[ClaimAction, ...]:
    """Request the claim for a client's new consumer."""
    return tuple(claims.request(KEY, client, NOW))


def left(claims: Claims, client: int) -> tuple[ClaimAction, ...]:
    """Remove the client's consumer."""
    return tuple(claims.release(KEY, client))


def claimed(claims: Claims, session: int) -> tuple[ClaimAction, ...]:
    """Handle the creation of our node in a session."""
    return tuple(claims.claimed(KEY, session))


def claimed_in_any(claims: Claims, _session: int) -> tuple[ClaimAction, ...]:
    """Do the same as `claimed`, without a check of the session."""
    return tuple(claims.claimed(KEY, claims._session))


def taken(claims: Claims, alive: bool) -> tuple[ClaimAction, ...]:
    """Handle a claim that the other broker has."""
    return tuple(claims.taken(KEY, PEER, {OWN, PEER} if alive else {OWN}))


def failed(claims: Claims) -> tuple[ClaimAction, ...]:
    """Handle a request that the store did not answer."""
    return tuple(claims.failed(KEY))


def released(claims: Claims) -> tuple[ClaimAction, ...]:
    """Handle a removed node, or a removal that failed."""
    return tuple(claims.released(KEY))


def renewed(claims: Claims, session: int, lease: float) -> tuple[ClaimAction, ...]:
    """Handle the answer to a probe that was sent now."""
    return tuple(claims.renewed(session, lease, NOW))


def ended(claims: Claims) -> tuple[ClaimAction, ...]:
    """Handle the known end of the session."""
    return tuple(claims.ended())


def shifted(claims: Claims) -> None:
    """Let a tick pass."""
    claims.until = max(claims.until - TICK_S, LONG_AGO)


def looked(claims: Claims) -> tuple[ClaimAction, ...]:
    """Check the lease, as the guard does by its timer and before each delivery."""
    return tuple(claims.on_timer(NOW))


def suspended(claims: Claims) -> bool:
    """Return whether deliveries of claimed subscriptions are suspended."""
    return claims.suspended


def epoch(claims: Claims) -> int:
    """Return the epoch in which data read from the owner's cursor is valid; NO_EPOCH for none."""
    claim = claims._claims.get(KEY)
    return claim.epoch if claim is not None and claims.is_valid(KEY, claim.epoch) else NO_EPOCH


def epochs_from_one(claims: Claims) -> None:
    """Renumber epochs from 1. An old epoch never becomes valid again, so only its validity matters."""
    claim = claims._claims.get(KEY)
    now = epoch(claims)
    if claim is not None:
        claim.epoch = min(now, FIRST_EPOCH)
    claims._last_epoch = min(now, FIRST_EPOCH)


def exchanged(claims: Claims) -> None:
    """Exchange the two clients."""
    for claim in claims._claims.values():
        claim.users = {1 - user for user in claim.users}
        claim.waiting = [1 - waiter for waiter in claim.waiting]
