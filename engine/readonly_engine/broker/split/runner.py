"""One broker's part in one split subscription: the asyncio shell around SplitSession."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final, Protocol

from readonly_engine.background import ends, fires_by
from readonly_engine.broker.split.leases import LEASE_S
from readonly_engine.broker.split.session import Do, SplitSession, State
from readonly_engine.clock import lease_time
from readonly_engine.owner.errors import OwnerUnavailableError, RelayError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from readonly_engine.broker.dispatch.consumer_state import ConsumerState
    from readonly_engine.broker.pool.claim_store import ClaimHandle, ClaimStore
    from readonly_engine.broker.pool.claims import ClaimKey
    from readonly_engine.broker.split.keys import KeyPolicy
    from readonly_engine.broker.split.leases import Run
    from readonly_engine.broker.split.links import CoordinatorLink, MemberLink
    from readonly_engine.broker.split.machines import AnyGrant, AnyReport, LeaseCoordinator, LeaseMember
    from readonly_engine.broker.split.session import Action
    from readonly_engine.broker.subscription.leaving_consumers import LeavingConsumers
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

log = logging.getLogger(__name__)

MIN_PAUSE_S: Final = 0.02
"""Shortest time between two timers: reports of a member are no closer."""

LAZY_S: Final = 0.1
"""Longest time after which new permits and acks are looked at, while the consumers have enough entries."""

CONNECT_TIMEOUT_S: Final = 5.0
"""Time for the coordinator's broker to admit a member. One that is stopped loses its claim, maybe to this broker."""

PLACED_S: Final = 2.0
"""Time for the coordinator to give a new consumer its keys, before the client has the answer to its SUBSCRIBE."""

RELEASE_TIMEOUT_S: Final = 5.0
"""Time for the owner to take the last acks, before another broker may get the claim or the entries."""

SINGLE_S: Final = 600.0
"""Time for which one broker serves a subscription that could not be split."""

RELAY_S: Final = 10.0
"""The same where only the broker with the claim does not split it: the owner may serve it there, which may end soon."""

MAX_EPOCH: Final = (1 << 62) - 1


class LeasedSubscription(Protocol):
    """A subscription whose entries are leased, as its SplitRunner uses it."""

    @property
    def kind(self) -> CommandSubscribe.SubType:
        """Type of the subscription."""

    policy: KeyPolicy
    """That of all consumers, for Key_Shared."""

    @property
    def holder(self) -> str | None:
        """URL of the broker of the pool that holds the cursor; empty for this one, None if the owner has it."""

    @property
    def indivisible(self) -> bool:
        """Whether only a broker that serves it alone can handle its messages and acks."""

    def make_member(self, name: str) -> LeaseMember[Any, Any]:
        """Make what this broker has, as a member with a name."""

    def make_coordinator(self, epoch: int) -> LeaseCoordinator[Any, Any]:
        """Make the coordinator with an epoch."""

    def make_indivisible(self) -> None:
        """Let one broker serve it: a consumer, a message or an ack can not be split."""

    def acked_elsewhere(self, runs: tuple[Run, ...]) -> None:
        """Note entries whose acks another broker has sent, and the owner has answered."""

    def dispatch_leases(self) -> None:
        """Dispatch new leases."""

    async def read_owner_cursor(self) -> None:
        """Apply the owner's cursor to the copy; tries until the owner answers."""

    def begin_again(self, why: str) -> None:
        """Close the consumers, whose clients subscribe again."""

    def link(self, url: str, runner: SplitRunner) -> CoordinatorLink:
        """Make a connection to the coordinator at a broker of the pool.

        Raises:
            RelayError: there is no way to that broker now.
        """


class SplitRunner:
    """Carries out what a SplitSession decides: claims, connects, reports, grants (LinkEvents).

    Args:
        key: the subscription.
        name: name of this broker as a member.
        subscription: the subscription on this broker.
        claims: claims subscriptions.
        leaving: consumers whose last acks the owner has not taken yet.
        on_single: called with the key, a time in seconds and a reason when one broker must serve the subscription for this time.
        on_ended: called with this runner at its end.

    Attributes:
        redelivery_counts: what it knew of redelivery counts, if other consumers of the subscription are left.
    """

    def __init__(
        self,
        key: ClaimKey,
        name: str,
        subscription: LeasedSubscription,
        claims: ClaimStore,
        leaving: LeavingConsumers,
        on_single: Callable[[ClaimKey, float, str], None],
        on_ended: Callable[[SplitRunner], None],
    ) -> None:
        self.key = key
        self.redelivery_counts: tuple[Run, ...] = ()
        self._subscription = subscription
        self._claims = claims
        self._leaving = leaving
        self._on_single = on_single
        self._on_ended = on_ended
        self._session: SplitSession[Any, Any] = SplitSession(
            name, subscription.make_member(name), subscription.make_coordinator
        )
        self._claim: ClaimHandle | None = None
        self._link: CoordinatorLink | None = None
        self._coordinator = self._failure = ""
        self._members: dict[str, MemberLink] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Task[None]] = set()  # work that waits for the owner or the metadata store
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._begun = self._reported_end = False
        self._ended = asyncio.Event()
        self._progress = asyncio.Event()

    # State

    @property
    def kind(self) -> CommandSubscribe.SubType:
        """Type of the subscription."""
        return self._subscription.kind

    @property
    def policy(self) -> KeyPolicy:
        """That of all consumers, for Key_Shared."""
        return self._subscription.policy

    @property
    def holds_cursor(self) -> bool:
        """Whether this broker holds the cursor, and so coordinates without a claim of the subscription."""
        return self._subscription.holder == ""

    @property
    def indivisible(self) -> bool:
        """Whether one broker must serve the subscription."""
        return self._subscription.indivisible

    @property
    def coordinates(self) -> bool:
        """Whether this broker leases the entries."""
        return self._session.state is State.COORDINATING

    @property
    def ending(self) -> bool:
        """Whether no consumer can join it any more."""
        return self._session.state in {State.RESIGNING, State.ENDED}

    @property
    def coordinator(self) -> str:
        """URL of the broker that leases the entries; empty for this one, and while unknown."""
        return self._coordinator if self._session.state is State.FOLLOWING else ""

    @property
    def state(self) -> str:
        """State of the session, for statistics."""
        return self._session.state.value

    @property
    def members(self) -> Collection[str]:
        """The other brokers that are connected, if this one coordinates."""
        return self._members.keys()

    def may_dispatch(self) -> bool:
        """Return whether the lease of this broker is valid, so that its consumers may get messages."""
        return self._session.state is not State.ENDED and self._session.may_dispatch(lease_time())

    async def wait_ended(self) -> None:
        """Wait until it has ended, and has given its claim back."""
        await self._ended.wait()

    @property
    def has_leaving(self) -> bool:
        """Whether consumers have left whose last acks the owner has not taken yet."""
        return self._leaving.pending(self.key)

    # Events of the subscription

    def add(self, consumer: ConsumerState) -> None:
        """Add a consumer; the first one begins."""
        self._session.member.add(consumer)
        self.begin()

    async def wait_placed(self, consumer: ConsumerState) -> None:
        """Wait until the coordinator knows a consumer, for PLACED_S at most.

        A client may publish right after its SUBSCRIBE. As at an owner, the keys must not move once more then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PLACED_S):
                while not (self.ending or self._session.member.placed(consumer)):
                    self._progress.clear()
                    await self._progress.wait()

    def remove(self, consumer: ConsumerState) -> None:
        """Remove a consumer."""
        self._session.member.remove(consumer)
        self.touch()

    def begin(self) -> None:
        """Begin, with the first consumer; later calls report the new consumers."""
        if self._begun:
            self.touch()
            return
        self._begun = True
        self._do(self._session.begin())

    def touch(self) -> None:
        """Report and lease soon: there are new permits, entries or consumers."""
        if self._soon is None and self._begun and not self.ending:
            self._soon = asyncio.get_running_loop().call_soon(self._changed)

    def touch_soon(self) -> None:
        """Report and lease within LAZY_S, since permits and acks come one by one; at once if consumers wait for entries."""
        if not self._begun or self.ending or self._soon is not None:
            return
        if self._session.member.hurries:
            self.touch()
        else:
            self._call_within(LAZY_S)

    def end_split(self) -> None:
        """Let one broker serve the subscription, because a consumer can not be split."""
        self._subscription.make_indivisible()

    def follow(self, max_unacked: int) -> None:
        """Apply a limit of unacked messages that has changed; 0 for none."""
        self._session.follow(max_unacked)

    def stop(self) -> None:
        """Stop, because the last consumer has left. A coordinator keeps its claim until no other member has a lease."""
        if not self.ending:
            self._do(self._session.stop(self._now()))
            if self._members:
                self.redelivery_counts = self._session.last_counts

    def owner_moved(self) -> None:
        """Handle a new owner of the topic."""
        self._session.member.owner_moved()

    def claim_lost(self) -> None:
        """Handle that another broker has the claim, or may have had it."""
        self._do(self._session.claim_lost())

    def ask(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work that waits for the owner; its failure begins the subscription again, and the end of this runner cancels it."""
        task = self._spawn(work)
        self._asking.add(task)
        return task

    # Members, where this broker coordinates

    def join(self, name: str, link: MemberLink) -> bool:
        """Connect a member; return False if it must look for the coordinator again."""
        if not self._session.member_joined(name, self._now()):
            return False
        former = self._members.get(name)
        self._members[name] = link
        if former is not None:
            former.end("the member has connected again")
        return True

    def reported(self, name: str, link: MemberLink, report: AnyReport) -> None:
        """Handle a member's report."""
        if self._members.get(name) is link:
            self._subscription.acked_elsewhere(report.acked)
            self._do(self._session.member_reported(name, report, self._now()))

    def left(self, name: str, link: MemberLink, *, stopped: bool) -> None:
        """Handle the end of a member's connection; `stopped` if the member has closed it."""
        if self._members.get(name) is link:
            del self._members[name]
            self._do(self._session.member_gone(name, lease_time(), stopped=stopped))

    # LinkEvents, where another broker coordinates

    def on_grant(self, link: CoordinatorLink, grant: AnyGrant) -> None:
        """Handle a grant."""
        if link is self._link:
            self._do(self._session.granted(grant, self._now()))

    def on_link_lost(self, link: CoordinatorLink, why: str) -> None:
        """Handle the end of the connection to the coordinator."""
        if link is self._link:
            self._link = None
            self._spawn(link.close())
            self._log("connection to the coordinator lost", why)
            self._do(self._session.disconnected(self._now()))

    # Time

    def _now(self) -> float:
        """Return the time, after the session knows how long the claim is valid."""
        self._session.claim_until = self._claims.until
        return lease_time()

    @ends("_fail")
    def _changed(self) -> None:
        self._soon = None
        self._cancel_timer()
        self._do(self._session.changed(self._now()))

    @ends("_fail")
    def _on_timer(self) -> None:
        self._timer = None
        self._do(self._session.on_timer(self._now()))

    def _schedule(self) -> None:
        now = lease_time()
        at = self._session.next_timer(now)
        if at is None:
            self._cancel_timer()
            return
        self._call_within(max(at - now, MIN_PAUSE_S))

    def _call_within(self, seconds: float) -> None:
        """Call `_on_timer` after this time, or earlier."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if not fires_by(self._timer, due):
            self._cancel_timer()
            self._timer = loop.call_at(due, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Actions

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            self._carry_out(action)
        self._progress.set()
        if self._session.state is State.ENDED:
            self._finish()
        elif self._begun:
            self._schedule()

    def _carry_out(self, action: Action) -> None:
        do = action.do
        if do is Do.CLAIM:
            self.ask(self._acquire())
        elif do is Do.RELEASE:
            self._release()
        elif do is Do.CONNECT:
            self._spawn(self._connect(action.peer))
        elif do is Do.DISCONNECT:
            self._disconnect()
        elif do is Do.REPORT:
            if self._link is not None and action.report is not None:
                self._link.report(action.report)
        elif do is Do.GRANT:
            link = self._members.get(action.peer)
            if link is not None and action.grant is not None:
                link.grant(action.grant)
        elif do is Do.END_MEMBER:
            link = self._members.get(action.peer)
            if link is not None:
                link.end(action.why)
        elif do is Do.READ_CURSOR:
            self.ask(self._read_cursor())
        elif do is Do.DISPATCH:
            self._subscription.dispatch_leases()
        elif do in {Do.SINGLE, Do.RELAY}:
            self._on_single(self.key, SINGLE_S if do is Do.SINGLE else RELAY_S, action.why)
        elif do is Do.BEGIN_AGAIN:
            self._log("begins again", action.why)
            self.redelivery_counts = self._session.member.redelivery_counts
            self._subscription.begin_again(action.why)

    async def _acquire(self) -> None:
        holder = self._subscription.holder
        if holder is not None:
            self._follow_holder(holder)
            return
        try:
            claim = await self._claims.acquire(self.key)
        except OwnerUnavailableError as error:
            log.info("claim of a split subscription not acquired: error=%s", error)
            self._do(self._session.unclaimed(self._now()))
            return
        if claim.url:
            self._claims.release(claim)
            self._do(self._session.elsewhere(claim.url))
            return
        self._claim = claim
        await self._subscription.read_owner_cursor()
        if not self._claims.is_valid(claim):
            self._release()
            self._do(self._session.unclaimed(self._now()))
            return
        self._coordinate("it has the claim")

    def _follow_holder(self, url: str) -> None:
        """Follow the broker that holds the cursor; coordinate if it is this one, and its session is valid.

        The holder has the claim of the cursor's partition. It closes the consumers of all brokers when it loses that.
        """
        now = self._now()
        if url:
            self._do(self._session.elsewhere(url))
        elif now < self._claims.until:
            self._coordinate("it holds the cursor")
        else:
            self._do(self._session.unclaimed(now))

    def _coordinate(self, why: str) -> None:
        self._do(self._session.claimed(1 + secrets.randbelow(MAX_EPOCH), self._now()))
        if self.coordinates:
            self._log("coordinates", why)

    def _release(self) -> None:
        claim, self._claim = self._claim, None
        if claim is not None:
            self._spawn(self._release_after_acks(claim))

    async def _release_after_acks(self, claim: ClaimHandle) -> None:
        """Give the claim back after the owner has taken the last acks: the next broker reads its cursor."""
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._leaving.wait_for_none(self.key)
        except TimeoutError:
            log.warning("claim given back before all acks were answered: topic=%s subscription=%s", *self.key)
        finally:
            self._claims.release(claim)

    async def _connect(self, url: str) -> None:
        link = None
        try:
            link = self._link = self._subscription.link(url, self)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await link.open()
        except (RelayError, TimeoutError) as error:
            if link is not None and self._link is link:
                self._link = None
            why = f"{url}: {error or 'no answer in time'}"
            if why != self._failure:  # a coordinator that is away is asked every half second
                self._failure = why
                self._log("coordinator not reached", why)
            refused = isinstance(error, RelayError) and error.code == ServerError.NotAllowedError
            self._do(self._session.served_alone() if refused else self._session.disconnected(self._now()))
            return
        if self._link is not link:
            await link.close()  # the session has ended, or has begun again meanwhile
            return
        self._coordinator, self._failure = url, ""
        self._log("follows", url)
        self._do(self._session.connected(self._now()))

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._spawn(self._close_after_acks(link))

    async def _close_after_acks(self, link: CoordinatorLink) -> None:
        """Leave the coordinator after the owner has taken the last acks: the coordinator reads its cursor then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._leaving.wait_for_none(self.key)
        await link.close()

    async def _read_cursor(self) -> None:
        await self._subscription.read_owner_cursor()
        self._do(self._session.cursor_read(self._now()))

    # End

    def _finish(self) -> None:
        """Give everything back after the session's end."""
        self._cancel_timer()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        for task in self._asking - {asyncio.current_task()}:
            task.cancel()  # without a consumer the owner never answers
        self._disconnect()
        for link in list(self._members.values()):
            link.end("the coordinator has ended")
        self._members.clear()
        self._release()
        self._report_end()

    def _report_end(self) -> None:
        if self._session.state is State.ENDED and not self._work and not self._reported_end:
            self._reported_end = True
            self._ended.set()
            self._on_ended(self)

    def _fail(self) -> None:
        """Begin again after an unexpected error. A coordinator ends when no other member can have a lease."""
        self._subscription.begin_again("internal error")
        asyncio.get_running_loop().call_later(2 * LEASE_S, self._give_up)

    def _give_up(self) -> None:
        if self.ending:
            self._session.state = State.ENDED
            self._finish()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work_ended)
        return task

    @ends("_fail")
    def _work_ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("split subscription failed: topic=%s subscription=%s", *self.key, exc_info=error)
            self._fail()
        self._report_end()

    def _log(self, event: str, why: str) -> None:
        log.info("split subscription %s: topic=%s subscription=%s reason=%s", event, *self.key, why)
