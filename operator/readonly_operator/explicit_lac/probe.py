"""Trying explicit LAC for real: a message is published to a topic that the user names, and bookies must tell of it by themselves.

The operator publishes through the writable brokers' admin port; a broker of the pool asks the bookies (its GET /explicit-lac).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from readonly_operator.api.binding import is_paused
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError, said
from readonly_operator.brokers import is_ready
from readonly_operator.desk import Desk, guarded
from readonly_operator.fetch import FetchError, get_json
from readonly_operator.kinds import POD
from readonly_operator.names import PORT_HTTP, PoolKey
from readonly_operator.source import send_to

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from readonly_operator.api.pool import Source
    from readonly_operator.fetch import Access
    from readonly_operator.source import SourceMonitor
    from readonly_operator.store import Store

logger = logging.getLogger(__name__)

PUBLISH_SECONDS = 10.0
ASK_SECONDS = 6.0
GRACE_SECONDS = 5.0
"""Beyond twice the interval, which is what a writer may take."""
EVERY_SECONDS = 3600.0
RETRY_SECONDS = 60.0
SOON_SECONDS = 10.0
"""Where it could not be tried: perhaps brokers have not taken the binding up yet."""
LONGEST_SECONDS = 60.0
"""So long is waited for an explicit LAC at most; a longer interval cannot be tried."""
STEP_SECONDS = 0.2
CONFLICT = 409
TEXT = "pulsar-readonly: is explicit LAC on?"


@dataclass(frozen=True, slots=True)
class Tail:
    """What bookies know of the end of a topic, by a broker's word.

    Attributes:
        topic: the topic or partition.
        ledger: the newest ledger; -1 for none.
        last_entry: the last entry that is there.
        lac: the last confirmed one.
        explicit: whether the writer told one by itself.
    """

    topic: str
    ledger: int
    last_entry: int
    lac: int
    explicit: bool

    @classmethod
    def read(cls, answer: Any) -> Tail:
        """A broker's answer.

        Raises:
            FetchError: it is not one.
        """
        try:
            ledger = answer["ledger"]
            return cls(
                str(answer["topic"]),
                -1 if ledger is None else int(ledger),
                int(answer["lastEntry"]),
                int(answer["lac"]),
                bool(answer["explicit"]),
            )
        except (KeyError, TypeError, ValueError):
            raise FetchError("the answer is not a broker's") from None

    def tells(self, before: Tail) -> bool:
        """Whether the place of an entry that was added after `before` is known from an explicit LAC."""
        added = (self.ledger, self.last_entry) > (before.ledger, before.last_entry)
        return added and self.explicit and self.lac == self.last_entry


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of it.

    Attributes:
        seen: whether bookies had it; None when it could not be tried.
        text: a sentence about it.
    """

    seen: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be tried.

    Attributes:
        topic: on which topic.
        source: the writable cluster.
        intervals_ms: what its brokers say they run with: after a change of that, it is tried again.
    """

    topic: str
    source: Source
    intervals_ms: tuple[tuple[str, int], ...]


class ProbeDesk(Desk[PoolKey, Trial, Tried | None]):
    """Tries explicit LAC for each pool that names a topic for that.

    Args:
        store: knows the pools and their brokers.
        sources: what writable brokers say they run with.
        changed: called with each pool whose result is new.
        accesses: what to show to the admin API of a source.
        stopped: set when the operator ends, which waits for no topic.
    """

    def __init__(
        self,
        store: Store,
        sources: SourceMonitor,
        changed: Callable[[PoolKey], None],
        accesses: Callable[[Source], Access],
        stopped: threading.Event,
    ) -> None:
        super().__init__(changed, None, stopped)
        self._store = store
        self._sources = sources
        self._accesses = accesses
        self._ended = stopped

    def _subjects(self) -> dict[PoolKey, Trial | None]:
        found: dict[PoolKey, Trial | None] = {}
        for body in self._store.pools():
            with guarded(body["metadata"]["name"]):
                pool = _asking(body)
                if pool is not None:
                    found[pool.key] = self._trial(pool)
        return found

    def _trial(self, pool: Pool) -> Trial | None:
        """What to try; None while nobody can be asked, or where verifying says all there is to say."""
        report = self._sources.report(pool.source)
        intervals = () if report is None else report.intervals_ms
        if not self._address(pool.key) or not intervals or not all(interval > 0 for _, interval in intervals):
            return None
        return Trial(pool.explicit_lac.probe_topic, pool.source, intervals)

    def _work(self, item: PoolKey, subject: Trial) -> tuple[dict[PoolKey, Tried | None], float]:
        tried = self._try(subject, self._address(item))
        if tried != self.report(item):
            logger.info("%s: explicit LAC: %s", item, tried.text)
        return {item: tried}, _AGAIN[tried.seen]

    def _address(self, key: PoolKey) -> str:
        ready = [pod for pod in self._store.of_pool(POD, key) if is_ready(pod)]
        address = next((str(ip) for pod in ready if (ip := (pod.get("status") or {}).get("podIP"))), "")
        return f"[{address}]" if ":" in address else address

    def _try(self, trial: Trial, address: str) -> Tried:
        topic, source = trial.topic, trial.source
        interval_ms = max(interval for _, interval in trial.intervals_ms)
        wait = 2 * interval_ms / 1000 + GRACE_SECONDS
        if wait > LONGEST_SECONDS:
            return Tried(None, f"an interval of {interval_ms} ms is too long to try it on {topic}")
        try:
            before = _ask(address, topic)
            access = self._accesses(source)
            if before.ledger < 0:
                _create(source, topic, access)
            _publish(source, topic, access)
            deadline = time.monotonic() + wait
            while not (now := _ask(address, topic)).tells(before):
                if time.monotonic() > deadline:
                    return Tried(
                        False,
                        f"{wait:.0f} s after a message to {topic} no bookie had an explicit LAC for it "
                        f"(ledger {now.ledger}: last entry {now.last_entry}, LAC {now.lac})",
                    )
                if self._ended.wait(STEP_SECONDS):
                    return Tried(None, f"the operator ended while it was tried on {topic}")
        except FetchError as error:
            return Tried(None, f"it could not be tried on {topic}: {error}")
        return Tried(True, f"tried on {topic}: bookies had it")


_AGAIN = {True: EVERY_SECONDS, False: RETRY_SECONDS, None: SOON_SECONDS}


def _asking(body: dict[str, Any]) -> Pool | None:
    if not said(body, "explicitLac", "probeTopic") or is_paused(body) or "deletionTimestamp" in body["metadata"]:
        return None
    try:
        pool = Pool.load(body)
    except ApiSpecError:
        return None
    return pool if pool.explicit_lac.probe_topic else None


def _ask(address: str, topic: str) -> Tail:
    return Tail.read(get_json(f"http://{address}:{PORT_HTTP}/explicit-lac?topic={quote(topic, safe='')}", ASK_SECONDS))


def _create(source: Source, topic: str, access: Access) -> None:
    """Make the topic, where it is not there: one without subscriptions is deleted when it is idle."""
    try:
        send_to(source, "PUT", f"/admin/v2/{_path(topic)}", None, PUBLISH_SECONDS, access)
    except FetchError as error:
        if error.status != CONFLICT:
            raise FetchError(f"the topic could not be made: {error}", error.status) from None


def _publish(source: Source, topic: str, access: Access) -> None:
    """Publish one message over HTTP (TopicsBase.publishMessages); the broker sends the request on to the topic's owner."""
    try:
        message = {"messages": [{"payload": TEXT}]}
        send_to(source, "POST", f"/topics/{_path(topic)}", message, PUBLISH_SECONDS, access)
    except FetchError as error:
        raise FetchError(f"no message could be published: {error}", error.status) from None


def _path(topic: str) -> str:
    names = topic.partition("://")[2].split("/", 2)
    return "/".join(("persistent", *(quote(name, safe="") for name in names)))
