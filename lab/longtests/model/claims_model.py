"""Model of claims, leases, relayed acks and take-over of a Shared subscription: possible steps, and violations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtests.model import broker, claim_calls, owner, serving, store
from longtests.model.broker import Rules, consumers_at, serves
from longtests.model.machines import NONE
from longtests.model.state import Broker, Client, Faults, Owner, Past, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BOTH = (0, 1)


class ClaimsModel:
    """Two clients of one Shared subscription, and brokers that serve it.

    Args:
        name: for reports.
        faults: numbers of faults.
        entries: number of entries in the topic.
        brokers: number of brokers.
        clients: number of clients.
        fine: whether an ack is collected, sent, accepted and answered in separate steps before the owner moves; else it is sent
            at once, and accepted and answered in one step.
        homes: whether each client connects to one broker only, else to any.
        window: number of entries that a client takes before it acks one.
        mutants: former behaviour to restore.
    """

    def __init__(
        self,
        name: str,
        faults: Faults,
        *,
        entries: int = 3,
        brokers: int = 2,
        clients: int = 2,
        fine: bool = True,
        homes: bool = False,
        window: int = 3,
        mutants: Iterable[str] = (),
    ) -> None:
        self.name = name
        orderly = not (faults.cuts or faults.freezes or faults.at_owner)
        self.rules = Rules(entries, fine, homes, window, frozenset(mutants), orderly)
        self._faults = faults
        self._brokers = brokers
        self._clients = clients
        self._other_broker: dict[Broker, Broker] = {}
        self._other_client: dict[Client, Client] = {}

    def initial(self) -> World:
        """Return a world without consumers."""
        begun = Broker(self.rules.claims.begin(claim_calls.make, self.rules.lease))
        return World(NONE, (begun,) * self._brokers, (Client(),) * self._clients, Owner(), self._faults, Past())

    def steps(self, world: World) -> Iterator[broker.Step]:
        """Yield the possible next steps."""
        rules = self.rules
        yield from broker.deliveries(rules, world)
        yield from owner.acks(rules, world)
        yield from broker.arrivals(rules, world)
        yield from store.requests(rules, world)
        yield from store.sessions(rules, world)
        yield from owner.refreshes(rules, world)
        yield from owner.returns(rules, world)
        yield from broker.departures(rules, world)
        yield from broker.closings(rules, world)
        yield from owner.moves(world)
        yield from owner.ageing(rules, world)

    def wrong(self, world: World) -> str:
        """Return the violation of a state; empty for none."""
        at_once = [
            at for at in range(len(world.brokers)) if serves(self.rules, world, at) and list(consumers_at(world, at))
        ]
        return "two brokers dispatch the subscription at once" if len(at_once) > 1 else ""

    def done(self, world: World) -> bool:
        """Return whether every entry is acked."""
        return world.owner.acked == self.rules.all and not any(found.sent or found.replies for found in world.brokers)

    # Brokers are interchangeable, and so are clients

    def canonical(self, world: World) -> World:
        """Return the least of the states that differ in names only."""
        if self.rules.homes:
            return min(world, self._brokers_exchanged(self._clients_exchanged(world)))
        worlds = [world]
        if len(world.clients) > 1:
            worlds.append(self._clients_exchanged(world))
        if len(world.brokers) > 1:
            worlds += [self._brokers_exchanged(one) for one in worlds]
        return min(worlds)

    def _clients_exchanged(self, world: World) -> World:
        brokers = tuple([self._other_broker.get(found) or self._exchange(found) for found in world.brokers])
        return World(world.node, brokers, world.clients[::-1], world.owner, world.faults, world.past)

    def _exchange(self, found: Broker) -> Broker:
        """Return a broker with its clients exchanged."""
        rules = self.rules
        exchanged = self._other_broker[found] = found._replace(
            claims=rules.claims.call(found.claims, claim_calls.exchanged)[0],
            serving=NONE if found.serving == NONE else rules.servings.call(found.serving, serving.exchanged)[0],
            sent=tuple((number, entries, 1 - by) for number, entries, by in found.sent),
        )
        return exchanged

    def _brokers_exchanged(self, world: World) -> World:
        clients = tuple([self._other_client.get(found) or self._elsewhere(found) for found in world.clients])
        node = NONE if world.node == NONE else 1 - world.node
        return World(node, world.brokers[::-1], clients, world.owner, world.faults, world.past)

    def _elsewhere(self, found: Client) -> Client:
        """Return a client with its broker exchanged for the other."""
        moved = self._other_client[found] = found if found.at == NONE else found._replace(at=1 - found.at)
        return moved
