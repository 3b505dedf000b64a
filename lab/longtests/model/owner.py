"""The owner in the model: it confirms acks before it stores them; unloads, crashes and resets.

Mirrors the connection of a broker to the owner: OwnerConsumer, and its reconnect after a move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.broker.subscription.pause import Pause

from longtests.model import compare, mutants, serving
from longtests.model.broker import BROKERS, call_serving, consumers_at, leave, name, shown
from longtests.model.machines import NONE
from longtests.model.search import Violation
from longtests.model.state import (
    AT_OWNER,
    BACK,
    CLOSED,
    NOT_ASKED,
    RETURNING,
    SERVED,
    THERE,
    Client,
    with_broker,
    with_client,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from longtests.model.broker import Rules, Step
    from longtests.model.state import Owner, World


def acks(rules: Rules, world: World) -> Iterator[Step]:
    """Yield the arrival of acks at the owner, and of its answers at the brokers."""
    for at, broker in enumerate(world.brokers):
        if broker.sent:
            (number, entries, by), rest = broker.sent[0], broker.sent[1:]
            step = f"the owner accepts the ack of {shown(entries)} from broker {BROKERS[at]}"
            if entries & ~world.past.acked:
                raise Violation(step, f"entry {shown(entries & ~world.past.acked)} was acked by no client")
            if entries & world.past.undone:
                undone = shown(entries & world.past.undone)
                raise Violation(step, f"the reset is undone: entry {undone} was acked long before it")
            del by
            took = world._replace(owner=world.owner._replace(acked=world.owner.acked | entries))
            replies = (*broker.replies, (number, entries))
            took = with_broker(took, at, broker._replace(sent=rest, replies=replies))
            yield step, took if rules.fine and world.faults.at_owner else _answered(rules, took, at)
        if broker.replies and not broker.frozen:
            entries = broker.replies[0][1]
            yield (
                f"broker {BROKERS[at]} receives the answer to the ack of {shown(entries)}",
                _answered(rules, world, at),
            )
    if world.faults.crashes and world.owner.stored != world.owner.acked:
        yield (
            "the owner stores the cursor",
            world._replace(owner=world.owner._replace(stored=world.owner.acked, written=1)),
        )


def _answered(rules: Rules, world: World, at: int) -> World:
    """Return the world after a broker has received an answer of the owner."""
    broker = world.brokers[at]
    (number, entries), later = broker.replies[0], broker.replies[1:]
    past = world.past._replace(answered=world.past.answered | (entries & world.owner.acked))
    world = with_broker(world, at, broker._replace(replies=later))._replace(past=past)
    if broker.serving != NONE:
        if number:
            world = call_serving(rules, world, at, serving.answered, number, bool(world.faults.crashes))
        else:
            world = call_serving(rules, world, at, serving.answered_alone, entries)
    return world


def moves(world: World) -> Iterator[Step]:
    """Yield an unload of the topic, a crash of the owner, and a reset of the cursor."""
    owner, faults = world.owner, world.faults
    if faults.unloads:
        there = owner._replace(stored=owner.acked, ledgers=owner.ledgers + 1, written=0)
        moved = _closed(world, there, compare.SENT_AWAY)
        yield (
            "the topic is unloaded and has a new owner",
            moved._replace(faults=faults._replace(unloads=faults.unloads - 1)),
        )
    if faults.crashes:
        there = owner._replace(acked=owner.stored, ledgers=owner.ledgers + 1, written=0)
        moved = _closed(world, there, compare.LOST)
        brokers = tuple(broker._replace(replies=()) for broker in moved.brokers)
        past = world.past._replace(answered=world.past.answered & owner.stored)
        yield (
            "the owner dies, and another takes over",
            moved._replace(brokers=brokers, past=past, faults=faults._replace(crashes=faults.crashes - 1)),
        )
    if faults.resets and owner.acked:
        past = world.past
        past = past._replace(answered=0, settled=0, undone=past.settled)
        yield (
            "an administrator resets the cursor to the first entry",
            _closed(
                world._replace(brokers=tuple(broker._replace(known=0) for broker in world.brokers)),
                owner._replace(acked=0, stored=0, written=1),
                compare.SENT_AWAY,
            )._replace(past=past, faults=faults._replace(resets=faults.resets - 1)),
        )


def ageing(rules: Rules, world: World) -> Iterator[Step]:
    """Yield the passing of some seconds: answered acks are stored, and become old."""
    past = world.past
    if world.faults.resets and past.settled != past.answered:
        owner = world.owner
        if owner.stored != owner.acked:
            owner = owner._replace(stored=owner.acked, written=1)
        aged = world._replace(owner=owner, past=past._replace(settled=past.answered))
        for at, broker in enumerate(world.brokers):
            if broker.serving != NONE:
                aged = call_serving(rules, aged, at, serving.aged)
        yield "some seconds pass", aged


def _closed(world: World, owner: Owner, how: int) -> World:
    """Close all consumers at the owner: it does not know the consumers of acks that arrive later."""
    clients = tuple(
        client._replace(owner=CLOSED, away=client.away | how) if client.owner in {THERE, BACK} else client
        for client in world.clients
    )
    brokers = tuple(broker._replace(sent=()) for broker in world.brokers)
    return world._replace(owner=owner, clients=clients, brokers=brokers)


def returns(rules: Rules, world: World) -> Iterator[Step]:
    """Yield the reconnects of closed consumers to the owner: OwnerConsumer._resubscribe, Consumer._compare_cursor.

    A connection keeps the order: a broker receives the answers that the owner gave before it closed the consumers first.
    """
    closed = {found.at for found in world.clients if found.owner == CLOSED}
    for client, found in enumerate(world.clients):
        at, broker = found.at, world.brokers[found.at]
        of = f"{name(client)}'s consumer"
        if broker.frozen or (at in closed and (found.owner != CLOSED or broker.replies)):
            continue
        if found.owner == CLOSED:
            step = f"broker {BROKERS[at]} is notified that the owner has closed {of}"
            if found.stage == AT_OWNER:  # its query gets no answer
                yield step, leave(rules, world, client)
            elif found.stage == SERVED:
                ledgers = rules.servings.ask(broker.serving, compare.ledgers)
                heard = with_client(world, client, found._replace(owner=RETURNING, ledgers=ledgers))
                yield step, call_serving(rules, heard, at, serving.detached, client)
        elif found.owner == RETURNING:
            told = world.owner.acked
            back = with_client(world, client, found._replace(owner=BACK, told=told))
            if rules.fine:
                acked = shown(told)
                yield f"broker {BROKERS[at]} subscribes {of} again, and gets the cursor's position ({acked})", back
            else:
                yield _compared(rules, back, client, of)
        elif found.owner == BACK:
            yield _compared(rules, world, client, of)


def refreshes(rules: Rules, world: World) -> Iterator[Step]:
    """Yield reads of the owner's cursor after another broker may have had the claim: Subscription.refresh."""
    for at, broker in enumerate(world.brokers):
        if broker.frozen or broker.refresh == NOT_ASKED:
            continue
        if broker.refresh >= 0:
            number = rules.servings.call(broker.serving, compare.refresh, broker.refresh, world.owner.ledgers)[0]
            paused = broker.paused & ~Pause.STALE
            yield (
                f"broker {BROKERS[at]} adopts the owner's cursor, and resumes delivery",
                with_broker(world, at, broker._replace(serving=number, refresh=NOT_ASKED, paused=paused)),
            )
        elif any(found.at == at and found.stage == SERVED and found.owner == THERE for found in world.clients):
            told = world.owner.acked
            yield (
                f"the owner answers broker {BROKERS[at]} with the acked entries ({shown(told)})",
                with_broker(world, at, broker._replace(refresh=told)),
            )


def _compared(rules: Rules, world: World, client: int, of: str) -> Step:
    found = world.clients[client]
    at, owner = found.at, world.owner
    call = mutants.compare_by_ledger if "acks-sent-again-after-any-move" in rules.mutants else compare.compare
    away = tuple((one, world.clients[one].away) for one in consumers_at(world, at))
    asked = (client, found.told, owner.acked, owner.written, found.ledgers, owner.ledgers, away)
    number, (goes_on, again) = rules.servings.call(world.brokers[at].serving, call, *asked)
    world = with_broker(world, at, world.brokers[at]._replace(serving=number))
    if not goes_on:
        for one, _ in away:
            world = leave(rules, world, one)
        return f"broker {BROKERS[at]} detects that the cursor was reset, and closes its consumers", world
    world = with_client(world, client, Client(at=at, stage=SERVED, has=found.has, owner=THERE))
    world = call_serving(rules, world, at, serving.went_on, client)
    if again:
        return f"broker {BROKERS[at]} acks {shown(again)} again, because the owner lost the acks", world
    return f"broker {BROKERS[at]} keeps its copy of the cursor, for {of}", world
