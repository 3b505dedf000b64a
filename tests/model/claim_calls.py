"""Claims as a machine of the model: its calls, and time that passes. There is one subscription; the other broker is `PEER`."""

from __future__ import annotations

from typing import Final

from readonly_engine.broker.pool.claims import NO_EPOCH, ClaimAction, ClaimKey, Claims
from readonly_engine.metadata.lease import LEASE_SHARE
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.metadata.zookeeper_connection import SESSION_TIMEOUT_S

KEY: Final = ClaimKey(parse_topic_name("orders"), "s")
OWN: Final = "pulsar://own"
PEER: Final = "pulsar://peer"
LEASE_S: Final = LEASE_SHARE * SESSION_TIMEOUT_S
TICK_S: Final = 3.0
NOW: Final = 0.0
"""Always: what the machine remembers of the past is moved instead, so that states that differ in nothing else are one."""

LONG_AGO: Final = -2 * TICK_S
FIRST_EPOCH: Final = 1


def make(lease: float) -> Claims:
    """The claims of a broker that has just begun: ZooKeeper has answered it."""
    claims = Claims(OWN)
    claims.renewed(1, lease, NOW)
    return claims


def want(claims: Claims, client: int) -> tuple[ClaimAction, ...]:
    """A client's consumer has come."""
    return tuple(claims.request(KEY, client, NOW))


def left(claims: Claims, client: int) -> tuple[ClaimAction, ...]:
    """It has gone."""
    return tuple(claims.release(KEY, client))


def claimed(claims: Claims, session: int) -> tuple[ClaimAction, ...]:
    """The node is ours, made in a session."""
    return tuple(claims.claimed(KEY, session))


def claimed_in_any(claims: Claims, _session: int) -> tuple[ClaimAction, ...]:
    """As `claimed`, by a machine that does not ask in which session."""
    return tuple(claims.claimed(KEY, claims._session))


def taken(claims: Claims, alive: bool) -> tuple[ClaimAction, ...]:
    """The other broker has it."""
    return tuple(claims.taken(KEY, PEER, {OWN, PEER} if alive else {OWN}))


def failed(claims: Claims) -> tuple[ClaimAction, ...]:
    """The store did not answer."""
    return tuple(claims.failed(KEY))


def released(claims: Claims) -> tuple[ClaimAction, ...]:
    """The node is gone, or could not be removed."""
    return tuple(claims.released(KEY))


def renewed(claims: Claims, session: int, lease: float) -> tuple[ClaimAction, ...]:
    """A probe that was sent now was answered."""
    return tuple(claims.renewed(session, lease, NOW))


def ended(claims: Claims) -> tuple[ClaimAction, ...]:
    """The session is known to have ended."""
    return tuple(claims.ended())


def shifted(claims: Claims) -> None:
    """A tick has passed."""
    claims.until = max(claims.until - TICK_S, LONG_AGO)


def looked(claims: Claims) -> tuple[ClaimAction, ...]:
    """The guard looks at the lease: by its timer, and before anything is delivered."""
    return tuple(claims.tick(NOW))


def suspended(claims: Claims) -> bool:
    """Whether nothing claimed is delivered."""
    return claims.suspended


def epoch(claims: Claims) -> int:
    """The epoch in which what was read of the owner's cursor counts; NO_EPOCH for none."""
    claim = claims._claims.get(KEY)
    return claim.epoch if claim is not None and claims.is_valid(KEY, claim.epoch) else NO_EPOCH


def epochs_from_one(claims: Claims) -> None:
    """Count epochs anew: an older one never becomes valid again, so it is only asked whether one is."""
    claim = claims._claims.get(KEY)
    now = epoch(claims)
    if claim is not None:
        claim.epoch = min(now, FIRST_EPOCH)
    claims._last_epoch = min(now, FIRST_EPOCH)


def exchanged(claims: Claims) -> None:
    """The two clients change places."""
    for claim in claims._claims.values():
        claim.users = {1 - user for user in claim.users}
        claim.waiting = [1 - waiter for waiter in claim.waiting]
