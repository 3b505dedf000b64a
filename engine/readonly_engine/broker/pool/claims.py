"""Claims of one broker on Shared and Key_Shared subscriptions. A pure state machine.

One broker of a pool must dispatch such a subscription, because a dispatcher needs all consumers and all acks. The first broker
with a consumer creates an ephemeral node in the metadata store, its claim. The others redirect or relay their consumers to that
broker. The claim ends with the last consumer, or with the broker's session.

A session may end before its broker knows. So a claim is valid only within the session's lease (metadata/lease.py), and each
delivery compares that with the clock. After a new session another broker may have held the claim meanwhile. The claim then gets a
new epoch, and state of the owner's cursor from older epochs is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.metadata.lease import NEVER, NO_SESSION

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_engine.metadata.topic_name import TopicName

NO_EPOCH: Final = 0


class ClaimKey(NamedTuple):
    """A claimed subscription."""

    topic: TopicName
    subscription: str


class ActionKind(Enum):
    """An action for the store, for waiting consumers, or for the subscription."""

    CLAIM = "create the node unless another broker has it; then call `claimed`, `taken` or `failed`"
    RELEASE = "remove the node; then call `released`"
    GRANT = "this broker serves the waiting consumers, within this epoch"
    REDIRECT = "another broker serves the waiting consumers"
    RETRY = "the clients of the waiting consumers must try again"
    SUSPEND = "stop delivery: another broker may have the subscription"
    RESUME = "continue delivery: no other broker had the subscription"
    REFRESH = "another broker may have had the subscription: read the owner's cursor, then deliver, within this epoch"
    REVOKE = "another broker has the subscription: close the consumers"


class ClaimAction(NamedTuple):
    """One action.

    Attributes:
        kind: kind of the action.
        key: the subscription.
        waiters: numbers of the waiting consumers that it answers.
        url: the broker that serves them, for REDIRECT.
        epoch: epoch of the claim, for GRANT and REFRESH.
    """

    kind: ActionKind
    key: ClaimKey
    waiters: tuple[int, ...] = ()
    url: str = ""
    epoch: int = NO_EPOCH


class _State(Enum):
    CLAIMING = 1
    OWNED = 2
    RELEASING = 3


@dataclass(slots=True)
class _Claim:
    """A claim.

    Attributes:
        state: state of the node.
        users: numbers of the consumers that were granted the claim.
        waiting: numbers of the consumers that wait for it.
        epoch: number of the time that this broker has held it without a break; NO_EPOCH before the first.
    """

    state: _State
    users: set[int] = field(default_factory=set)
    waiting: list[int] = field(default_factory=list)
    epoch: int = NO_EPOCH


class Claims:
    """The claims of one broker. Times are in seconds of the lease's clock.

    Args:
        url: the broker's URL, the value of its claims.

    Attributes:
        url: as above.
        until: end of the session's lease. No delivery may happen after it, even if `tick` was not called.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.until = NEVER
        self._session = NO_SESSION
        self._claims: dict[ClaimKey, _Claim] = {}
        self._suspended = True
        self._last_epoch = NO_EPOCH

    @property
    def held(self) -> list[ClaimKey]:
        """The subscriptions that this broker serves."""
        return [key for key, claim in self._claims.items() if claim.state == _State.OWNED]

    @property
    def suspended(self) -> bool:
        """Whether delivery of claimed subscriptions is stopped, because the session may have ended."""
        return self._suspended

    def is_valid(self, key: ClaimKey, epoch: int) -> bool:
        """Return whether this broker has held a claim since the beginning of an epoch, so that reads since then are valid.

        Delivery also requires `now < until`.
        """
        claim = self._claims.get(key)
        return claim is not None and claim.state == _State.OWNED and claim.epoch == epoch

    def serves(self, key: ClaimKey, now: float) -> bool:
        """Return whether no other broker can have a subscription now."""
        claim = self._claims.get(key)
        return claim is not None and claim.state == _State.OWNED and now < self.until

    def awaited(self, key: ClaimKey) -> bool:
        """Return whether consumers wait for a claim."""
        claim = self._claims.get(key)
        return claim is not None and bool(claim.waiting)

    def request(self, key: ClaimKey, number: int, now: float) -> list[ClaimAction]:
        """Add a consumer. GRANT, REDIRECT or RETRY follows, now or later.

        Args:
            key: the subscription.
            number: unique number of the consumer.
            now: the time.
        """
        actions = self.on_timer(now)
        if self._suspended:
            return [*actions, ClaimAction(ActionKind.RETRY, key, (number,))]
        claim = self._claims.get(key)
        if claim is None:
            self._claims[key] = _Claim(_State.CLAIMING, waiting=[number])
            return [ClaimAction(ActionKind.CLAIM, key)]
        if claim.state == _State.OWNED:
            claim.users.add(number)
            return [ClaimAction(ActionKind.GRANT, key, (number,), epoch=claim.epoch)]
        claim.waiting.append(number)
        return []

    def release(self, key: ClaimKey, number: int) -> list[ClaimAction]:
        """Remove a consumer that has left or has stopped to wait."""
        claim = self._claims.get(key)
        if claim is None:
            return []
        if number in claim.waiting:
            claim.waiting.remove(number)
        if number not in claim.users:
            return []  # it waited, or its claim was revoked
        claim.users.discard(number)
        return self._release_if_unused(key, claim)

    # Answers of the store

    def claimed(self, key: ClaimKey, session: int) -> list[ClaimAction]:
        """Handle the success of CLAIM: the node belongs to this broker, in a session."""
        claim = self._claims[key]
        if session != self._session:
            return [ClaimAction(ActionKind.CLAIM, key)]  # the session has ended meanwhile
        claim.state = _State.OWNED
        self._last_epoch += 1
        claim.epoch = self._last_epoch
        actions = []
        if claim.users:
            actions.append(ClaimAction(ActionKind.REFRESH, key, epoch=claim.epoch))
            if self._suspended:
                actions.append(ClaimAction(ActionKind.SUSPEND, key))
        return actions + self._answer(ActionKind.GRANT, key, claim) + self._release_if_unused(key, claim)

    def taken(self, key: ClaimKey, url: str, members: Collection[str]) -> list[ClaimAction]:
        """Handle the refusal of CLAIM: another broker has the node.

        Args:
            key: the subscription.
            url: the other broker.
            members: URLs of the pool's members. A broker that has left the pool releases its claims soon; a dead one loses them
                with its session.
        """
        claim = self._claims.pop(key)
        actions = [ClaimAction(ActionKind.REVOKE, key)] if claim.users else []
        if url in members and url != self.url:
            return actions + self._answer(ActionKind.REDIRECT, key, claim, url)
        return actions + self._answer(ActionKind.RETRY, key, claim)

    def failed(self, key: ClaimKey) -> list[ClaimAction]:
        """Handle the failure of CLAIM: the store did not answer."""
        claim = self._claims[key]
        actions = self._answer(ActionKind.RETRY, key, claim)
        if claim.users:  # after a change of the session only another CLAIM shows whether this broker holds it
            return [*actions, ClaimAction(ActionKind.CLAIM, key)]
        del self._claims[key]
        return actions

    def released(self, key: ClaimKey) -> list[ClaimAction]:
        """Handle the end of RELEASE. If consumers wait for the claim, the next CLAIM finds a node that could not be removed."""
        claim = self._claims[key]
        if claim.waiting:
            claim.state = _State.CLAIMING
            return [ClaimAction(ActionKind.CLAIM, key)]
        del self._claims[key]
        return []

    # The session

    def renewed(self, session: int, until: float, now: float) -> list[ClaimAction]:
        """Extend the lease after an answer of the store. A new session has none of this broker's nodes, so claim them again.

        Args:
            session: id of the session.
            until: end of its lease.
            now: the time.
        """
        actions = []
        if session != self._session:
            self._session, self.until = session, until
            for key in self.held:
                self._claims[key].state = _State.CLAIMING
                if not self._suspended:
                    actions.append(ClaimAction(ActionKind.SUSPEND, key))
                actions.append(ClaimAction(ActionKind.CLAIM, key))
        else:
            self.until = max(self.until, until)
        if self._suspended and now < self.until:
            self._suspended = False
            actions += [ClaimAction(ActionKind.RESUME, key) for key in self.held]
        return actions + self.on_timer(now)

    def ended(self) -> list[ClaimAction]:
        """Handle the end of the session: its nodes are removed."""
        self.until = NEVER
        return self.on_timer(0.0)

    def next_timer(self) -> float | None:
        """Return the time of the next `on_timer`: the end of the lease; None while subscriptions are suspended."""
        return None if self._suspended else self.until

    def on_timer(self, now: float) -> list[ClaimAction]:
        """Suspend claimed subscriptions if the lease has ended."""
        if self._suspended or now < self.until:
            return []
        self._suspended = True
        return [ClaimAction(ActionKind.SUSPEND, key) for key in self.held]

    def _answer(self, kind: ActionKind, key: ClaimKey, claim: _Claim, url: str = "") -> list[ClaimAction]:
        waiters, claim.waiting = tuple(claim.waiting), []
        if kind == ActionKind.GRANT:
            claim.users.update(waiters)
        return [ClaimAction(kind, key, waiters, url, claim.epoch)] if waiters else []

    def _release_if_unused(self, key: ClaimKey, claim: _Claim) -> list[ClaimAction]:
        if claim.state != _State.OWNED or claim.users:
            return []
        claim.state = _State.RELEASING
        return [ClaimAction(ActionKind.RELEASE, key)]
