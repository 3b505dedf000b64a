"""The claims of this broker in the metadata store: the shell around the state machine in claims.py."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from readonly_engine.broker.claims import Act, Action, ClaimKey, Claims
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.store import SessionEvent
from readonly_engine.relay.errors import OwnerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from readonly_engine.broker.fleet import Fleet
    from readonly_engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)

CLAIM_TIMEOUT_S = 15.0
"""How long a consumer waits for the store before its client is told to try again."""

RETRY_S = 1.0
TICK_S = 0.5


class Hold(NamedTuple):
    """The answer to a consumer.

    Attributes:
        key: the subscription.
        number: the consumer's, among those of this broker.
        url: the broker that serves the subscription; empty for this one.
    """

    key: ClaimKey
    number: int
    url: str


class Claiming:
    """Takes and gives back claims.

    Args:
        store: where they are.
        fleet: who else may have them.
    """

    def __init__(self, store: MetadataStore, fleet: Fleet) -> None:
        self._store = store
        self._fleet = fleet
        self._folder = f"{fleet.folder}/claims"
        self._value = json.dumps({"url": fleet.url}).encode()
        self._told: Callable[[Act, ClaimKey], None] = lambda _act, _key: None
        self._claims = Claims(fleet.url)
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._last = 0
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def start(self, told: Callable[[Act, ClaimKey], None]) -> None:
        """Follow the session, and call back with REST, GO_ON and REVOKE of a subscription."""
        self._told = told
        self._store.on_session(self._session)

    @property
    def held(self) -> list[ClaimKey]:
        """The subscriptions that this broker has claimed."""
        return self._claims.held

    @property
    def resting(self) -> bool:
        """Whether claimed subscriptions rest, because the store does not answer."""
        return self._claims.resting

    async def hold(self, key: ClaimKey) -> Hold:
        """Claim a subscription for a consumer; `leave` must follow.

        Raises:
            OwnerUnavailableError: nobody serves it now; the client must try again.
        """
        self._last += 1
        number = self._last
        answer = self._waiting[number] = self._loop.create_future()
        held = False
        try:
            self._do(self._claims.want(key, number))
            async with asyncio.timeout(CLAIM_TIMEOUT_S):
                hold = Hold(key, number, await answer)
            held = True
        except TimeoutError:
            raise _unclaimed(key, "the metadata store does not say who has it") from None
        else:
            return hold
        finally:
            del self._waiting[number]
            if not held:
                self._do(self._claims.left(key, number))

    def leave(self, hold: Hold) -> None:
        """The consumer has gone."""
        self._do(self._claims.left(hold.key, hold.number))

    async def settled(self) -> None:
        """Wait until all that was given back is gone from the store."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=CLAIM_TIMEOUT_S)

    def close(self) -> None:
        """Do nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _do(self, actions: list[Action]) -> None:
        for act, key, waiters, url in actions:
            if act == Act.CLAIM:
                self._spawn(self._claim(key))
            elif act == Act.RELEASE:
                self._spawn(self._release(key))
            elif act in {Act.REST, Act.GO_ON, Act.REVOKE}:
                self._told(act, key)
            for number in waiters:
                answer = self._waiting.get(number)
                if answer is None or answer.done():
                    continue
                if act == Act.RETRY:
                    answer.set_exception(_unclaimed(key, "it is on its way from one broker of the pool to another"))
                else:
                    answer.set_result(url)

    async def _claim(self, key: ClaimKey) -> None:
        try:
            found = await self._store.claim(self._path(key), self._value)
        except MetadataUnavailableError as error:
            log.warning("%s, %s: %s", key.topic, key.subscription, error)
            await asyncio.sleep(RETRY_S)
            self._do(self._claims.failed(key))
            return
        if found is None:
            self._do(self._claims.claimed(key))
        else:
            self._do(self._claims.taken(key, _url_in(found), self._fleet.members))

    async def _release(self, key: ClaimKey) -> None:
        try:
            await self._store.release(self._path(key))
        except MetadataUnavailableError as error:
            log.warning("%s, %s: the claim could not be given back: %s", key.topic, key.subscription, error)
        self._do(self._claims.released(key))

    def _path(self, key: ClaimKey) -> str:
        return f"{self._folder}/{quote(str(key.topic), safe='')}:{quote(key.subscription, safe='')}"

    def _session(self, event: SessionEvent) -> None:
        if self._closed:
            return
        self._do(self._claims.session(event, self._loop.time()))
        away = event in {SessionEvent.IN_DOUBT, SessionEvent.ENDED}
        if away and self._timer is None:
            self._timer = self._loop.call_later(TICK_S, self._tick)
        elif not away and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._do(self._claims.tick(self._loop.time()))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
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
