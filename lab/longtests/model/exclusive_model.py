"""Model of an Exclusive subscription: an owner that accepts one consumer, and two brokers that may serve it.

An owner drops a silent consumer 5 s after another one subscribes (connectionLivenessCheckTimeoutMillis).
Mirrors OwnerLeases and Consumer._compare_cursor. Each broker has one client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from longtests.model import compare, lease_calls, serving
from longtests.model.machines import NONE, Machines
from longtests.model.search import Violation
from longtests.model.state import (
    AT_OWNER,
    AWAY,
    BACK,
    BEGINNING,
    CLOSED,
    CUT,
    NOT_ASKED,
    OUT,
    RETURNING,
    SERVED,
    THERE,
    UNANSWERED,
    UP,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from readonly_engine.owner.lease import OwnerLease

CLIENT: Final = 0
"""The one client of each broker."""

SILENT: Final = 1
"""Ticks of 5 s after which an owner drops a silent consumer."""


class Host(NamedTuple):
    """A broker with its client.

    Attributes:
        lease: its OwnerLease.
        serving: its Serving; NONE for none.
        stage: stage of the client's consumer.
        owner: stage of the consumer at the owner.
        link: the broker's link to the owner.
        silent: ticks since their last exchange.
        asked: ticks since its consumer was requested at the owner.
        refresh: the owner's answer to a repeated read of its cursor: NOT_ASKED, UNANSWERED, or entries.
        has: entries that the client has and has not acked.
        told: acked entries, by the owner's answer.
        away: how the consumer lost its owner.
        known: entries that it must not deliver: acked through it, or answered before it took over or resubscribed.
        stale: whether the owner has had another consumer since it took over.
    """

    lease: int
    serving: int = NONE
    stage: int = OUT
    owner: int = AWAY
    link: int = UP
    silent: int = 0
    asked: int = 0
    refresh: int = NOT_ASKED
    has: int = 0
    told: int = 0
    away: int = 0
    known: int = 0
    stale: int = 0


class ModelState(NamedTuple):
    """State of the Exclusive model.

    Attributes:
        holder: the broker whose consumer the owner has; NONE for none.
        acked: acked entries at the owner.
        hosts: the brokers.
        cuts: number of silent losses between a broker and the owner that are left.
        breaks: number of broken connections that are left.
        leaves: number of disconnects of clients that are left.
    """

    holder: int
    acked: int
    hosts: tuple[Host, ...]
    cuts: int
    breaks: int
    leaves: int


Step = tuple[str, ModelState]


class ExclusiveModel:
    """Two clients that compete for one Exclusive subscription.

    Args:
        name: for reports.
        entries: number of entries in the topic.
        cuts: number of silent losses between a broker and the owner.
        breaks: number of broken connections.
        leaves: number of disconnects of clients.
        mutants: former behaviour to restore.
    """

    def __init__(
        self, name: str, *, entries: int, cuts: int = 0, breaks: int = 0, leaves: int = 0, mutants: Iterable[str] = ()
    ) -> None:
        self.name = name
        self.entries = entries
        self._faults = cuts, breaks, leaves
        self._mutants = frozenset(mutants)
        self._leases: Machines[OwnerLease] = Machines()
        self._servings: Machines[serving.Serving] = Machines()

    def initial(self) -> ModelState:
        """Return a state without consumers."""
        return ModelState(NONE, 0, (Host(self._leases.begin(lease_calls.make)),) * 2, *self._faults)

    def steps(self, place: ModelState) -> Iterator[Step]:
        """Yield the possible next steps."""
        for at, host in enumerate(place.hosts):
            who = f"broker {'AB'[at]}"
            yield from self._comes(place, at, host, who)
            yield from self._serves(place, at, host, who)
            yield from self._returns(place, at, host, who)
            yield from self._breaks(place, at, host, who)
        if any(host.link == CUT or host.owner in {CLOSED, RETURNING, BACK} for host in place.hosts):
            yield "5 seconds pass", self._ticked(place)

    def canonical(self, place: ModelState) -> ModelState:
        """Return the lesser of the two states that differ in the brokers' names."""
        holder = NONE if place.holder == NONE else 1 - place.holder
        return min(place, place._replace(holder=holder, hosts=place.hosts[::-1]))

    def wrong(self, place: ModelState) -> str:
        """Return a violation if the owner replaced a silent consumer, and both brokers serve theirs."""
        served = [host for host in place.hosts if self._delivers(host)]
        silent = any(host.link == CUT and host.owner == CLOSED for host in served)
        return "two brokers serve an Exclusive subscription at once" if len(served) > 1 and silent else ""

    def done(self, place: ModelState) -> bool:
        """Return whether every entry is acked."""
        return place.acked == (1 << self.entries) - 1

    # Consumers join and leave

    def _comes(self, place: ModelState, at: int, host: Host, who: str) -> Iterator[Step]:
        if host.stage == OUT and host.link == UP and (taken := self._taken(place, at)) is not None:
            asked = host._replace(stage=AT_OWNER, owner=THERE, asked=0)
            yield f"the owner accepts {who}'s consumer", _with(taken, at, asked)
        elif host.stage == AT_OWNER and host.owner == THERE and host.link == UP:
            told = host._replace(stage=BEGINNING, told=place.acked, known=place.acked, stale=0)
            yield f"the owner answers {who} with the acked entries ({_shown(place.acked)})", _with(place, at, told)
        elif host.stage in {AT_OWNER, BEGINNING} and host.owner == CLOSED and host.link == UP:
            yield (
                f"{who} is notified that the owner has closed the consumer, which has to reconnect",
                self._left(place, at),
            )
        elif host.stage == BEGINNING and host.owner == THERE:
            begun = self._servings.begin(serving.Serving, self.entries, 1, host.told, True)
            begun = self._servings.call(begun, serving.add, CLIENT)[0]
            lease = self._leases.call(host.lease, lease_calls.subscribed, host.asked)[0]
            joined = host._replace(stage=SERVED, serving=begun, lease=lease, told=0, asked=0)
            yield f"the consumer joins the subscription at {who}", _with(place, at, joined)
        if host.stage != OUT and place.leaves:
            yield f"the client leaves {who}", self._left(place, at)._replace(leaves=place.leaves - 1)

    def _taken(self, place: ModelState, at: int) -> ModelState | None:
        """Subscribe a consumer at the owner; None if the owner keeps another one."""
        holder = place.holder
        if holder not in {NONE, at}:
            other = place.hosts[holder]
            if other.link == UP or other.silent < SILENT:
                return None
            place = _with(place, holder, other._replace(owner=CLOSED, away=other.away | compare.LOST))
        other = place.hosts[1 - at]
        if other.serving != NONE:
            place = _with(place, 1 - at, other._replace(stale=1))
        return place._replace(holder=at)

    def _left(self, place: ModelState, at: int) -> ModelState:
        host = place.hosts[at]
        holder = NONE if place.holder == at and host.link == UP else place.holder
        lease = self._leases.begin(lease_calls.make)
        return _with(place, at, Host(lease, link=host.link, silent=host.silent))._replace(holder=holder)

    # Delivery and acks

    def _serves(self, place: ModelState, at: int, host: Host, who: str) -> Iterator[Step]:
        if host.stage != SERVED:
            return
        if self._delivers(host):
            after, entry = self._servings.call(host.serving, serving.deliver, CLIENT)
            if entry >= 0:
                step = f"{who} delivers entry {entry}"
                if host.known >> entry & 1:
                    raise Violation(step, f"entry {entry} is delivered again after its ack was answered")
                yield step, _with(place, at, host._replace(serving=after, has=host.has | 1 << entry))
        elif host.link == UP and host.owner == THERE and not self._leases.call(host.lease, lease_calls.holds)[1]:
            lease = self._leases.call(host.lease, lease_calls.answered)[0]
            yield f"the owner answers a probe of {who}", _with(place, at, host._replace(lease=lease))
        for entry in serving.members(host.has):
            number = self._servings.call(host.serving, serving.ack_alone, CLIENT, entry)[0]
            has, known = host.has & ~(1 << entry), host.known | 1 << entry
            yield (
                f"the client of {who} acks entry {entry}",
                _with(place, at, host._replace(serving=number, has=has, known=known)),
            )
        if host.link == UP and host.owner == THERE:
            for entry in self._servings.ask(host.serving, serving.under_way_alone):
                number = self._servings.call(host.serving, serving.answered_alone, 1 << entry)[0]
                taken = _with(place, at, host._replace(serving=number))
                yield f"the owner accepts the ack of {entry} from {who}", taken._replace(acked=place.acked | 1 << entry)

    def _delivers(self, host: Host) -> bool:
        if host.stage != SERVED or host.refresh != NOT_ASKED:
            return False
        return "owner-lease-ignored" in self._mutants or bool(self._leases.call(host.lease, lease_calls.holds)[1])

    # Faults of the connection to the owner

    def _breaks(self, place: ModelState, at: int, host: Host, who: str) -> Iterator[Step]:
        if host.link == UP and place.cuts:
            yield (
                f"the link of {who} to the owner fails silently",
                _with(place, at, host._replace(link=CUT))._replace(cuts=place.cuts - 1),
            )
        if host.link == UP and host.owner == THERE and place.breaks:
            lost = host._replace(owner=CLOSED, away=host.away | compare.LOST)
            yield (
                f"the connection between {who} and the owner breaks",
                _with(place, at, lost)._replace(holder=NONE, breaks=place.breaks - 1),
            )
        if host.link == CUT:
            back = host._replace(link=UP, silent=0)
            holder = place.holder
            if host.owner == THERE:  # the connection is the same
                back = back._replace(lease=self._leases.call(host.lease, lease_calls.answered)[0])
            elif holder == at:  # the owner detects that the old connection is closed
                holder = NONE
            yield f"{who} reaches the owner again", _with(place, at, back)._replace(holder=holder)

    def _returns(self, place: ModelState, at: int, host: Host, who: str) -> Iterator[Step]:
        if host.stage != SERVED:
            return
        gives_up = host.owner == THERE and host.link == CUT and host.silent >= SILENT
        if gives_up or (host.owner == CLOSED and host.link == UP):
            lease = self._leases.call(host.lease, lease_calls.detached)[0]
            returning = host._replace(owner=RETURNING, lease=lease, away=host.away | compare.LOST)
            what = "gives up the connection to the owner" if gives_up else "is notified that its connection is closed"
            yield f"{who} {what}", _with(place, at, returning)
        elif host.owner == RETURNING and host.link == UP:
            taken = self._taken(place, at)
            if taken is None:
                yield f"the owner refuses {who}'s consumer, because it has another", self._left(place, at)
            else:
                back = host._replace(owner=BACK, told=place.acked)
                yield f"{who} subscribes its consumer again", _with(taken, at, back)
        elif host.owner == BACK and host.link == UP:
            yield self._compared(place, at, host, who)
        if host.refresh >= 0:
            number = self._servings.call(host.serving, compare.refresh, host.refresh, 1)[0]
            followed = host._replace(serving=number, refresh=NOT_ASKED)
            yield f"{who} adopts the owner's cursor, and resumes delivery", _with(place, at, followed)
        elif host.refresh == UNANSWERED and host.owner == THERE and host.link == UP:
            yield (
                f"the owner answers {who} with the acked entries ({_shown(place.acked)})",
                _with(place, at, host._replace(refresh=place.acked)),
            )

    def _compared(self, place: ModelState, at: int, host: Host, who: str) -> Step:
        away = ((CLIENT, host.away),)
        ledger = self._servings.ask(host.serving, compare.ledgers)
        number, (goes_on, again) = self._servings.call(
            host.serving, compare.compare, CLIENT, host.told, place.acked, 0, ledger, 1, away
        )
        assert not again, "the owner has lost nothing"
        if not goes_on:
            return f"{who} detects that the cursor was reset, and closes its consumer", self._left(place, at)
        refresh, known = host.refresh, host.known
        lapsed = self._leases.ask(host.lease, lease_calls.lapsed)
        if host.stale:
            known |= host.told
        within = serving.prefix_of(host.told) < self.entries and "no-refresh-within-lease" not in self._mutants
        if (lapsed or within) and "no-refresh-after-lapse" not in self._mutants:
            refresh = UNANSWERED
        lease = self._leases.call(host.lease, lease_calls.subscribed, 0)[0]
        back = host._replace(
            serving=number, owner=THERE, told=0, away=0, lease=lease, refresh=refresh, known=known, stale=0
        )
        return f"{who} keeps its copy of the cursor", _with(place, at, back)

    def _ticked(self, place: ModelState) -> ModelState:
        for at, host in enumerate(place.hosts):
            lease = host.lease
            if host.link == UP and host.owner == THERE and host.stage == SERVED:
                lease = self._leases.call(lease, lease_calls.answered)[0]
            else:
                lease = self._leases.call(lease, lease_calls.shifted)[0]
            silent = min(host.silent + 1, SILENT) if host.link == CUT else 0
            asked = min(host.asked + 1, 2) if host.stage in {AT_OWNER, BEGINNING} else 0
            place = _with(place, at, host._replace(lease=lease, silent=silent, asked=asked))
        return place


def _with(place: ModelState, at: int, host: Host) -> ModelState:
    hosts = (host, place.hosts[1]) if at == 0 else (place.hosts[0], host)
    return place._replace(hosts=hosts)


def _shown(entries: int) -> str:
    return ", ".join(str(entry) for entry in serving.members(entries)) or "none"
