"""What one broker does for one split subscription: claim it and coordinate, or follow the coordinator. Pure.

| state | this broker |
|---|---|
| CLAIMING | asks for the claim, or will again at the next timer |
| COORDINATING | has the claim: leases the entries, also to its own consumers |
| FOLLOWING | is a member: another broker has the claim |
| RESIGNING | has the claim, has no consumers any more, and waits for the end of the others' leases |
| ENDED | has nothing |

A broker that has to begin again closes its consumers, whose clients subscribe again: what they had unacked is leased anew. So its
dispatcher, its copy of the cursor and its session are new, too. The new session begins after the former one has ENDED.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from readonly_engine.broker.split.leases import HANDOVER_S, LAST_ACKS_S
from readonly_engine.broker.split.machines import G, R

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_engine.broker.split.leases import Run
    from readonly_engine.broker.split.machines import AnyGrant, AnyReport, LeaseCoordinator, LeaseMember

RETRY_S: Final = 0.5
"""Pause before the next attempt to get the claim, or to reach its broker."""

GRANT_WAIT_S: Final = 5.0
"""Time for a coordinator's first grant. A broker without split subscriptions takes a member for a client, and sends none."""


class State(Enum):
    """See above."""

    CLAIMING = "claiming"
    COORDINATING = "coordinating"
    FOLLOWING = "following"
    RESIGNING = "resigning"
    ENDED = "ended"


class Do(Enum):
    """Kind of an action for the shell."""

    CLAIM = "ask for the claim, then call `claimed`, `elsewhere` or `unclaimed`"
    RELEASE = "give the claim back"
    CONNECT = "connect to the broker with the claim, then call `connected` or `disconnected`"
    DISCONNECT = "close the connection to it"
    REPORT = "send it a report"
    GRANT = "send a member a grant"
    END_MEMBER = "close the connection of a member, which must begin again"
    READ_CURSOR = "read the owner's cursor, then call `cursor_read`"
    DISPATCH = "dispatch: there are new leases"
    SINGLE = "serve the subscription by one broker from now on: its entries can not be split"
    RELAY = "let the broker with the claim serve the consumers for a while: it does not split the subscription"
    BEGIN_AGAIN = "close the consumers, whose clients subscribe again"


class Action(NamedTuple):
    """An action for the shell.

    Attributes:
        do: its kind.
        peer: URL of the broker for CONNECT, name of the member for GRANT and END_MEMBER.
        report: the report, for REPORT.
        grant: the grant, for GRANT.
        why: the reason, for logs.
    """

    do: Do
    peer: str = ""
    report: AnyReport | None = None
    grant: AnyGrant | None = None
    why: str = ""


class SplitSession(Generic[R, G]):
    """Connects the coordinator and the member of one subscription with the claim and with other brokers.

    Args:
        name: name of this broker as a member.
        member: what this broker has.
        make_coordinator: makes the coordinator with an epoch, where this broker gets the claim.

    Attributes:
        state: see above.
        claim_until: end of this broker's claim; the shell keeps it up to date.
        member: as above.
        coordinator: the coordinator, if it is here.
        last_counts: redelivery counts that a coordinator here has sent to its members when it stopped.
    """

    def __init__(
        self, name: str, member: LeaseMember[R, G], make_coordinator: Callable[[int], LeaseCoordinator[R, G]]
    ) -> None:
        self.state = State.CLAIMING
        self.claim_until = -math.inf
        self.member = member
        self.coordinator: LeaseCoordinator[R, G] | None = None
        self._name = name
        self._make_coordinator = make_coordinator
        self._retry_at: float | None = None
        self._linked = False
        self._grant_by = math.inf
        self._stop_by = math.inf
        self._acks_by = math.inf
        self._reading = False
        self.last_counts: tuple[Run, ...] = ()

    def follow(self, max_unacked: int) -> None:
        """Apply a limit of unacked messages that has changed; 0 for none."""
        if self.coordinator is not None:
            self.coordinator.follow(max_unacked)

    def begin(self) -> list[Action]:
        """Begin, with the first consumer."""
        return [Action(Do.CLAIM)]

    def stop(self, now: float) -> list[Action]:
        """Stop, because the last consumer has left. A coordinator first waits for the leases of the others."""
        if self.state is State.COORDINATING and self.coordinator is not None:
            self.state = State.RESIGNING
            if (last := self.member.last_report()) is not None:
                self.coordinator.report(self._name, last, now)
            self.coordinator.leave(self._name)
            stops = self.coordinator.last_grant()
            self.last_counts = stops.redelivery_counts
            told = [Action(Do.GRANT, name, grant=stops) for name in self.coordinator.members]
            return [*told, *self._resign(now)]
        state, self.state = self.state, State.ENDED
        if state is not State.FOLLOWING:
            return []
        last = self.member.last_report() if self._linked and self.member.epoch else None
        return [*([] if last is None else [Action(Do.REPORT, report=last)]), Action(Do.DISCONNECT)]

    # The claim

    def claimed(self, epoch: int, now: float) -> list[Action]:
        """Handle that this broker has the claim, and has read the owner's cursor since.

        Args:
            epoch: a number that no other coordinator of the subscription has had.
            now: the time.
        """
        if self.state is not State.CLAIMING:
            return [Action(Do.RELEASE)]
        if not self.member.forget_coordinator():
            return [Action(Do.RELEASE), *self._begin_again("its leases are of a former coordinator")]
        self.state, self._retry_at = State.COORDINATING, None
        self.coordinator = self._make_coordinator(epoch)
        self.coordinator.join(self._name, now)
        return self.changed(now)

    def elsewhere(self, url: str) -> list[Action]:
        """Handle that another broker has the claim."""
        if self.state is not State.CLAIMING:
            return []
        self.state, self._retry_at = State.FOLLOWING, None
        return [Action(Do.CONNECT, url)]

    def unclaimed(self, now: float) -> list[Action]:
        """Handle that nobody knows who has the claim."""
        if self.state is State.CLAIMING:
            self._retry_at = now + RETRY_S
        return []

    def claim_lost(self) -> list[Action]:
        """Handle that another broker has the claim, or may have had it."""
        if self.coordinator is None:
            return []
        members = [name for name in self.coordinator.members if name != self._name]
        self.coordinator = None
        return [
            *(Action(Do.END_MEMBER, name, why="the claim was lost") for name in members),
            Action(Do.RELEASE),
            *self._begin_again("another broker may have coordinated the subscription"),
        ]

    # The connection to the coordinator

    def connected(self, now: float) -> list[Action]:
        """Handle a connection to the coordinator."""
        if self.state is not State.FOLLOWING:
            return [Action(Do.DISCONNECT)]
        if self.member.expired(now):
            self.member.forget_coordinator()
        if self.member.expired(now) or not self.member.connected():
            return [Action(Do.DISCONNECT), *self._begin_again("its lease has ended")]
        self._linked = True
        self._grant_by = math.inf if self.member.epoch else now + GRANT_WAIT_S
        return self.changed(now)

    def served_alone(self) -> list[Action]:
        """Handle that the broker with the claim serves the subscription alone."""
        if self.state is not State.FOLLOWING:
            return []
        why = "the broker with the claim serves it alone"
        return [Action(Do.RELAY, why=why), Action(Do.DISCONNECT), *self._begin_again(why)]

    def disconnected(self, now: float) -> list[Action]:
        """Handle the end of the connection to the coordinator, or that there is none: maybe another broker has the claim now."""
        self._linked = False
        if self.state is State.FOLLOWING:
            self.state, self._retry_at = State.CLAIMING, now + RETRY_S
        return []

    def granted(self, grant: G, now: float) -> list[Action]:
        """Handle a grant of the coordinator."""
        if self.state is not State.FOLLOWING:
            return []
        self._grant_by = math.inf
        if not grant.valid_s and grant.epoch == self.member.epoch:
            self._stop_by = min(self._stop_by, now + HANDOVER_S)
            self.member.inherit(grant)
            return self._hand_over(now)
        if not self.member.on_grant(grant, now):
            return [Action(Do.DISCONNECT), *self._begin_again("the grant is of another coordinator, or too late")]
        return self._after_grant(grant)

    # The members at this coordinator

    def member_joined(self, name: str, now: float) -> bool:
        """Handle the connection of a member; return False if it must look for the coordinator again."""
        return self.state is State.COORDINATING and self.coordinator is not None and self.coordinator.join(name, now)

    def member_reported(self, name: str, report: R, now: float) -> list[Action]:
        """Handle a report of a member."""
        if self.state is not State.COORDINATING or self.coordinator is None:
            return []
        if not self.coordinator.report(name, report, now):
            self.coordinator.disconnect(name)
            return [Action(Do.END_MEMBER, name, why="its leases are not of this coordinator")]
        return self._serve_singly(now) if report.indivisible or self.coordinator.indivisible else self.changed(now)

    def member_gone(self, name: str, now: float, *, stopped: bool = False) -> list[Action]:
        """Handle the end of a member's connection.

        Args:
            name: the member.
            now: the time.
            stopped: whether it has closed the connection in order, after its consumers.
        """
        if self.coordinator is None:
            return []
        if stopped:
            self.coordinator.leave(name)
        else:
            self.coordinator.disconnect(name)
        return self._resign(now) if self.state is State.RESIGNING else self.changed(now)

    def cursor_read(self, now: float) -> list[Action]:
        """Handle that the copy of the cursor has what the owner's had when READ_CURSOR came, or later."""
        if self.state is State.ENDED:
            return []
        self._reading = False
        self.member.cursor_read()
        if self.coordinator is not None:
            self.coordinator.cursor_read()
        return [Action(Do.DISPATCH), *self.changed(now)]

    # Time

    def may_dispatch(self, now: float) -> bool:
        """Return whether the lease of this broker is valid, so that its consumers may get messages."""
        return self.member.epoch != 0 and not self.member.expired(now) and self._stop_by == math.inf

    def next_timer(self, now: float) -> float | None:
        """Return the time of the next `on_timer`; None for none."""
        if self.state is State.CLAIMING:
            return self._retry_at if not self.member.epoch else min(self._retry_at or math.inf, self.member.until)
        if self.state is State.ENDED:
            return None
        times = [now + self.member.pause(now)] if self.state is not State.RESIGNING else []
        if self._linked:
            times += [self._grant_by, self._stop_by]
        elif self.state is State.COORDINATING and self._stop_by < math.inf:
            times.append(self._stop_by if now < self._stop_by else self._acks_by)
        if self.coordinator is not None:
            waits = (
                self.coordinator.next_end(self._name)
                if self.state is State.RESIGNING
                else self.coordinator.next_timer(self._name)
            )
            times += [] if waits is None else [waits]
        return min(times, default=None)

    def on_timer(self, now: float) -> list[Action]:
        """Handle the passing of time."""
        if self.state is State.RESIGNING:
            return self._resign(now)
        if self.state is State.ENDED:
            return []
        if self.coordinator is None and self.member.expired(now) and not self.member.forget_coordinator():
            linked = [Action(Do.DISCONNECT)] if self.state is State.FOLLOWING else []
            return [*linked, *self._begin_again("its lease has ended")]
        if self.state is State.FOLLOWING and self._linked and now >= self._grant_by:
            return self.served_alone()
        if self.state is State.CLAIMING:
            if self._retry_at is None or now < self._retry_at:
                return []
            self._retry_at = None
            return [Action(Do.CLAIM)]
        return self.changed(now)

    def changed(self, now: float) -> list[Action]:
        """Report and lease: after a FLOW, an ack, a new entry, a new consumer, or a while."""
        coordinator = self.coordinator
        if self.state is State.FOLLOWING and self._stop_by < math.inf:
            return self._hand_over(now)
        if self.state is State.FOLLOWING:
            report = self.member.report(now) if self._linked else None
            return [*([] if report is None else [Action(Do.REPORT, report=report)]), *self._read_cursor()]
        if self.state is not State.COORDINATING or coordinator is None:
            return []
        if self.member.expired(now):
            return self._step_down(now)
        if self._stop_by < math.inf:
            return self._serve_singly(now)
        ended = coordinator.on_timer(now, self._name)
        report = self.member.report(now)
        if report is not None:
            coordinator.report(self._name, report, now)
            if report.indivisible or coordinator.indivisible:
                return self._serve_singly(now)
        actions = [Action(Do.END_MEMBER, name, why="its lease has ended") for name in ended]
        for name, grant in coordinator.grants(now, self.claim_until).items():
            if name != self._name:
                actions.append(Action(Do.GRANT, name, grant=grant))
            elif self.member.on_grant(grant, now):
                actions += self._after_grant(grant)
        return [*actions, *self._read_cursor()]

    def _after_grant(self, grant: G) -> list[Action]:
        """Dispatch what a grant has brought, and read the owner's cursor first where that is needed."""
        return [*([Action(Do.DISPATCH)] if grant.brings else []), *self._read_cursor()]

    def _read_cursor(self) -> list[Action]:
        """Read the owner's cursor if the coordinator here or the member needs it. One read is under way at a time."""
        coordinator, member = self.coordinator, self.member
        if self._reading or not (member.needs_cursor or (coordinator is not None and coordinator.needs_cursor)):
            return []
        self._reading = True
        member.reading_cursor()
        if coordinator is not None:
            coordinator.reading_cursor()
        return [Action(Do.READ_CURSOR)]

    def _hand_over(self, now: float) -> list[Action]:
        """Begin again after the coordinator has stopped, when the consumers have acked what they have, or after HANDOVER_S."""
        if now < self._stop_by and self.member.outstanding:
            return []
        return [Action(Do.DISCONNECT), *self._begin_again("the coordinator has stopped")]

    def _step_down(self, now: float) -> list[Action]:
        """Stop to coordinate: this broker's own lease has ended, since it was suspended for too long."""
        return [Action(Do.BEGIN_AGAIN, why="its lease has ended"), *self.stop(now)]

    def _serve_singly(self, now: float) -> list[Action]:
        """End the split: a member has met a message or an ack that only a broker that serves alone can handle.

        Clients send acks in groups, and may ack a message in a second transaction, so this broker takes acks for HANDOVER_S more.
        If its consumers still have messages then, it does so for LAST_ACKS_S: clients ack one after the other in transactions.
        """
        self._stop_by, self._acks_by = min(self._stop_by, now + HANDOVER_S), min(self._acks_by, now + LAST_ACKS_S)
        if now < self._stop_by or (self.member.outstanding and now < self._acks_by):
            return []
        self._stop_by = self._acks_by = math.inf
        why = "it has chunked messages, acks in transactions or partly acked batches, which one broker must handle"
        return [Action(Do.SINGLE, why=why), Action(Do.BEGIN_AGAIN, why=why), *self.stop(now)]

    def _resign(self, now: float) -> list[Action]:
        """Give the claim back when no member can have a valid lease."""
        assert self.coordinator is not None
        if not self.coordinator.may_resign(now, self._name):
            return []
        self.state, self.coordinator = State.ENDED, None
        return [Action(Do.RELEASE)]

    def _begin_again(self, why: str) -> list[Action]:
        self.state = State.ENDED
        return [Action(Do.BEGIN_AGAIN, why=why)]
