"""ZooKeeper in the model: sessions that end after a silence, and one ephemeral node of a session.

Mirrors ZooKeeperStore.claim and release, whose requests reach the server one by one, and its probe. Also mirrors kazoo's session
events: a broker learns of its session's end only when it reaches the server again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longtests.model import claim_calls
from longtests.model.broker import BROKERS, tell_claims
from longtests.model.machines import NONE
from longtests.model.state import (
    ANSWERS,
    CLAIMED,
    CREATE,
    CUT,
    ENDED,
    IDLE,
    KNOWN,
    LOOK,
    NEW,
    RELEASE,
    RELEASED,
    TAKEN,
    UP,
    with_broker,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtests.model.broker import Rules, Step
    from longtests.model.state import World

SESSION: Final = 2
"""In ticks of 3 s: a session may be over 7.5 s after the broker's last request that was answered (metadata/lease.py). A lease of
6 s ends with the second tick, before anything else happens."""


def requests(rules: Rules, world: World) -> Iterator[Step]:
    """Yield the arrival of requests at the server, and of answers at the broker."""
    for at, broker in enumerate(world.brokers):
        who = f"broker {BROKERS[at]}"
        request = broker.request
        reaches = broker.link == UP and not broker.expired
        if request == IDLE or broker.frozen:
            continue
        if request in ANSWERS:
            done = with_broker(world, at, broker._replace(request=IDLE))
            if request == CLAIMED:
                call = claim_calls.claimed_in_any if "any-session" in rules.mutants else claim_calls.claimed
                done = with_broker(done, at, done.brokers[at]._replace(made=0))
                yield (
                    f"{who} receives the answer that the claim is its own",
                    tell_claims(rules, done, at, call, broker.made),
                )
            elif request == TAKEN:
                alive = not world.brokers[1 - at].expired
                yield (
                    f"{who} receives the answer that the other broker has the claim",
                    tell_claims(rules, done, at, claim_calls.taken, alive),
                )
            else:
                yield (
                    f"{who} receives the answer that its claim is gone",
                    tell_claims(rules, done, at, claim_calls.released),
                )
        elif reaches and request == CREATE:
            if world.node == NONE:
                known = broker.known | world.past.answered if broker.stale else broker.known
                made = with_broker(
                    world._replace(node=at),
                    at,
                    broker._replace(request=CLAIMED, made=broker.session, known=known, stale=0),
                )
                for other, found in enumerate(made.brokers):
                    if other != at and found.serving != NONE:
                        made = with_broker(made, other, found._replace(stale=1))
                yield f"ZooKeeper creates the claim of {who}", made
            else:
                yield (
                    f"ZooKeeper answers {who} that there is a claim",
                    with_broker(world, at, broker._replace(request=LOOK)),
                )
        elif reaches and request == LOOK:
            answer = {at: CLAIMED, NONE: CREATE}.get(world.node, TAKEN)
            session = broker.session if answer == CLAIMED else 0
            told = with_broker(world, at, broker._replace(request=answer, made=session))
            yield f"ZooKeeper answers {who} with the claim's broker", told
        elif reaches and request == RELEASE:
            gone = world._replace(node=NONE) if world.node == at else world
            yield f"ZooKeeper removes the claim of {who}", with_broker(gone, at, broker._replace(request=RELEASED))
        if broker.link == CUT or broker.noticed != KNOWN:
            lost = with_broker(world, at, broker._replace(request=IDLE, made=0))
            release = request in {RELEASE, RELEASED}
            yield (
                f"{who}'s request to ZooKeeper fails",
                tell_claims(rules, lost, at, claim_calls.released if release else claim_calls.failed),
            )


def sessions(rules: Rules, world: World) -> Iterator[Step]:
    """Yield broken and restored links to ZooKeeper, and ends of sessions."""
    faults = world.faults
    for at, broker in enumerate(world.brokers):
        who = f"broker {BROKERS[at]}"
        if broker.link == UP and broker.noticed == KNOWN and faults.cuts:
            cut = with_broker(world, at, broker._replace(link=CUT))
            yield (
                f"the link between {who} and ZooKeeper fails silently",
                cut._replace(faults=faults._replace(cuts=faults.cuts - 1)),
            )
        if broker.link == UP and broker.noticed == KNOWN and faults.freezes:
            frozen = with_broker(world, at, broker._replace(link=CUT, frozen=1))
            yield f"{who} is suspended", frozen._replace(faults=faults._replace(freezes=faults.freezes - 1))
        if broker.silent >= SESSION and not broker.expired:
            node = NONE if world.node == at else world.node
            ended = with_broker(world, at, broker._replace(expired=1))
            yield f"ZooKeeper ends the session of {who}", ended._replace(node=node)
        if broker.frozen:
            yield f"{who} resumes", with_broker(world, at, broker._replace(frozen=0))
        elif broker.link == CUT:
            yield from _back(rules, world, at, who)
        elif broker.noticed == ENDED:
            new = broker._replace(noticed=NEW, expired=0, session=broker.session + 1)
            yield f"{who} has a new session", with_broker(world, at, new)
        elif broker.noticed == NEW:
            known = with_broker(world, at, broker._replace(noticed=KNOWN))
            yield f"ZooKeeper answers {who}'s probe in the new session", _renewed(rules, known, at)
    if any(broker.link == CUT and broker.silent < SESSION for broker in world.brokers):
        yield f"{claim_calls.TICK_S:g} seconds pass", _tick(rules, world)


def _back(rules: Rules, world: World, at: int, who: str) -> Iterator[Step]:
    broker = world.brokers[at]
    back = broker._replace(link=UP, silent=0)
    if broker.expired:
        ended = with_broker(world, at, back._replace(noticed=ENDED))
        yield (
            f"{who} reaches ZooKeeper, which answers that its session has ended",
            tell_claims(rules, ended, at, claim_calls.ended),
        )
    else:
        kept = _renewed(rules, with_broker(world, at, back), at)
        yield f"{who} reaches ZooKeeper again, in the same session", kept


def _renewed(rules: Rules, world: World, at: int) -> World:
    """Return the world after the answer to a probe that was sent now."""
    return tell_claims(rules, world, at, claim_calls.renewed, world.brokers[at].session, rules.lease)


def _tick(rules: Rules, world: World) -> World:
    """Return the world after a tick, with all timers that were due in it."""
    for at, broker in enumerate(world.brokers):
        number = rules.claims.call(broker.claims, claim_calls.shifted)[0]
        silent = min(broker.silent + 1, SESSION) if broker.link == CUT else 0
        world = with_broker(world, at, broker._replace(claims=number, silent=silent))
        heard = broker.link == UP and broker.noticed == KNOWN
        if heard or (broker.link == CUT and "lease-from-requests-sent" in rules.mutants):
            world = _renewed(rules, world, at)
        if not broker.frozen:
            world = tell_claims(rules, world, at, claim_calls.looked)
    return world
