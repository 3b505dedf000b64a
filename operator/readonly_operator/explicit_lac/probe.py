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
from readonly_operator.fetch import FetchError, get_json
from readonly_operator.kinds import POD
from readonly_operator.names import PORT_HTTP
from readonly_operator.source import send_to

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from readonly_operator.api.pool import Source
    from readonly_operator.fetch import Access
    from readonly_operator.names import PoolKey
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


class ProbeDesk:
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
        self._store = store
        self._sources = sources
        self._changed = changed
        self._accesses = accesses
        self._tried: dict[PoolKey, Tried] = {}
        self._subjects: dict[PoolKey, tuple[object, float]] = {}
        self._stopped = stopped

    def result(self, key: PoolKey) -> Tried | None:
        """The last result for a pool; None for none."""
        return self._tried.get(key)

    def look(self) -> float:
        """Try where it is due: after each change of the writable brokers, and now and then.

        Returns:
            Seconds until it is due again somewhere.
        """
        pools = [pool for body in self._store.pools() if (pool := _asking(body)) is not None]
        for key in self._tried.keys() - {pool.key for pool in pools}:
            self._tried.pop(key)
            self._subjects.pop(key, None)
        for pool in pools:
            if self._stopped.is_set():
                break
            report = self._sources.report(pool.source)
            intervals = () if report is None else report.intervals_ms
            address = self._address(pool.key)
            if not address or not intervals or not all(interval > 0 for _, interval in intervals):
                self._subjects.pop(pool.key, None)  # nobody to ask, or verifying says all there is to say
                continue
            subject = (pool.explicit_lac.probe_topic, pool.source, intervals)
            known, due = self._subjects.get(pool.key, (None, 0.0))
            if known == subject and due > time.monotonic():
                continue
            tried = self._try(pool, address, max(interval for _, interval in intervals))
            self._subjects[pool.key] = subject, time.monotonic() + _AGAIN[tried.seen]
            if self._tried.get(pool.key) != tried:
                self._tried[pool.key] = tried
                logger.info("%s: explicit LAC: %s", pool.key, tried.text)
                self._changed(pool.key)
        return max(0.0, min((due for _, due in self._subjects.values()), default=float("inf")) - time.monotonic())

    def _address(self, key: PoolKey) -> str:
        ready = [pod for pod in self._store.of_pool(POD, key) if is_ready(pod)]
        address = next((str(ip) for pod in ready if (ip := (pod.get("status") or {}).get("podIP"))), "")
        return f"[{address}]" if ":" in address else address

    def _try(self, pool: Pool, address: str, interval_ms: int) -> Tried:
        topic = pool.explicit_lac.probe_topic
        wait = 2 * interval_ms / 1000 + GRACE_SECONDS
        if wait > LONGEST_SECONDS:
            return Tried(None, f"an interval of {interval_ms} ms is too long to try it on {topic}")
        try:
            before = _ask(address, topic)
            access = self._accesses(pool.source)
            if before.ledger < 0:
                _create(pool, topic, access)
            _publish(pool, topic, access)
            deadline = time.monotonic() + wait
            while not (now := _ask(address, topic)).tells(before):
                if time.monotonic() > deadline:
                    return Tried(
                        False,
                        f"{wait:.0f} s after a message to {topic} no bookie had an explicit LAC for it "
                        f"(ledger {now.ledger}: last entry {now.last_entry}, LAC {now.lac})",
                    )
                if self._stopped.wait(STEP_SECONDS):
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


def _create(pool: Pool, topic: str, access: Access) -> None:
    """Make the topic, where it is not there: one without subscriptions is deleted when it is idle."""
    try:
        send_to(pool.source, "PUT", f"/admin/v2/{_path(topic)}", None, PUBLISH_SECONDS, access)
    except FetchError as error:
        if error.status != CONFLICT:
            raise FetchError(f"the topic could not be made: {error}", error.status) from None


def _publish(pool: Pool, topic: str, access: Access) -> None:
    """Publish one message over HTTP (TopicsBase.publishMessages); the broker sends the request on to the topic's owner."""
    try:
        message = {"messages": [{"payload": TEXT}]}
        send_to(pool.source, "POST", f"/topics/{_path(topic)}", message, PUBLISH_SECONDS, access)
    except FetchError as error:
        raise FetchError(f"no message could be published: {error}", error.status) from None


def _path(topic: str) -> str:
    tenant, namespace, name = topic.partition("://")[2].split("/", 2)
    return f"persistent/{tenant}/{namespace}/{quote(name, safe='')}"
