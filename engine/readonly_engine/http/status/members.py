"""Read the states of a pool's other brokers for its page: each from its own /status, within a deadline and a number of bytes.

Nothing runs while nobody looks. All viewers share one round of requests, and its answers for REUSE_S. A broker that is asked
never asks others in turn.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Final

from aiohttp import (
    ClientError,
    ClientPayloadError,
    ClientResponseError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)

from readonly_engine.http.access import OPEN
from readonly_engine.owner.single_flight import SingleFlight
from readonly_engine.status.pool import MemberAnswer, answer_of
from readonly_engine.status.text import printable
from readonly_engine.status.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_engine.http.access import HttpAccess
    from readonly_engine.status.state import MemberState

MEMBER_TIMEOUT_S: Final = 2.0
"""Deadline of one broker."""

ROUND_TIMEOUT_S: Final = 5.0
"""Deadline of all brokers together."""

REUSE_S: Final = 2.0
"""Time for which answers are shown. So many viewers cost the other brokers no more than one."""

MAX_CONCURRENT_REQUESTS: Final = 4
"""Requests at once. A name that DNS does not resolve blocks a thread of the event loop's few, which others need too."""

MAX_ANSWER_BYTES: Final = 256 << 10
"""Bytes of an answer. A state without lists has some kilobytes."""

NOT_PUBLISHED: Final = "it publishes no status page"
NO_HTTP: Final = "the answer is no valid HTTP"
"""Error of such an answer. The text of the HTTP client would show a part of it, and any server may be at a published address."""

QUERY: Final = f"status{View(summary=True).query()}"
_KEY: Final = "pool"


class MemberReader:
    """Reads the states of the other brokers.

    Args:
        charge: is called with the seconds of the event loop that the answers took.
        access: TLS and token of the HTTP ports of the pool.
    """

    def __init__(self, charge: Callable[[float], None], access: HttpAccess = OPEN) -> None:
        self._charge = charge
        self._access = access
        self._flight: SingleFlight[dict[MemberState, MemberAnswer]] = SingleFlight()
        self._recent: dict[MemberState, MemberAnswer] = {}
        self._silent: set[str] = set()

    async def read(self, name: str, uid: str, members: Sequence[MemberState]) -> list[MemberAnswer]:
        """Return an answer for each broker but this one. A broker without an answer is no error: it has the reason.

        Args:
            name: name of the pool.
            uid: uid of the pool; empty if unknown.
            members: the brokers.
        """
        others = [one for one in members if not one.itself]
        known = self._recent
        if not known.keys() >= _keys(others):
            known = await self._flight.run(_KEY, lambda: self._round(name, uid, others))
        return [known.get(_key(one)) or MemberAnswer(one, error="it has joined just now") for one in others]

    async def _round(self, name: str, uid: str, others: Sequence[MemberState]) -> dict[MemberState, MemberAnswer]:
        if self._recent.keys() >= _keys(others):  # another round has ended meanwhile
            return self._recent
        found = {_key(one): MemberAnswer(one, error=NOT_PUBLISHED) for one in others}
        # Those that were silent in the last round come last: else a few of them would take the time of all others again.
        asked = sorted((one for one in others if one.status_url), key=lambda one: one.url in self._silent)
        found |= {_key(one): MemberAnswer(one, error=f"no answer within {ROUND_TIMEOUT_S:g} s") for one in asked}
        waiting = iter(asked)

        async def ask(session: ClientSession) -> None:
            for one in waiting:  # each task takes the next one
                self._silent.add(one.url)  # until it answers, also if the round ends meanwhile
                try:
                    found[_key(one)] = await self._ask(session, name, uid, one)
                except TimeoutError:
                    found[_key(one)] = MemberAnswer(one, error=f"no answer within {MEMBER_TIMEOUT_S:g} s")
                else:
                    self._silent.discard(one.url)

        try:
            async with (
                asyncio.timeout(ROUND_TIMEOUT_S),
                ClientSession(
                    connector=TCPConnector(force_close=True),
                    timeout=ClientTimeout(total=MEMBER_TIMEOUT_S),
                    headers={"Accept-Encoding": "identity"},
                    auto_decompress=False,
                    cookie_jar=DummyCookieJar(),
                ) as session,
                asyncio.TaskGroup() as tasks,
            ):
                for _ in range(min(MAX_CONCURRENT_REQUESTS, len(asked))):
                    tasks.create_task(ask(session))
        except TimeoutError:
            pass  # the others have the reason already
        self._recent = found
        self._silent &= {one.url for one in others}
        asyncio.get_running_loop().call_later(REUSE_S, self._forget, found)
        return found

    def _forget(self, answers: dict[MemberState, MemberAnswer]) -> None:
        if self._recent is answers:
            self._recent = {}

    async def _ask(self, session: ClientSession, name: str, uid: str, member: MemberState) -> MemberAnswer:
        try:
            async with session.get(
                member.status_url + QUERY,
                allow_redirects=False,
                headers=self._access.headers_for(member.status_url),
                ssl=self._access.peer_context() or True,
            ) as response:
                body = bytearray()
                async for piece in response.content.iter_any():
                    body += piece
                    if len(body) > MAX_ANSWER_BYTES:
                        return MemberAnswer(member, error=f"the answer is longer than {MAX_ANSWER_BYTES >> 10} KiB")
                code = response.status
        except TimeoutError:
            raise  # it is an OSError
        except (ClientResponseError, ClientPayloadError):
            return MemberAnswer(member, error=NO_HTTP)
        except (ClientError, OSError, ValueError) as error:
            return MemberAnswer(member, error=printable(str(error) or type(error).__name__))
        began = time.perf_counter()
        try:
            return answer_of(member, name, uid, code, _parsed(body))
        finally:
            self._charge(time.perf_counter() - began)


def _parsed(body: bytearray) -> Any:
    """Return the JSON of an answer; None for another answer."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _key(member: MemberState) -> MemberState:
    """Return the broker without its number of consumers, which changes all the time."""
    return type(member)(member.url, member.status_url, 0, member.locality, member.itself)


def _keys(members: Sequence[MemberState]) -> set[MemberState]:
    return set(map(_key, members))
