"""Which broker of a pool serves a Shared or Key_Shared subscription: a pure state machine for the claims of one broker.

Such a subscription cannot be split: who hands out its messages must know all its consumers and all their acks. The first broker
that gets a consumer of it makes an ephemeral node in the metadata store, its claim; the others bring their consumers to that
broker. The claim goes when the last consumer leaves, and with the broker's session.

A session may end without its broker hearing of it. So a broker that has not reached the store for LEASE_S rests its claimed
subscriptions, until it knows whether it still has them: another may have claimed them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.metadata.store import SessionEvent

if TYPE_CHECKING:
    from collections.abc import Collection

    from readonly_engine.metadata.topic_name import TopicName

LEASE_S = 3.0
"""How long claims hold after the store was lost, which is noticed when two thirds of a session of 10 s are over at the latest."""


class ClaimKey(NamedTuple):
    """What is claimed."""

    topic: TopicName
    subscription: str


class Act(Enum):
    """What is to be done for a claim, or to be told to who waits for it."""

    CLAIM = "make the node unless another broker has it; answer with `claimed`, `taken` or `failed`"
    RELEASE = "remove the node; answer with `released`"
    GRANT = "those who wait may serve the subscription"
    REFER = "those who wait bring their consumers to another broker"
    RETRY = "those who wait tell their clients to try again"
    REST = "deliver nothing: another broker may have the subscription"
    GO_ON = "deliver again: it was ours all the time"
    REVOKE = "another broker has it now: send the consumers there"


class Action(NamedTuple):
    """One act.

    Attributes:
        act: what.
        key: for which subscription.
        waiters: who is told: consumers by the numbers under which they came.
        url: whom they are referred to.
    """

    act: Act
    key: ClaimKey
    waiters: tuple[int, ...] = ()
    url: str = ""


class _State(Enum):
    ASKING = 1
    MINE = 2
    RELEASING = 3


@dataclass(slots=True)
class _Claim:
    """A claim; consumers that are served under it, consumers that wait, and whether it was ours in a session that has ended."""

    state: _State
    users: set[int] = field(default_factory=set)
    waiting: list[int] = field(default_factory=list)
    asked_again: bool = False


class Claims:
    """The claims of one broker.

    Args:
        url: the broker's name, which its claims carry.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._claims: dict[ClaimKey, _Claim] = {}
        self._doubt_since: float | None = None
        self._resting = False

    @property
    def held(self) -> list[ClaimKey]:
        """The subscriptions that this broker serves."""
        return [key for key, claim in self._claims.items() if claim.state == _State.MINE]

    @property
    def resting(self) -> bool:
        """Whether claimed subscriptions rest, because the session is in doubt."""
        return self._resting

    def want(self, key: ClaimKey, number: int) -> list[Action]:
        """A consumer has come; GRANT, REFER or RETRY follows, now or later.

        Args:
            key: the subscription.
            number: the consumer's, which no other has.
        """
        if self._resting:
            return [Action(Act.RETRY, key, (number,))]
        claim = self._claims.get(key)
        if claim is None:
            self._claims[key] = _Claim(_State.ASKING, waiting=[number])
            return [Action(Act.CLAIM, key)]
        if claim.state == _State.MINE:
            claim.users.add(number)
            return [Action(Act.GRANT, key, (number,))]
        claim.waiting.append(number)
        return []

    def left(self, key: ClaimKey, number: int) -> list[Action]:
        """A consumer has gone, or waits no more."""
        claim = self._claims.get(key)
        if claim is None:
            return []
        if number in claim.waiting:
            claim.waiting.remove(number)
        if number not in claim.users:
            return []  # it waited, or its claim was revoked
        claim.users.discard(number)
        return self._drop_if_unused(key, claim)

    # Answers of the store

    def claimed(self, key: ClaimKey) -> list[Action]:
        """The node is ours."""
        claim = self._claims[key]
        claim.state = _State.MINE
        actions = []
        if claim.asked_again:
            claim.asked_again = False
            actions.append(Action(Act.GO_ON, key))
        actions += self._tell(Act.GRANT, key, claim)
        return actions + self._drop_if_unused(key, claim)

    def taken(self, key: ClaimKey, url: str, members: Collection[str]) -> list[Action]:
        """Another broker has it.

        Args:
            key: the subscription.
            url: the other broker.
            members: who is in the pool. One that has left it is about to let go; one that is dead loses it with its session.
        """
        claim = self._claims.pop(key)
        actions = [Action(Act.REVOKE, key)] if claim.users else []
        if url in members and url != self.url:
            return actions + self._tell(Act.REFER, key, claim, url)
        return actions + self._tell(Act.RETRY, key, claim)

    def failed(self, key: ClaimKey) -> list[Action]:
        """The store did not answer."""
        claim = self._claims[key]
        actions = self._tell(Act.RETRY, key, claim)
        if claim.users:  # the session was replaced: whether it is still ours must be found out
            return [*actions, Action(Act.CLAIM, key)]
        del self._claims[key]
        return actions

    def released(self, key: ClaimKey) -> list[Action]:
        """The node is gone, or cannot be removed now: then it goes with the session, or the next consumer finds it to be ours."""
        claim = self._claims[key]
        if claim.waiting:
            claim.state = _State.ASKING
            return [Action(Act.CLAIM, key)]
        del self._claims[key]
        return []

    # The session

    def session(self, event: SessionEvent, now: float) -> list[Action]:
        """Something happened to the session."""
        if event == SessionEvent.ENDED:
            self._doubt_since = now - LEASE_S
            return self.tick(now)
        if event == SessionEvent.IN_DOUBT:
            if self._doubt_since is None:
                self._doubt_since = now
            return []
        self._doubt_since = None
        rested, self._resting = self._resting, False
        if event == SessionEvent.KEPT:
            return [Action(Act.GO_ON, key) for key in self.held] if rested else []
        actions = []
        for key in self.held:
            claim = self._claims[key]
            claim.state, claim.asked_again = _State.ASKING, True
            if not rested:
                actions.append(Action(Act.REST, key))
            actions.append(Action(Act.CLAIM, key))
        return actions

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""
        if self._doubt_since is None or self._resting or now - self._doubt_since < LEASE_S:
            return []
        self._resting = True
        return [Action(Act.REST, key) for key in self.held]

    def _tell(self, act: Act, key: ClaimKey, claim: _Claim, url: str = "") -> list[Action]:
        waiters, claim.waiting = tuple(claim.waiting), []
        if act == Act.GRANT:
            claim.users.update(waiters)
        return [Action(act, key, waiters, url)] if waiters else []

    def _drop_if_unused(self, key: ClaimKey, claim: _Claim) -> list[Action]:
        if claim.state != _State.MINE or claim.users:
            return []
        claim.state = _State.RELEASING
        return [Action(Act.RELEASE, key)]
