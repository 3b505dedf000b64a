"""Model of a split subscription: two brokers serve one Shared subscription, and one of them leases the entries.

The claim is in ZooKeeper. Its broker is the coordinator until its session's lease ends; ZooKeeper removes the claim later.
A broker that has to begin again closes its client, which comes back with nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from longtests.model import split_calls as calls
from longtests.model.machines import NONE, Machines
from longtests.model.search import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from readonly_engine.broker.split.leases import Grant, Report

CLAIM_TICKS: Final = 2
"""Ticks for which a claim counts after the last answer of ZooKeeper."""

SESSION_TICKS: Final = 3
"""Ticks after which ZooKeeper removes the claim of a silent broker."""

NOT_READ: Final = -1

FOR_EVER: Final = 2


class Host(NamedTuple):
    """A broker with its client.

    Attributes:
        machine: its SplitHost.
        alive: whether its process runs.
        silent: ticks since the last exchange with ZooKeeper; 0 while the session is confirmed.
        still: whether its process stands still; FOR_EVER if it does not go on.
        cut: whether its link to ZooKeeper is cut.
        joined: whether it is a member at the other broker.
        has: entries that its client has and has not acked.
        sent: acks on their way to the owner.
        reading: the owner's cursor on its way to the coordinator here; NOT_READ for none.
        resigning: whether the coordinator here stops, and waits for the leases of the others.
        reports: reports on their way to the other broker.
        grants: grants on their way to this broker, from the other one.
    """

    machine: int
    alive: int = 1
    silent: int = 0
    still: int = 0
    cut: int = 0
    joined: int = 0
    has: int = 0
    sent: int = 0
    reading: int = NOT_READ
    resigning: int = 0
    reports: tuple[Report, ...] = ()
    grants: tuple[Grant, ...] = ()


class SplitState(NamedTuple):
    """State of the model.

    Attributes:
        node: the broker whose claim is in ZooKeeper; NONE for none.
        epoch: number of claims so far.
        owner: acked entries at the owner.
        hosts: the brokers.
        linked: whether the brokers can exchange messages.
        deaths: number of deaths of a coordinator that are left.
        cuts: number of cuts between a broker and ZooKeeper that are left.
        breaks: number of broken connections between the brokers that are left.
        moves: number of moves of the owner that are left.
        stalls: number of times that the process of a broker may stand still, with its connections.
        leaves: number of times that the last client of a broker may leave; no fault.
        acked: entries that a client has acked.
        late: entries whose acks were under way when a coordinator read the owner's cursor.
        faulty: whether there was a fault.
    """

    node: int
    epoch: int
    owner: int
    hosts: tuple[Host, ...]
    linked: int = 1
    deaths: int = 0
    cuts: int = 0
    breaks: int = 0
    moves: int = 0
    stalls: int = 0
    leaves: int = 0
    acked: int = 0
    late: int = 0
    faulty: int = 0


Step = tuple[str, SplitState]


class SplitModel:
    """Two brokers, one consumer at each.

    Args:
        name: for reports.
        entries: number of entries in the topic.
        deaths: number of deaths of a coordinator.
        cuts: number of cuts between a broker and ZooKeeper.
        breaks: number of broken connections between the brokers.
        moves: number of moves of the owner.
        stalls: number of times that the process of a broker stands still.
        leaves: number of times that the last client of a broker leaves.
        mutants: mistakes to make.
    """

    def __init__(
        self,
        name: str,
        *,
        entries: int,
        deaths: int = 0,
        cuts: int = 0,
        breaks: int = 0,
        moves: int = 0,
        stalls: int = 0,
        leaves: int = 0,
        mutants: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.entries = entries
        self._faults = {
            "deaths": deaths,
            "cuts": cuts,
            "breaks": breaks,
            "moves": moves,
            "stalls": stalls,
            "leaves": leaves,
        }
        self._mutants = frozenset(mutants)
        self._machines: Machines[calls.SplitHost] = Machines()

    def initial(self) -> SplitState:
        """Return two brokers without a coordinator."""
        return SplitState(NONE, 0, 0, (Host(self._new(0)), Host(self._new(0))), **self._faults)

    def canonical(self, at: SplitState) -> SplitState:
        """Return the state: the machines know the brokers' names."""
        return at

    def wrong(self, at: SplitState) -> str:
        """Return a violation if a broker takes an entry for acked that no client has acked."""
        for host in at.hosts:
            if host.alive and self._ask(host, calls.acked_here) & ~at.acked:
                return "an entry is skipped: a broker takes it for acked, and no client has acked it"
        return ""

    def done(self, at: SplitState) -> bool:
        """Return whether every entry is acked."""
        return at.owner == (1 << self.entries) - 1

    def steps(self, at: SplitState) -> Iterator[Step]:
        """Yield the possible next steps; none at the end, after which nothing can go wrong."""
        if self.done(at):
            return
        for x, host in enumerate(at.hosts):
            who = f"broker {'AB'[x]}"
            if host.still == 1:
                yield f"{who} goes on", self._timed(_with(at, x, host._replace(still=0)), x)
            if not host.alive or host.still:
                continue
            yield from self._claims(at, x, host, who)
            yield from self._coordinates(at, x, host, who)
            yield from self._serves(at, x, host, who)
            yield from self._talks(at, x, host, who)
        yield from self._breaks(at)
        if self._time_matters(at):
            yield "2.5 seconds pass", self._ticked(at)

    # The claim

    def _claims(self, at: SplitState, x: int, host: Host, who: str) -> Iterator[Step]:
        coordinates = self._coordinating(host)
        if (
            at.node == NONE
            and not host.cut
            and not coordinates
            and not host.joined
            and not self._ask(host, calls.epoch_of)
        ):
            machine = self._machines.begin(calls.SplitHost, self.entries, at.owner)
            machine = self._machines.call(machine, calls.coordinate, at.epoch + 1, "AB"[x])[0]
            yield (
                f"{who} claims the subscription, and reads the owner's cursor",
                _with(at, x, host._replace(machine=machine, has=0, silent=0, reading=NOT_READ))._replace(
                    node=x, epoch=at.epoch + 1, late=_under_way(at)
                ),
            )
        if coordinates and at.node != x:
            yield f"{who} learns that its claim has ended", self._begin_again(at, x)
        if host.cut and at.node != x and not coordinates:
            yield f"{who} reaches ZooKeeper again", _with(at, x, host._replace(cut=0, silent=0))

    # The coordinator

    def _coordinates(self, at: SplitState, x: int, host: Host, who: str) -> Iterator[Step]:
        if not self._coordinating(host):
            return
        other = 1 - x
        if host.resigning:
            yield from self._resigns(at, x, host, who)
        elif self._claim_counts(host):
            valid = (CLAIM_TICKS - host.silent) * calls.TICK_S
            machine, found = self._machines.call(host.machine, calls.grants, valid)
            grants = dict(found)
            if grants and len(at.hosts[other].grants) < 2:
                after = _with(at, x, host._replace(machine=machine))
                text = ", ".join(f"{name}: {_shown(calls.entries_of(grant))}" for name, grant in found)
                if (own := grants.get("AB"[x])) is not None:
                    after = self._granted(after, x, own)
                if (theirs := grants.get("AB"[other])) is not None:
                    away = after.hosts[other]
                    after = _with(after, other, away._replace(grants=(*away.grants, theirs)))
                yield f"{who} grants ({text})", after
        if self._ask(host, calls.needs_cursor) and host.reading == NOT_READ:
            machine = self._machines.call(host.machine, calls.reading_cursor)[0]
            yield (
                f"the owner answers {who} with the acked entries ({_shown(at.owner)})",
                _with(at, x, host._replace(machine=machine, reading=at.owner))._replace(late=_under_way(at)),
            )
        if host.reading != NOT_READ:
            machine = self._machines.call(host.machine, calls.cursor_read, host.reading)[0]
            yield f"{who} has read the owner's cursor", _with(at, x, host._replace(machine=machine, reading=NOT_READ))

    def _resigns(self, at: SplitState, x: int, host: Host, who: str) -> Iterator[Step]:
        other = at.hosts[1 - x]
        if self._ask(host, calls.may_resign) or "resigns-at-once" in self._mutants:
            yield f"{who} gives the claim back", self._begin_again(at, x)
        if other.alive and other.joined and at.linked and not other.grants:
            after = self._begin_again(at, 1 - x)
            machine = self._machines.call(after.hosts[x].machine, calls.leave, "BA"[x])[0]
            after = _with(after, x, after.hosts[x]._replace(machine=machine))
            yield f"broker {'BA'[x]} learns that the coordinator stops", after

    # Consumers

    def _serves(self, at: SplitState, x: int, host: Host, who: str) -> Iterator[Step]:
        coordinating = self._coordinating(host)
        ended = self._ask(host, calls.expired) or (coordinating and not self._claim_counts(host))
        if "goes-on-after-its-lease" in self._mutants and not coordinating:
            ended = False
        if at.leaves and not host.resigning and (host.joined or coordinating):
            left = at._replace(leaves=at.leaves - 1)
            left = _with(left, x, host._replace(resigning=1)) if coordinating else self._begin_again(left, x)
            yield f"the client of {who} leaves", left
        if ended and coordinating:
            if not host.resigning:
                yield f"{who} stops to be the coordinator", _with(at, x, host._replace(resigning=1))
        elif ended:
            yield f"{who} begins again: its lease has ended", self._begin_again(at, x)
        elif not host.resigning:
            machine, entry = self._machines.call(host.machine, calls.deliver)
            if entry >= 0:
                step = f"{who} delivers entry {entry}"
                self._judge(at, x, entry, step)
                yield step, _with(at, x, host._replace(machine=machine, has=host.has | 1 << entry))
        for entry in _members(host.has):
            machine = self._machines.call(host.machine, calls.ack, entry)[0]
            acked = host._replace(machine=machine, has=host.has & ~(1 << entry), sent=host.sent | 1 << entry)
            late = at.late | (1 << entry if ended else 0)
            yield (
                f"the client of {who} acks entry {entry}",
                _with(at, x, acked)._replace(acked=at.acked | 1 << entry, late=late),
            )
        if host.sent:
            yield (
                f"the owner gets the acks of {who}",
                _with(at, x, host._replace(sent=0))._replace(owner=at.owner | host.sent),
            )

    def _judge(self, at: SplitState, x: int, entry: int, step: str) -> None:
        other = at.hosts[1 - x]
        if other.alive and other.has >> entry & 1 and not self._ask(other, calls.expired):
            raise Violation(step, f"entry {entry} is with two brokers at once")
        if (at.owner & ~at.late) >> entry & 1:
            raise Violation(step, f"entry {entry} is delivered again after its ack was answered")
        if (at.acked & ~at.late) >> entry & 1 and not at.faulty:
            raise Violation(step, f"entry {entry} is delivered twice without a fault")

    # Between the brokers

    def _talks(self, at: SplitState, x: int, host: Host, who: str) -> Iterator[Step]:
        other = at.hosts[1 - x]
        unanswered = 0 if "reports-unanswered-acks" in self._mutants else host.sent
        machine, report = self._machines.call(host.machine, calls.report, unanswered)
        if self._coordinating(host):
            if report is not None:
                machine = self._machines.call(machine, calls.receive_report, "AB"[x], report)[0]
                yield f"{who} reports to itself", _with(at, x, host._replace(machine=machine))
        elif host.joined:
            if report is not None and not host.reports:
                yield f"{who} reports", _with(at, x, host._replace(machine=machine, reports=(report,)))
            if other.still and not self._ask(host, calls.epoch_of):
                yield f"{who} gives up: no grant has come", self._begin_again(at, x)
        elif at.linked and other.alive and not other.still and self._coordinating(other) and not other.resigning:
            mine, counts = self._machines.call(host.machine, calls.connected)
            theirs = self._machines.call(other.machine, calls.join, "AB"[x])[0]
            joined = _with(at, x, host._replace(machine=mine, joined=1, reports=(), grants=()))
            joined = _with(joined, 1 - x, other._replace(machine=theirs))
            yield f"{who} joins", joined if counts else self._begin_again(joined, x)
        if at.linked and host.reports and other.alive and not other.still:
            after = _with(at, x, host._replace(reports=host.reports[1:]))
            step = f"the report of {who} arrives"
            if not self._coordinating(other):
                yield step, after
            else:
                arrived = "AB"[x], host.reports[0]
                machine, counts = self._machines.call(other.machine, calls.receive_report, *arrived)
                after = _with(after, 1 - x, other._replace(machine=machine))
                yield step, after if counts else self._begin_again(after, x)
        if at.linked and host.grants:
            grant = host.grants[0]
            after = _with(at, x, host._replace(grants=host.grants[1:]))
            if host.joined or ("any-epoch-grants" in self._mutants and self._coordinating(host)):
                after = self._granted(after, x, grant)
            yield f"a grant arrives at {who} ({_shown(calls.entries_of(grant))})", after

    def _granted(self, at: SplitState, x: int, grant: Grant) -> SplitState:
        host = at.hosts[x]
        receive: Callable[..., bool] = calls.receive_grant
        if "any-epoch-grants" in self._mutants:
            receive = calls.receive_grant_of_any_epoch
        machine, counts = self._machines.call(host.machine, receive, grant)
        after = _with(at, x, host._replace(machine=machine))
        return after if counts or self._coordinating(host) else self._begin_again(after, x)

    def _begin_again(self, at: SplitState, x: int) -> SplitState:
        """Close the client of a broker; it subscribes again, and its broker reads the owner's cursor."""
        host, other = at.hosts[x], at.hosts[1 - x]
        owner = at.owner | host.sent  # the owner has processed the acks of a consumer before it accepts the next one
        if host.joined:
            at = self._disconnected(at, x, other)
        elif self._coordinating(host) and at.hosts[1 - x].joined:
            at = _with(at, 1 - x, other._replace(joined=0))
        fresh = host._replace(machine=self._new(owner), has=0, sent=0, joined=0, reading=NOT_READ, resigning=0)
        node = NONE if at.node == x and self._coordinating(host) else at.node
        return _with(at, x, fresh)._replace(owner=owner, node=node)

    def _disconnected(self, at: SplitState, x: int, other: Host) -> SplitState:
        """Let the coordinator at the other broker notice the end of a member's connection."""
        if not other.alive or not self._coordinating(other):
            return at
        disconnect = calls.disconnect
        if "lost-member-frees-at-once" in self._mutants:
            disconnect = calls.leave
        machine = self._machines.call(other.machine, disconnect, "AB"[x])[0]
        return _with(at, 1 - x, other._replace(machine=machine))

    # Faults and time

    def _breaks(self, at: SplitState) -> Iterator[Step]:
        if at.node != NONE and at.deaths and at.hosts[at.node].alive:
            host, other = at.hosts[at.node], at.hosts[1 - at.node]
            dead = host._replace(alive=0, has=0, machine=self._new(0), reading=NOT_READ, resigning=0, reports=())
            after = _with(_with(at, at.node, dead), 1 - at.node, other._replace(joined=0))
            yield "the coordinator dies", after._replace(deaths=at.deaths - 1, faulty=1)
        if at.cuts:
            for x, host in enumerate(at.hosts):
                if host.alive and not host.cut and at.node == x:
                    yield (
                        f"broker {'AB'[x]} loses ZooKeeper",
                        _with(at, x, host._replace(cut=1))._replace(cuts=at.cuts - 1, faulty=1),
                    )
        if at.breaks:
            for x, host in enumerate(at.hosts):
                if host.joined:
                    broken = self._disconnected(_with(at, x, host._replace(joined=0, reports=())), x, at.hosts[1 - x])
                    yield "the brokers' connection breaks", broken._replace(breaks=at.breaks - 1, faulty=1)
                    cut = at._replace(linked=0, breaks=at.breaks - 1, faulty=1)
                    yield "the brokers' connection goes silent", cut
        if at.stalls:
            for x, host in enumerate(at.hosts):
                if host.joined or self._coordinating(host):
                    for still in (1, FOR_EVER):
                        stopped = _with(at, x, host._replace(still=still))._replace(stalls=at.stalls - 1, faulty=1)
                        yield f"broker {'AB'[x]} stands still{' for ever' if still == FOR_EVER else ''}", stopped
        if at.moves:
            moved = at._replace(moves=at.moves - 1, faulty=1)
            for x, host in enumerate(at.hosts):
                if self._coordinating(host) and self._ask(host, calls.acked_here) & ~(at.owner | host.sent):
                    raise Violation("the owner moves", "the coordinator takes the move for a reset")
                if host.alive and host.joined:
                    moved = self._begin_again(_with(moved, x, moved.hosts[x]._replace(sent=0)), x)
            yield "the owner moves: the member's acks under way are lost, its client comes back", moved

    def _time_matters(self, at: SplitState) -> bool:
        """Return whether somebody is silent. Otherwise leases are renewed in time."""
        return not at.linked or any(
            (not host.alive and at.node == x)
            or (host.cut and host.silent < SESSION_TICKS)
            or host.resigning
            or host.still
            or (host.alive and self._coordinating(host) and self._ask(host, calls.waits))
            for x, host in enumerate(at.hosts)
        )

    def _ticked(self, at: SplitState) -> SplitState:
        hosts = []
        node = at.node
        for x, host in enumerate(at.hosts):
            silences = host.cut or not host.alive or host.still
            machine = self._machines.call(host.machine, calls.shift, not silences)[0]
            lost = host.silent == SESSION_TICKS and self._coordinating(host)  # until it learns that
            silent = min(host.silent + 1, SESSION_TICKS) if silences or lost else 0
            if silent == SESSION_TICKS and node == x:
                node = NONE
            hosts.append(host._replace(machine=machine, silent=silent))
        after = at._replace(hosts=tuple(hosts), node=node)
        for x, host in enumerate(after.hosts):
            after = self._timed(after, x)
            if host.alive and host.joined and self._ask(host, calls.expired) and not at.linked:
                after = self._begin_again(after, x)
        # A connection that was silent has ended with one of its ends; the next one works.
        return after if any(host.joined for host in after.hosts) else after._replace(linked=1)

    def _timed(self, at: SplitState, x: int) -> SplitState:
        """Let a coordinator that runs take back what a lost member has."""
        host = at.hosts[x]
        if not host.alive or host.still or not self._coordinating(host):
            return at
        machine, ended = self._machines.call(host.machine, calls.on_timer)
        after = _with(at, x, host._replace(machine=machine))
        return _with(after, 1 - x, after.hosts[1 - x]._replace(joined=0, reports=())) if ended else after

    # Machines

    def _new(self, acked: int) -> int:
        return self._machines.begin(calls.SplitHost, self.entries, acked)

    def _ask(self, host: Host, function: Callable[..., Any]) -> Any:
        return self._machines.ask(host.machine, function)

    def _coordinating(self, host: Host) -> bool:
        return bool(self._ask(host, calls.coordinates))

    def _claim_counts(self, host: Host) -> bool:
        return host.silent < CLAIM_TICKS


def _with(at: SplitState, x: int, host: Host) -> SplitState:
    hosts = at.hosts
    return at._replace(hosts=(*hosts[:x], host, *hosts[x + 1 :]))


def _under_way(at: SplitState) -> int:
    """Return the late acks, with those on their way to the owner now."""
    return at.late | at.hosts[0].sent | at.hosts[1].sent


def _members(entries: int) -> Iterator[int]:
    return (entry for entry in range(entries.bit_length()) if entries >> entry & 1)


def _shown(entries: int) -> str:
    return ", ".join(map(str, _members(entries))) or "none"
