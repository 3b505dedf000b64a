"""The claims of this broker in the metadata store: the shell around the state machine in claims.py."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

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
"""How long a consumer waits for the store before its client is told to try again."""

RETRY_S = 1.0


class ClaimHandle(NamedTuple):
    """The answer to a consumer.

    Attributes:
        key: the subscription.
        consumer_number: the consumer's, among those of this broker.
        url: the broker that serves the subscription; empty for this one.
        epoch: of this broker's claim: since when it has it.
    """

    key: ClaimKey
    consumer_number: int
    url: str
    epoch: int = NO_EPOCH


class ClaimStore:
    """Takes and gives back claims.

    Args:
        store: where they are.
        pool: who else may have them.
        guard: has the session's lease checked before anything is delivered.
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
        """Follow the session, and call back with SUSPEND, RESUME, REFRESH and REVOKE of a subscription."""
        self._on_action = on_action
        self._store.on_session(self._session)
        self._guard.start()

    @property
    def held(self) -> list[ClaimKey]:
        """The subscriptions that this broker has claimed."""
        return self._claims.held

    @property
    def suspended(self) -> bool:
        """Whether claimed subscriptions are suspended, because the store does not answer."""
        return self._claims.suspended

    def is_valid(self, claim: ClaimHandle) -> bool:
        """Whether the claim has been this broker's ever since the consumer got it: what was read meanwhile counts."""
        return self._claims.is_valid(claim.key, claim.epoch)

    def serves(self, key: ClaimKey) -> bool:
        """Whether no other broker can have a subscription now."""
        return self._claims.serves(key, lease_time())

    def check(self, now: float) -> float:
        """Suspend what is claimed if the session's lease has ended.

        Args:
            now: the time, of `lease_time`.

        Returns:
            When this must be called again.
        """
        self._execute(self._claims.tick(now))
        return math.inf if self._claims.suspended else self._claims.until

    async def acquire(self, key: ClaimKey) -> ClaimHandle:
        """Claim a subscription for a consumer; `release` must follow.

        Raises:
            OwnerUnavailableError: nobody serves it now; the client must try again.
        """
        self._last_number += 1
        number = self._last_number
        answer = self._waiting[number] = self._loop.create_future()
        held = False
        try:
            self._execute(self._claims.request(key, number, lease_time()))
            async with asyncio.timeout(CLAIM_TIMEOUT_S):
                granted = await answer
            claim = ClaimHandle(key, number, granted.url, granted.epoch)
            held = True
        except TimeoutError:
            raise _unclaimed(key, "the metadata store does not say who has it") from None
        else:
            return claim
        finally:
            del self._waiting[number]
            if not held:
                self._execute(self._claims.release(key, number))

    def release(self, claim: ClaimHandle) -> None:
        """The consumer has gone, and the owner has taken what it has acked: another broker may ask what is acked."""
        if self._closed:
            return
        self._execute(self._claims.release(claim.key, claim.consumer_number))

    async def wait_released(self) -> None:
        """Wait until all that was given back is gone from the store."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=CLAIM_TIMEOUT_S)

    def close(self) -> None:
        """Do nothing more."""
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
                    answer.set_exception(_unclaimed(key, "it is on its way from one broker of the pool to another"))
                else:
                    answer.set_result(action)

    async def _claim(self, key: ClaimKey) -> None:
        try:
            found = await self._store.claim(self._path(key), self._value)
        except MetadataUnavailableError as error:
            log.warning("%s, %s: %s", key.topic, key.subscription, error)
            await asyncio.sleep(RETRY_S)
            self._execute(self._claims.failed(key))
            return
        if found.session:
            self._execute(self._claims.claimed(key, found.session))
        else:
            self._execute(self._claims.taken(key, _url_in(found.value), self._pool.members))

    async def _release(self, key: ClaimKey) -> None:
        try:
            await self._store.release(self._path(key))
        except MetadataUnavailableError as error:
            log.warning("%s, %s: the claim could not be given back: %s", key.topic, key.subscription, error)
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


def _url_in(value: bytes) -> str:
    try:
        fields: Mapping[str, object] = json.loads(value)
        return str(fields["url"])
    except (ValueError, TypeError, KeyError):
        return ""


def _unclaimed(key: ClaimKey, why: str) -> OwnerUnavailableError:
    return OwnerUnavailableError(f"subscription {key.subscription} of {key.topic} is not served now: {why}; try again")
