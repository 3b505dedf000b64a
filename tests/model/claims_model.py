"""The model of claims, leases, ack relay and take-over of a Shared subscription: what can happen, and what never may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model import broker, claim_calls, owner, serving, store
from tests.model.broker import Rules, consumers_at, serves
from tests.model.machines import NONE
from tests.model.state import Broker, Client, Faults, Owner, Past, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BOTH = (0, 1)


class ClaimsModel:
    """Two clients of one Shared subscription, and brokers that serve it.

    Args:
        name: for reports.
        faults: what may go wrong, how often.
        entries: how many the topic has.
        brokers: how many there are.
        clients: how many there are.
        fine: whether an ack is collected, sent, taken and answered in steps of their own before the owner moves; else it is
            sent at once, and taken and answered in one step.
        homes: whether each client comes to one broker only, else to any.
        window: how many entries a client takes before it acks one.
        mutants: old behaviour that is put back.
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
        """Nobody is there."""
        begun = Broker(self.rules.claims.begin(claim_calls.make, self.rules.lease))
        return World(NONE, (begun,) * self._brokers, (Client(),) * self._clients, Owner(), self._faults, Past())

    def steps(self, world: World) -> Iterator[broker.Step]:
        """What can happen next."""
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
        """What is wrong with a state."""
        at_once = [
            at for at in range(len(world.brokers)) if serves(self.rules, world, at) and list(consumers_at(world, at))
        ]
        return "two brokers dispatch the subscription at once" if len(at_once) > 1 else ""

    def done(self, world: World) -> bool:
        """Every entry is acked."""
        return world.owner.acked == self.rules.all and not any(found.sent or found.replies for found in world.brokers)

    # Brokers are alike, and so are clients

    def canonical(self, world: World) -> World:
        """Of the states that differ in names only, the least."""
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
        """A broker whose clients have changed places."""
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
        """A client whose broker has changed places with the other."""
        moved = self._other_client[found] = found if found.at == NONE else found._replace(at=1 - found.at)
        return moved
