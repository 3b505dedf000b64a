"""Claims of this broker in the metadata store: the asyncio shell around the state machine of claims.py."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from readonly_engine.background import must_not_fail
from readonly_engine.broker.pool.claims import NO_EPOCH, ActionKind, ClaimAction, ClaimKey, Claims
from readonly_engine.clock import lease_time
from readonly_engine.lease_guard import LeaseGuard
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.lease import NEVER
from readonly_engine.owner.errors import OwnerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from readonly_engine.broker.pool.membership import PoolMembership
    from readonly_engine.metadata.lease import SessionLease
    from readonly_engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)

CLAIM_TIMEOUT_S = 15.0
"""Limit of a consumer's wait for the store, after which its client gets a retriable error."""

RETRY_S = 1.0

RELEASE_RETRY_S = (1.0, 10.0)
"""First and longest pause before the next attempt to remove a claim. Until then no other broker serves the subscription."""


class ClaimHandle(NamedTuple):
    """A consumer's part in a claim.

    Attributes:
        key: the subscription.
        consumer_number: number of the consumer on this broker.
        url: the broker that serves the subscription; empty for this one.
        epoch: epoch of this broker's claim; NO_EPOCH for another broker's.
    """

    key: ClaimKey
    consumer_number: int
    url: str
    epoch: int = NO_EPOCH


class ClaimStore:
    """Acquires and releases claims.

    Args:
        store: the metadata store.
        pool: the pool, whose brokers compete for claims.
        guard: checks the session's lease before each delivery.
    """

    def __init__(self, store: MetadataStore, pool: PoolMembership, guard: LeaseGuard | None = None) -> None:
        self._guard = guard or LeaseGuard()
        self._guard.add(self.check)
        self._store = store
        self._pool = pool
        self._folder = f"{pool.folder}/claims"
        self._value = json.dumps({"url": pool.url}).encode()
        self._on_action: Callable[[ClaimAction], None] = lambda _: None
        self._claims = Claims(pool.url)
        self._waiting: dict[int, asyncio.Future[ClaimAction]] = {}
        self._last_number = 0
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    def start(self, on_action: Callable[[ClaimAction], None]) -> None:
        """Follow the session of the store. `on_action` gets the actions SUSPEND, RESUME, REFRESH and REVOKE."""
        self._on_action = on_action
        self._store.on_session(self._session)
        self._guard.start()

    @property
    def held(self) -> list[ClaimKey]:
        """The subscriptions that this broker has claimed."""
        return self._claims.held

    @property
    def suspended(self) -> bool:
        """Whether claimed subscriptions are suspended, because the store does not confirm the session."""
        return self._claims.suspended

    @property
    def until(self) -> float:
        """End of the session's lease (lease_time), after which another broker may have any claim."""
        return self._claims.until

    def is_valid(self, claim: ClaimHandle) -> bool:
        """Return whether this broker has held the claim without a break since its grant, so that reads since then are valid."""
        return self._claims.is_valid(claim.key, claim.epoch)

    def serves(self, key: ClaimKey) -> bool:
        """Return whether no other broker can serve a subscription now."""
        return self._claims.serves(key, lease_time())

    def check(self, now: float) -> float:
        """Suspend claimed subscriptions if the session's lease has ended.

        Args:
            now: the time of `lease_time`.

        Returns:
            Time of the next call.
        """
        self._execute(self._claims.on_timer(now))
        at = self._claims.next_timer()
        return math.inf if at is None else at

    async def acquire(self, key: ClaimKey) -> ClaimHandle:
        """Claim a subscription for a consumer; `release` must follow.

        Raises:
            OwnerUnavailableError: no broker serves the subscription now; the client must try again.
        """
        self._last_number += 1
        number = self._last_number
        answer = self._waiting[number] = self._loop.create_future()
        held = False
        try:
            self._execute(self._claims.request(key, number, lease_time()))
            if answer.done():
                granted = answer.result()
            else:
                async with asyncio.timeout(CLAIM_TIMEOUT_S):
                    granted = await answer
            claim = ClaimHandle(key, number, granted.url, granted.epoch)
            held = True
        except TimeoutError:
            raise _unclaimed(key, "the metadata store does not answer in time") from None
        else:
            return claim
        finally:
            del self._waiting[number]
            if not held:
                self._execute(self._claims.release(key, number))

    async def holder(self, key: ClaimKey) -> str:
        """Return the URL of the broker that has a claim; empty for none.

        Raises:
            MetadataUnavailableError: the metadata store does not answer.
        """
        found = await self._store.get(self._path(key))
        return "" if found is None else _url_in(found.value)

    def release(self, claim: ClaimHandle) -> None:
        """Release a consumer's part in a claim. Call it after the owner has processed the consumer's acks."""
        if self._closed:
            return
        self._execute(self._claims.release(claim.key, claim.consumer_number))

    async def wait_released(self) -> None:
        """Wait until the released claims are removed from the store, for CLAIM_TIMEOUT_S at most."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=CLAIM_TIMEOUT_S)

    def close(self) -> None:
        """Stop following the session, and cancel requests to the store."""
        self._closed = True
        self._guard.stop()
        for task in self._tasks:
            task.cancel()

    def _execute(self, actions: list[ClaimAction]) -> None:
        for action in actions:
            kind, key = action.kind, action.key
            if kind == ActionKind.CLAIM:
                self._run_in_background(self._claim(key))
            elif kind == ActionKind.RELEASE:
                self._run_in_background(self._release(key))
            elif kind in {ActionKind.SUSPEND, ActionKind.RESUME, ActionKind.REFRESH, ActionKind.REVOKE}:
                self._on_action(action)
            for number in action.waiters:
                answer = self._waiting.get(number)
                if answer is None or answer.done():
                    continue
                if kind == ActionKind.RETRY:
                    answer.set_exception(_unclaimed(key, "it moves from one broker of the pool to another"))
                else:
                    answer.set_result(action)

    async def _claim(self, key: ClaimKey) -> None:
        try:
            found = await self._store.claim(self._path(key), self._value)
        except MetadataUnavailableError as error:
            log.warning("claim failed: topic=%s subscription=%s error=%s", key.topic, key.subscription, error)
            await asyncio.sleep(RETRY_S)
            self._execute(self._claims.failed(key))
            return
        if found.session:
            self._execute(self._claims.claimed(key, found.session))
        else:
            self._execute(self._claims.taken(key, _url_in(found.value), self._pool.members))

    async def _release(self, key: ClaimKey) -> None:
        pause = RELEASE_RETRY_S[0]
        while not self._claims.awaited(key):
            try:
                await self._store.release(self._path(key))
                break
            except MetadataUnavailableError as error:
                if pause == RELEASE_RETRY_S[0]:
                    log.warning("release of a claim failed: topic=%s subscription=%s error=%s", *key, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, RELEASE_RETRY_S[1])
        self._execute(self._claims.released(key))

    def _path(self, key: ClaimKey) -> str:
        return f"{self._folder}/{quote(str(key.topic), safe='')}:{quote(key.subscription, safe='')}"

    def _session(self, lease: SessionLease) -> None:
        if self._closed:
            return
        if lease.until == NEVER:
            self._execute(self._claims.ended())
        else:
            self._execute(self._claims.renewed(lease.session, lease.until, lease_time()))
        self._guard.check_all()

    def _run_in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        must_not_fail(task)


def _url_in(value: bytes) -> str:
    try:
        fields: Mapping[str, object] = json.loads(value)
        return str(fields["url"])
    except (ValueError, TypeError, KeyError):
        return ""


def _unclaimed(key: ClaimKey, why: str) -> OwnerUnavailableError:
    return OwnerUnavailableError(f"subscription {key.subscription} of {key.topic} is not served now: {why}; try again")
