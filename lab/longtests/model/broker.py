"""Actions of a read-only broker in the model: the shells around Claims and Serving, as small as possible.

Mirrors Claiming (hold, leave, _do), admit, Broker._claim_changed, TopicRegistry.join and leave,
ClientConsumer.close_for_resubscribe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_engine.broker.pool.claims import NO_EPOCH, ActionKind
from readonly_engine.broker.subscription.pause import Pause
from readonly_engine.metadata.lease import SESSION_TIMEOUT_S

from longtests.model import claim_calls, serving
from longtests.model.machines import NONE, Machines
from longtests.model.search import Violation
from longtests.model.state import (
    AT_OWNER,
    BEGINNING,
    CLOSED,
    CLOSING,
    CREATE,
    GRANTED,
    IDLE,
    NOT_ASKED,
    OUT,
    RELEASE,
    SERVED,
    THERE,
    UNANSWERED,
    WAITING,
    Client,
    with_broker,
    with_client,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from readonly_engine.broker.pool.claims import ClaimAction, Claims

    from longtests.model.state import World

BROKERS = "AB"
Step = tuple[str, "World"]


@dataclass
class Rules:
    """Settings of a model, and the states of its machines.

    Attributes:
        entries: number of entries in the topic.
        fine: whether acks take separate steps, while faults of the owner are left.
        homes: whether each client connects to one broker only, else to any.
        window: number of entries that a client takes before it acks one.
        mutants: names of former behaviour to restore.
        orderly: whether no session ends: then no ack is under way when another broker starts to serve.
        claims: the states of Claims.
        servings: the states of Serving.
    """

    entries: int
    fine: bool = True
    homes: bool = False
    window: int = 3
    mutants: frozenset[str] = frozenset()
    orderly: bool = False
    claims: Machines[Claims] = field(default_factory=Machines)
    servings: Machines[serving.Serving] = field(default_factory=Machines)

    @property
    def lease(self) -> float:
        """Duration of a lease, in seconds."""
        return SESSION_TIMEOUT_S if "lease-as-long-as-session" in self.mutants else claim_calls.LEASE_S

    @property
    def all(self) -> int:
        """Every entry."""
        return (1 << self.entries) - 1


def name(client: int) -> str:
    """Return a client's name in reports."""
    return f"client {client + 1}"


# Claims, as in ClaimStore and Broker


def tell_claims(rules: Rules, world: World, at: int, call: Callable[..., object], *args: object) -> World:
    """Call the Claims of a broker, and perform the actions that it returns."""
    number, actions = rules.claims.call(world.brokers[at].claims, call, *args)
    world = with_broker(world, at, world.brokers[at]._replace(claims=number))
    for action in actions or ():
        world = _do(rules, world, at, action)
    return _with_epochs_from_one(rules, world, at)


def _do(rules: Rules, world: World, at: int, action: ClaimAction) -> World:
    broker = world.brokers[at]
    served = broker.serving != NONE
    match action.kind:
        case ActionKind.CLAIM | ActionKind.RELEASE:
            assert broker.request == IDLE, "two requests for one claim are under way"
            broker = broker._replace(request=CREATE if action.kind == ActionKind.CLAIM else RELEASE)
        case ActionKind.SUSPEND if served:
            broker = broker._replace(paused=broker.paused | Pause.LEASE)
        case ActionKind.RESUME if served:
            broker = broker._replace(paused=broker.paused & ~Pause.LEASE)
        case ActionKind.REFRESH if served and "old-copy-goes-on" in rules.mutants:
            broker = broker._replace(paused=broker.paused & ~Pause.LEASE)
        case ActionKind.REFRESH if served:
            broker = broker._replace(paused=(broker.paused | Pause.STALE) & ~Pause.LEASE, refresh=UNANSWERED)
        case ActionKind.REVOKE:
            for client in list(consumers_at(world, at)):
                world = leave(rules, world, client)
            broker = world.brokers[at]
    world = with_broker(world, at, broker)
    for client in action.waiters:
        if action.kind == ActionKind.GRANT:
            found = world.clients[client]
            world = with_client(world, client, found._replace(stage=GRANTED, valid=1))
        else:  # REDIRECT: it gets an address, and may connect to any broker; RETRY: it tries again
            world = leave(rules, world, client)
    return world


def _with_epochs_from_one(rules: Rules, world: World, at: int) -> World:
    """Reduce epochs to their validity: Claims.is_valid."""
    broker = world.brokers[at]
    now = rules.claims.ask(broker.claims, claim_calls.epoch)
    if now != claim_calls.FIRST_EPOCH:
        number = rules.claims.call(broker.claims, claim_calls.epochs_from_one)[0]
        world = with_broker(world, at, broker._replace(claims=number))
    if now == NO_EPOCH:
        for client, found in enumerate(world.clients):
            if found.at == at and found.valid:
                world = with_client(world, client, found._replace(valid=0))
    return world


# Consumers join and leave


def arrivals(rules: Rules, world: World) -> Iterator[Step]:
    """Yield the steps of consumers to their subscription: admit, and TopicRegistry.join."""
    for client, found in enumerate(world.clients):
        at, broker = found.at, world.brokers[found.at]
        if found.stage == OUT:
            for to, host in enumerate(world.brokers):
                if host.frozen or (rules.homes and to != client):
                    continue
                waiting = with_client(world, client, Client(at=to, stage=WAITING))
                yield (
                    f"{name(client)} connects to broker {BROKERS[to]}",
                    tell_claims(rules, waiting, to, claim_calls.want, client),
                )
        elif broker.frozen:
            continue
        elif found.stage == GRANTED:
            yield (
                f"broker {BROKERS[at]} subscribes {name(client)}'s consumer at the owner",
                with_client(world, client, found._replace(stage=AT_OWNER, owner=THERE)),
            )
        elif found.stage == AT_OWNER and not any(
            other.at == at and other.stage == BEGINNING for other in world.clients
        ):
            if broker.serving != NONE:
                yield _join(rules, world, client)
            else:
                if "begins-before-acks-are-taken" not in rules.mutants and any(
                    other.at == at and other.stage == CLOSING for other in world.clients
                ):
                    continue  # LeavingConsumers.wait_for_none
                told, known = world.owner.acked, world.past.answered
                if rules.orderly:
                    known |= under_way(world)
                step = (
                    f"the owner answers broker {BROKERS[at]} with the acked entries ({shown(told)}), for {name(client)}"
                )
                asked = with_broker(world, at, broker._replace(known=known, stale=0))
                yield step, with_client(asked, client, found._replace(stage=BEGINNING, told=told))
        elif found.stage == BEGINNING:
            yield _join(rules, world, client)


def _join(rules: Rules, world: World, client: int) -> Step:
    found = world.clients[client]
    at, broker = found.at, world.brokers[found.at]
    step = f"{name(client)}'s consumer joins the subscription at broker {BROKERS[at]}"
    if found.owner != THERE:  # Consumer.in_sync
        return f"{step}, and has to reconnect", leave(rules, world, client)
    if not found.valid and "revoke-misses-arrivals" not in rules.mutants:  # Claims.is_valid
        return f"{step}, and has to reconnect: the claim was lost meanwhile", leave(rules, world, client)
    if broker.serving == NONE:
        begun = rules.servings.begin(serving.Serving, rules.entries, world.owner.ledgers, found.told)
        world = with_broker(world, at, broker._replace(serving=begun, paused=0, refresh=NOT_ASKED))
    world = call_serving(rules, world, at, serving.add, client)
    if rules.claims.ask(broker.claims, claim_calls.suspended):
        now = world.brokers[at]
        world = with_broker(world, at, now._replace(paused=now.paused | Pause.LEASE))
    return step, with_client(world, client, found._replace(stage=SERVED, told=0))


def departures(rules: Rules, world: World) -> Iterator[Step]:
    """Yield disconnects by clients."""
    if not world.faults.leaves:
        return
    for client, found in enumerate(world.clients):
        if found.stage not in {OUT, CLOSING} and not world.brokers[found.at].frozen:
            left = leave(rules, world, client)
            faults = left.faults._replace(leaves=left.faults.leaves - 1)
            yield f"{name(client)} leaves broker {BROKERS[found.at]}", left._replace(faults=faults)


def leave(rules: Rules, world: World, client: int) -> World:
    """Remove a consumer whose client has left or has to reconnect: ClientConsumer.unregister and close."""
    found = world.clients[client]
    at = found.at
    if found.stage == SERVED:
        world = call_serving(rules, world, at, serving.remove, client)
        if not any(other.at == at and other.stage == SERVED for o, other in enumerate(world.clients) if o != client):
            broker = world.brokers[at]
            orphans = tuple((0, entries, by) for _, entries, by in broker.sent)
            replies = tuple((0, entries) for _, entries in broker.replies)
            world = with_broker(
                world,
                at,
                broker._replace(
                    serving=NONE, paused=0, refresh=NOT_ASKED, sent=orphans, replies=replies, known=0, stale=0
                ),
            )
    if "claim-goes-before-acks" not in rules.mutants and any(by == client for _, _, by in world.brokers[at].sent):
        return with_client(world, client, Client(at=at, stage=CLOSING))
    return _release(rules, world, client)


def _release(rules: Rules, world: World, client: int) -> World:
    """Release the claim after the owner has accepted all acks of a consumer: ClientConsumer._on_closed."""
    at = world.clients[client].at
    return tell_claims(rules, with_client(world, client, Client()), at, claim_calls.left, client)


def closings(rules: Rules, world: World) -> Iterator[Step]:
    """Yield the owner's answers to CLOSE_CONSUMER of consumers that have left; answers to their acks precede them."""
    for client, found in enumerate(world.clients):
        if found.stage == CLOSING and not world.brokers[found.at].frozen:
            at = found.at
            if not any(by == client for _, _, by in world.brokers[at].sent):
                yield (
                    f"broker {BROKERS[at]} receives the answer that {name(client)}'s consumer is closed",
                    _release(rules, world, client),
                )


def under_way(world: World) -> int:
    """Return the entries whose acks are on their way to the owner."""
    entries = 0
    for found in world.brokers:
        for _, acked, _ in found.sent:
            entries |= acked
    return entries


# Delivery and acks: Subscription


def deliveries(rules: Rules, world: World) -> Iterator[Step]:
    """Yield deliveries of entries to clients, and their acks."""
    for client, found in enumerate(world.clients):
        if found.stage != SERVED or world.brokers[found.at].frozen:
            continue
        at, broker = found.at, world.brokers[found.at]
        if found.has.bit_count() < rules.window and serves(rules, world, at):
            after, entry = rules.servings.call(broker.serving, serving.deliver, client)
            if entry >= 0:
                step = f"broker {BROKERS[at]} delivers entry {entry} to {name(client)}"
                if broker.known >> entry & 1:
                    raise Violation(step, f"entry {entry} is delivered again after its ack was answered")
                taken = with_broker(world, at, broker._replace(serving=after))
                yield step, with_client(taken, client, found._replace(has=found.has | 1 << entry))
        for entry in serving.members(found.has):
            acked = with_client(world, client, found._replace(has=found.has & ~(1 << entry)))
            after, known = rules.servings.call(broker.serving, serving.ack, client, entry)
            acked = with_broker(acked, at, broker._replace(serving=after, known=broker.known | 1 << entry))
            if not known:
                alone = acked.brokers[at]
                after = rules.servings.call(after, serving.ack_alone, client, entry)[0]
                sent = (*alone.sent, (0, 1 << entry, client)) if found.owner == THERE else alone.sent
                acked = with_broker(acked, at, alone._replace(serving=after, sent=sent))
            if not (rules.fine and world.faults.at_owner):
                acked = call_serving(rules, acked, at, serving.take)
            past = acked.past
            past = past._replace(acked=past.acked | 1 << entry, undone=past.undone & ~(1 << entry))
            yield f"{name(client)} acks entry {entry}", acked._replace(past=past)
    for at, broker in enumerate(world.brokers):
        if broker.serving != NONE and not broker.frozen:
            flushed = call_serving(rules, world, at, serving.take)
            if flushed is not world:
                yield f"broker {BROKERS[at]} sends the acks that it has collected", flushed


def call_serving(rules: Rules, world: World, at: int, function: Callable[..., object], *args: object) -> World:
    """Call the Serving of a broker, and put its commands on their way to the owner."""
    before = world.brokers[at]
    number, commands = rules.servings.call(before.serving, function, *args)
    broker = before._replace(serving=number)
    for command in commands or ():
        if world.clients[command[2]].owner != CLOSED:  # else the owner no longer knows the consumer
            broker = broker._replace(sent=(*broker.sent, command))
    number, order = rules.servings.call(broker.serving, serving.renumbered)
    if number != broker.serving:
        now = {old: new for new, old in enumerate(order, 1)}
        sent = tuple((now.get(old, 0), entries, by) for old, entries, by in broker.sent)
        replies = tuple((now.get(old, 0), entries) for old, entries in broker.replies)
        broker = broker._replace(serving=number, sent=sent, replies=replies)
    return world if broker == before else with_broker(world, at, broker)


def shown(entries: int) -> str:
    """Return a set of entries as text."""
    return ", ".join(str(entry) for entry in serving.members(entries)) or "none"


def serves(rules: Rules, world: World, at: int) -> bool:
    """Return whether a broker would deliver: LeaseGuard.check_due, then the reasons for which a subscription pauses."""
    broker = world.brokers[at]
    if broker.serving == NONE or broker.paused or broker.frozen:
        return False
    return "lease-by-timer-only" in rules.mutants or not rules.claims.call(broker.claims, claim_calls.looked)[1]


def consumers_at(world: World, at: int) -> Iterable[int]:
    """Yield the clients whose consumers a broker serves."""
    return (client for client, found in enumerate(world.clients) if found.at == at and found.stage == SERVED)
