"""Model of a split Key_Shared subscription: two brokers, and clients that come and go.

Broker A coordinates, with a client that stays. A client of broker B comes and leaves. The coordinator may die; its claim ends
when the leases have ended, then broker B coordinates, and broker A comes back with another client. The claim itself is that
of `split_model.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from readonly_engine.broker.dispatch.leased_keys import ConsistentHashRing
from readonly_engine.broker.split.keys import KeyConsumer
from readonly_engine.wire.sticky_key import key_hash

from longtests.model import keys_calls as calls
from longtests.model.machines import Machines
from longtests.model.search import Violation
from longtests.model.serving import members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from readonly_engine.broker.split.keys import KeyGrant, KeyReport

NOT_READ: Final = -1
NAMES: Final = "AB"
LEASE_TICKS: Final = 2


class Host(NamedTuple):
    """A broker with its client.

    Attributes:
        machine: its KeysHost.
        joined: whether it is a member at the coordinator, or is the coordinator.
        has: entries that its client has and has not acked.
        sent: acks on their way to the owner.
        reading: the owner's cursor on its way here; NOT_READ for none.
        reports: reports on their way to the other broker.
        grants: grants on their way to this broker, from the other one.
    """

    machine: int
    joined: int = 0
    has: int = 0
    sent: int = 0
    reading: int = NOT_READ
    reports: tuple[KeyReport, ...] = ()
    grants: tuple[KeyGrant, ...] = ()


class KeysState(NamedTuple):
    """State of the model.

    Attributes:
        holder: the broker that coordinates; -1 for none.
        free_in: ticks until the claim of a dead coordinator is free.
        owner: acked entries at the owner.
        hosts: the brokers.
        changes: number of times that a client of broker B may come or leave.
        deaths: number of deaths of the coordinator that are left.
        breaks: number of times that the connection of the brokers may go silent.
        linked: whether the brokers can exchange messages.
        acked: entries that a client has acked.
        late: entries whose acks were under way when their broker lost its lease.
    """

    holder: int
    free_in: int
    owner: int
    hosts: tuple[Host, ...]
    changes: int
    deaths: int
    breaks: int
    linked: int = 1
    acked: int = 0
    late: int = 0


Step = tuple[str, KeysState]


class KeysModel:
    """Two brokers, at most one consumer at each.

    Args:
        name: for reports.
        keys: the keys of the entries: "s" for one that stays at broker A, "m" for one that moves to a client of broker B.
        changes: number of times that a client of broker B comes or leaves.
        deaths: number of deaths of the coordinator.
        breaks: number of times that the connection of the brokers goes silent.
        any_order: whether the order of a key may be ignored.
        mutants: mistakes to make.
    """

    def __init__(
        self,
        name: str,
        *,
        keys: str,
        changes: int = 1,
        deaths: int = 0,
        breaks: int = 0,
        any_order: bool = False,
        mutants: Iterable[str] = (),
    ) -> None:
        self.name = name
        self._keys = keys
        self._names = tuple(_key(kind) for kind in keys)
        self._any_order = any_order
        self._faults = {"changes": changes, "deaths": deaths, "breaks": breaks}
        self._mutants = frozenset(mutants)
        self._machines: Machines[calls.KeysHost] = Machines()

    def initial(self) -> KeysState:
        """Return broker A with a client, and the coordinator."""
        first = self._machines.call(self._new(0, 0), calls.coordinate, 1)[0]
        first = self._machines.call(first, calls.subscribe, "a")[0]
        return KeysState(0, 0, 0, (Host(first, joined=1), Host(self._new(1, 0))), **self._faults)

    def canonical(self, at: KeysState) -> KeysState:
        """Return the state: the machines know the brokers' names."""
        return at

    def wrong(self, at: KeysState) -> str:
        """Return a violation if a broker takes an entry for acked that no client has acked."""
        for host in at.hosts:
            if self._ask(host, calls.acked_here) & ~at.acked:
                return "an entry is skipped: a broker takes it for acked, and no client has acked it"
        return ""

    def done(self, at: KeysState) -> bool:
        """Return whether every entry is acked."""
        return at.owner == (1 << len(self._keys)) - 1

    def steps(self, at: KeysState) -> Iterator[Step]:
        """Yield the possible next steps; none at the end."""
        if self.done(at):
            return
        for x, host in enumerate(at.hosts):
            who = f"broker {NAMES[x]}"
            yield from self._clients(at, x, host, who)
            yield from self._talks(at, x, host, who)
        yield from self._faults_of(at)
        if not at.linked or at.free_in or self._coordinator_waits(at):
            yield "2.5 seconds pass", self._ticked(at)

    # Clients

    def _clients(self, at: KeysState, x: int, host: Host, who: str) -> Iterator[Step]:
        if self._ask(host, calls.expired):
            if x != at.holder:
                yield f"{who} begins again: its lease has ended", self._begin_again(at, x)
        else:
            machine, entry = self._machines.call(host.machine, calls.deliver)
            if entry >= 0:
                step = f"{who} delivers entry {entry}"
                self._judge(at, x, entry, step)
                yield step, _with(at, x, host._replace(machine=machine, has=host.has | 1 << entry))
        for entry in members(host.has):
            if any(self._keys[one] == self._keys[entry] and one < entry for one in members(host.has)):
                continue  # a client handles the messages of a key in order
            machine = self._machines.call(host.machine, calls.ack, entry)[0]
            acked = host._replace(machine=machine, has=host.has & ~(1 << entry), sent=host.sent | 1 << entry)
            late = at.late | (1 << entry if self._ask(host, calls.expired) else 0)
            yield (
                f"the client of {who} acks entry {entry}",
                _with(at, x, acked)._replace(acked=at.acked | 1 << entry, late=late),
            )
        if host.sent:
            yield (
                f"the owner gets the acks of {who}",
                _with(at, x, host._replace(sent=0))._replace(owner=at.owner | host.sent),
            )
        if self._ask(host, calls.needs_cursor):
            machine = self._machines.call(host.machine, calls.reading_cursor)[0]
            yield f"the owner answers {who}", _with(at, x, host._replace(machine=machine, reading=at.owner))
        if host.reading != NOT_READ:
            machine = self._machines.call(host.machine, calls.cursor_read, host.reading)[0]
            yield f"{who} has read the cursor", _with(at, x, host._replace(machine=machine, reading=NOT_READ))
        if x == 1 and at.changes and at.holder != x:
            if self._ask(host, calls.subscribed):
                machine = self._machines.call(host.machine, calls.leave)[0]
                step = f"the client of {who} leaves"
                host = host._replace(has=0)
            else:
                machine = self._machines.call(host.machine, calls.subscribe, "b")[0]
                step = f"a client of {who} subscribes"
            yield step, _with(at, x, host._replace(machine=machine))._replace(changes=at.changes - 1)

    def _judge(self, at: KeysState, x: int, entry: int, step: str) -> None:
        key = self._keys[entry]
        of_key = sum(1 << one for one, kind in enumerate(self._keys) if kind == key)
        other = at.hosts[1 - x]
        if self._any_order:
            of_key = 1 << entry
        if other.has & of_key and not self._ask(other, calls.expired):
            raise Violation(step, f"two consumers have {'an entry' if self._any_order else 'a key'} at once")
        if (at.owner & ~at.late) >> entry & 1:
            raise Violation(step, f"entry {entry} is delivered again after its ack was answered")
        before = of_key & ((1 << entry) - 1)
        if before & ~(at.acked | at.hosts[x].has):
            raise Violation(step, f"entry {entry} is delivered before an earlier one of its key")

    # Between the brokers

    def _talks(self, at: KeysState, x: int, host: Host, who: str) -> Iterator[Step]:
        if at.holder < 0:
            return
        away = at.hosts[at.holder]
        make: Callable[..., Any] = calls.report_undrained if "no-draining" in self._mutants else calls.report
        machine, report = self._machines.call(host.machine, make, host.sent)
        if at.holder == x:
            if report is not None:
                machine = self._machines.call(machine, calls.receive_report, NAMES[x], report)[0]
                yield f"{who} reports to itself", _with(at, x, host._replace(machine=machine))
            yield from self._grants(at, x, host, who)
        elif host.joined:
            if report is not None and not host.reports:
                yield f"{who} reports", _with(at, x, host._replace(machine=machine, reports=(report,)))
        elif at.linked and self._ask(host, calls.subscribed) and not self._of_former(at, host):
            mine = self._machines.call(host.machine, calls.connected)[0]
            theirs = self._machines.call(away.machine, calls.join, NAMES[x])[0]
            joined = _with(at, x, host._replace(machine=mine, joined=1, reports=()))
            yield f"{who} joins", _with(joined, at.holder, away._replace(machine=theirs))
        if at.linked and host.reports and at.holder != x:
            machine, counts = self._machines.call(away.machine, calls.receive_report, NAMES[x], host.reports[0])
            after = _with(at, x, host._replace(reports=()))
            after = _with(after, at.holder, away._replace(machine=machine))
            yield f"the report of {who} arrives", after if counts else self._begin_again(after, x)
        if at.linked and host.grants:
            after = _with(at, x, host._replace(grants=host.grants[1:]))
            yield f"a grant arrives at {who}", self._granted(after, x, host.grants[0])

    def _grants(self, at: KeysState, x: int, host: Host, who: str) -> Iterator[Step]:
        other = 1 - x
        machine, found = self._machines.call(host.machine, calls.grants, LEASE_TICKS * calls.TICK_S)
        grants = dict(found)
        if grants and len(at.hosts[other].grants) < 2:
            after = _with(at, x, host._replace(machine=machine))
            if (own := grants.get(NAMES[x])) is not None:
                after = self._granted(after, x, own)
            if (theirs := grants.get(NAMES[other])) is not None:
                away = after.hosts[other]
                after = _with(after, other, away._replace(grants=(*away.grants, theirs)))
            yield f"{who} grants to {', '.join(grants)}", after

    def _granted(self, at: KeysState, x: int, grant: KeyGrant) -> KeysState:
        host = at.hosts[x]
        receive = calls.receive_grant_of_any_epoch if "no-epoch" in self._mutants else calls.receive_grant
        if "ignores-pending" in self._mutants:
            receive = calls.receive_grant_without_pending
        machine, counts = self._machines.call(host.machine, receive, grant)
        after = _with(at, x, host._replace(machine=machine))
        return after if counts or at.holder == x else self._begin_again(after, x)

    def _of_former(self, at: KeysState, host: Host) -> bool:
        """Return whether a broker has an epoch of a former coordinator, and waits for the end of its lease."""
        del at
        return bool(self._ask(host, calls.epoch_of)) and bool(self._ask(host, calls.expired))

    def _begin_again(self, at: KeysState, x: int) -> KeysState:
        """Close the client of a broker, which comes back with the next change."""
        host = at.hosts[x]
        at = at._replace(owner=at.owner | host.sent)
        if host.joined and at.holder >= 0 and at.holder != x:
            away = at.hosts[at.holder]
            machine = self._machines.call(away.machine, calls.disconnect, NAMES[x])[0]
            at = _with(at, at.holder, away._replace(machine=machine))
        machine = self._new(x, at.owner)
        if x == 0:
            machine = self._machines.call(machine, calls.subscribe, "c")[0]
        keep = host.grants if "no-epoch" in self._mutants else ()
        return _with(at, x, Host(machine, grants=keep))

    # Faults and time

    def _faults_of(self, at: KeysState) -> Iterator[Step]:
        if at.breaks and at.hosts[1].joined and at.holder == 0:
            yield "the brokers' connection goes silent", at._replace(linked=0, breaks=at.breaks - 1)
        if at.deaths and at.holder == 0:
            late = at.late | at.hosts[0].sent
            keep = at.hosts[1].grants if "no-epoch" in self._mutants else ()
            after = at._replace(holder=-1, free_in=LEASE_TICKS + 1, deaths=at.deaths - 1, late=late)
            after = _with(after, 0, Host(self._new(0, 0)))
            yield (
                "the coordinator dies",
                _with(after, 1, after.hosts[1]._replace(joined=0, reports=(), grants=keep)),
            )
        if at.holder < 0 and not at.free_in and not self._ask(at.hosts[1], calls.epoch_of):
            fresh = self._machines.call(self._new(1, at.owner), calls.coordinate, 2)[0]
            fresh = self._machines.call(fresh, calls.subscribe, "b")[0]
            back = self._machines.call(self._new(0, at.owner), calls.subscribe, "c")[0]
            after = at._replace(holder=1, hosts=(Host(back), at.hosts[1]._replace(machine=fresh, joined=1, has=0)))
            yield "broker B claims the subscription", after

    def _coordinator_waits(self, at: KeysState) -> bool:
        return at.holder >= 0 and bool(self._ask(at.hosts[at.holder], calls.waits))

    def _ticked(self, at: KeysState) -> KeysState:
        hosts = [one._replace(machine=self._machines.call(one.machine, calls.shift)[0]) for one in at.hosts]
        after = at._replace(hosts=tuple(hosts), free_in=max(at.free_in - 1, 0))
        if at.holder >= 0:
            coordinator = after.hosts[at.holder]
            machine, ended = self._machines.call(coordinator.machine, calls.on_timer)
            after = _with(after, at.holder, coordinator._replace(machine=machine))
            other = 1 - at.holder
            if ended or (not at.linked and self._ask(after.hosts[other], calls.expired)):
                lost = after.hosts[other]
                after = after._replace(late=after.late | lost.sent)
                after = self._begin_again(after, other)._replace(linked=1)
        return after

    # Machines

    def _new(self, x: int, acked: int) -> int:
        return self._machines.begin(calls.KeysHost, NAMES[x], self._names, acked, self._any_order)

    def _ask(self, host: Host, function: Callable[..., Any]) -> Any:
        return self._machines.ask(host.machine, function)


def _with(at: KeysState, x: int, host: Host) -> KeysState:
    hosts = at.hosts
    return at._replace(hosts=(*hosts[:x], host, *hosts[x + 1 :]))


def _key(kind: str) -> str:
    """Return a key: of "s", one of the clients at broker A, whoever is at B; of "m", one that a client at B takes from A's first.

    Then A's second client takes it from B's.
    """
    both = ConsistentHashRing([KeyConsumer("A", 1, "a", 0), KeyConsumer("B", 1, "b", 0)])
    later = ConsistentHashRing([KeyConsumer("B", 1, "b", 0), KeyConsumer("A", 1, "c", 0)])
    wanted = {"s": (0, 1), "m": (1, 1)}[kind]
    return next(
        key
        for key in map(str, range(1000))
        if (both.number(slot := both.slot(key_hash(key.encode()))), later.number(slot)) == wanted
    )
