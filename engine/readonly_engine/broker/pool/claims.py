"""Which broker of a pool serves a Shared or Key_Shared subscription: a pure state machine for the claims of one broker.

Such a subscription cannot be split: who hands out its messages must know all its consumers and all their acks. The first broker
that gets a consumer of it makes an ephemeral node in the metadata store, its claim; the others bring their consumers to that
broker. The claim goes when the last consumer leaves, and with the broker's session.

A session may end without its broker hearing of it. So claims are good within the session's lease only (metadata/lease.py), which
whoever delivers compares with the clock. A claim that was made again in another session may have been another broker's meanwhile:
it has a new epoch, and what was read of the owner's cursor in an older one counts no more.
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
    """What is claimed."""

    topic: TopicName
    subscription: str


class ActionKind(Enum):
    """What is to be done for a claim, or to be told to who waits for it."""

    CLAIM = "make the node unless another broker has it; answer with `claimed`, `taken` or `failed`"
    RELEASE = "remove the node; answer with `released`"
    GRANT = "those who wait may serve the subscription, within this epoch"
    REDIRECT = "those who wait bring their consumers to another broker"
    RETRY = "those who wait tell their clients to try again"
    SUSPEND = "deliver nothing: another broker may have the subscription"
    RESUME = "deliver again: it was ours all the time"
    REFRESH = "it is ours again, and may have been another's: read the owner's cursor, then deliver, within this epoch"
    REVOKE = "another broker has it now: send the consumers there"


class ClaimAction(NamedTuple):
    """One act.

    Attributes:
        kind: what.
        key: for which subscription.
        waiters: who is told: consumers by the numbers under which they came.
        url: whom they are redirected to.
        epoch: of the claim, for GRANT and REFRESH.
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
        state: where it stands.
        users: consumers that are served under it, or about to be.
        waiting: consumers that wait for it.
        epoch: since when it has been ours without a break; NO_EPOCH where it never was.
    """

    state: _State
    users: set[int] = field(default_factory=set)
    waiting: list[int] = field(default_factory=list)
    epoch: int = NO_EPOCH


class Claims:
    """The claims of one broker. Times are in seconds, of the clock that the session's lease is counted with.

    Args:
        url: the broker's name, which its claims carry.

    Attributes:
        until: when the session's lease ends; whoever delivers must not go beyond, whether `tick` was called or not.
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
        """Whether nothing claimed is delivered, because the session may have ended."""
        return self._suspended

    def is_valid(self, key: ClaimKey, epoch: int) -> bool:
        """Whether a claim has been ours all the time since an epoch began, so that what was read since then counts.

        It may be delivered from while `now < until` also holds.
        """
        claim = self._claims.get(key)
        return claim is not None and claim.state == _State.OWNED and claim.epoch == epoch

    def serves(self, key: ClaimKey, now: float) -> bool:
        """Whether no other broker can have a subscription now."""
        claim = self._claims.get(key)
        return claim is not None and claim.state == _State.OWNED and now < self.until

    def request(self, key: ClaimKey, number: int, now: float) -> list[ClaimAction]:
        """A consumer has come; GRANT, REDIRECT or RETRY follows, now or later.

        Args:
            key: the subscription.
            number: the consumer's, which no other has.
            now: the time.
        """
        actions = self.tick(now)
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
        """A consumer has gone, or waits no more."""
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
        """The node is ours, made in a session."""
        claim = self._claims[key]
        if session != self._session:
            return [ClaimAction(ActionKind.CLAIM, key)]  # that session has ended meanwhile
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
        """Another broker has it.

        Args:
            key: the subscription.
            url: the other broker.
            members: who is in the pool. One that has left it is about to let go; one that is dead loses it with its session.
        """
        claim = self._claims.pop(key)
        actions = [ClaimAction(ActionKind.REVOKE, key)] if claim.users else []
        if url in members and url != self.url:
            return actions + self._answer(ActionKind.REDIRECT, key, claim, url)
        return actions + self._answer(ActionKind.RETRY, key, claim)

    def failed(self, key: ClaimKey) -> list[ClaimAction]:
        """The store did not answer."""
        claim = self._claims[key]
        actions = self._answer(ActionKind.RETRY, key, claim)
        if claim.users:  # the session was replaced: whether it is still ours must be found out
            return [*actions, ClaimAction(ActionKind.CLAIM, key)]
        del self._claims[key]
        return actions

    def released(self, key: ClaimKey) -> list[ClaimAction]:
        """The node is gone, or cannot be removed now: then it goes with the session, or the next consumer finds it to be ours."""
        claim = self._claims[key]
        if claim.waiting:
            claim.state = _State.CLAIMING
            return [ClaimAction(ActionKind.CLAIM, key)]
        del self._claims[key]
        return []

    # The session

    def renewed(self, session: int, until: float, now: float) -> list[ClaimAction]:
        """The store has answered: the session lives until then, at least. Another session than before has none of our nodes."""
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
        return actions + self.tick(now)

    def ended(self) -> list[ClaimAction]:
        """The session has ended, and its nodes are gone."""
        self.until = NEVER
        return self.tick(0.0)

    def tick(self, now: float) -> list[ClaimAction]:
        """Time has passed; due at `until`."""
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
