"""Trying explicit LAC for real: something is written, and bookies must tell of it by themselves.

What is written is a message to a topic that the user names, through the writable brokers' admin port; or, where none is named,
the one that each writable broker checks its own health with. A broker of the pool asks the bookies (its GET /explicit-lac).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from readonly_operator.cluster.fetch import FetchError, get_json
from readonly_operator.cluster.source import health, send_to
from readonly_operator.kube.names import PORT_HTTP
from readonly_operator.kube.status import listed

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.fetch import Credentials

PUBLISH_SECONDS = 10.0
QUERY_SECONDS = 6.0
GRACE_SECONDS = 5.0
"""Beyond twice the interval, which is what a writer may take."""
MAX_WAIT_SECONDS = 60.0
"""So long is waited for an explicit LAC at most; a longer interval cannot be tried."""
STEP_SECONDS = 0.2
MAX_PROBED_BROKERS = 20
"""Writable brokers that are asked for a health check: each takes a while."""
CONFLICT = 409
TEXT = "pulsar-readonly: is explicit LAC on?"
V2 = "?topicVersion=V2"
"""For the topic whose name has no cluster in it; brokers know it since 2.9, and take the older one by themselves."""


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
class ProbeResult:
    """What came of it.

    Attributes:
        observed: whether bookies had it; None when it could not be tried.
        text: a sentence about it.
    """

    observed: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """What is to be tried.

    Attributes:
        topic: on which topic; empty for those of the brokers' health checks.
        source: the writable cluster.
        intervals_ms: what its brokers say they run with: after a change of that, it is tried again.
    """

    topic: str
    source: Source
    intervals_ms: tuple[tuple[str, int], ...]

    @property
    def where(self) -> str:
        """On what it is tried, in words."""
        if self.topic:
            return self.topic
        count, asked = len(self.intervals_ms), len(self.brokers)
        few = f"{asked} of {count}" if asked < count else str(count)
        return f"the health check of {few} writable broker{'s' if count > 1 else ''}"

    @property
    def brokers(self) -> list[str]:
        """HOST:PORT of the brokers whose health check is tried."""
        return [broker for broker, _ in self.intervals_ms[:MAX_PROBED_BROKERS]]

    @property
    def wait(self) -> float:
        """How long to wait for an explicit LAC, in seconds."""
        return 2 * max(interval for _, interval in self.intervals_ms) / 1000 + GRACE_SECONDS

    def run(self, address: str, credentials: Credentials, ended: threading.Event) -> ProbeResult:
        """Try it.

        Args:
            address: of a broker of the pool.
            credentials: what to show to the admin API.
            ended: set when the operator ends, which waits for no topic.
        """
        if self.wait > MAX_WAIT_SECONDS:
            return ProbeResult(None, f"explicit LACs are too far apart to try it on {self.where}")
        try:
            if self.topic:
                before = {self.topic: _ask(address, self.topic)}
                self._publish(before[self.topic], credentials)
            else:
                topics = {broker: health_topic(broker) for broker in self.brokers}
                before = {topic: _ask(address, topic) for topic in topics.values()}
                for broker in topics:
                    health(self.source, broker, credentials, V2)
            return self._await(address, before, ended)
        except FetchError as error:
            return ProbeResult(None, f"it could not be tried on {self.where}: {error}")

    def _publish(self, before: Tail, credentials: Credentials) -> None:
        if before.ledger < 0:
            _create(self.source, self.topic, credentials)
        _publish(self.source, self.topic, credentials)

    def _await(self, address: str, before: Mapping[str, Tail], ended: threading.Event) -> ProbeResult:
        deadline = time.monotonic() + self.wait
        silent = dict(before)
        while silent := _silent(address, silent, before):
            if time.monotonic() > deadline:
                return _not_seen(self, silent.values())
            if ended.wait(STEP_SECONDS):
                return ProbeResult(None, f"the operator ended while it was tried on {self.where}")
        return ProbeResult(True, f"tried on {self.where}: bookies had it")


def health_topic(broker: str) -> str:
    """The topic that a broker (HOST:PORT) checks itself with (NamespaceService.getHeartbeatNamespaceV2)."""
    return f"persistent://pulsar/{broker}/healthcheck"


def _silent(address: str, topics: Iterable[str], before: Mapping[str, Tail]) -> dict[str, Tail]:
    """How those of the topics are now of which bookies have not been told."""
    now = {topic: _ask(address, topic) for topic in topics}
    return {topic: tail for topic, tail in now.items() if not tail.tells(before[topic])}


def _not_seen(probe: Probe, silent: Iterable[Tail]) -> ProbeResult:
    gone = [tail.topic for tail in silent if tail.ledger < 0]
    if gone:
        return ProbeResult(None, f"it could not be tried on {probe.where}: there is no topic {listed(gone)}")
    found = listed(f"{one.topic}: ledger {one.ledger}, last entry {one.last_entry}, LAC {one.lac}" for one in silent)
    return ProbeResult(
        False, f"{probe.wait:.0f} s after a message on {probe.where} no bookie had an explicit LAC for it ({found})"
    )


def _ask(address: str, topic: str) -> Tail:
    return Tail.read(
        get_json(f"http://{address}:{PORT_HTTP}/explicit-lac?topic={quote(topic, safe='')}", QUERY_SECONDS)
    )


def _create(source: Source, topic: str, credentials: Credentials) -> None:
    """Make the topic, where it is not there: one without subscriptions is deleted when it is idle."""
    try:
        send_to(source, "PUT", f"/admin/v2/{_path(topic)}", None, PUBLISH_SECONDS, credentials)
    except FetchError as error:
        if error.status != CONFLICT:
            raise FetchError(f"the topic could not be made: {error}", error.status) from None


def _publish(source: Source, topic: str, credentials: Credentials) -> None:
    """Publish one message over HTTP (TopicsBase.publishMessages); the broker sends the request on to the topic's owner."""
    try:
        message = {"messages": [{"payload": TEXT}]}
        send_to(source, "POST", f"/topics/{_path(topic)}", message, PUBLISH_SECONDS, credentials)
    except FetchError as error:
        raise FetchError(f"no message could be published: {error}", error.status) from None


def _path(topic: str) -> str:
    names = topic.partition("://")[2].split("/", 2)
    return "/".join(("persistent", *(quote(name, safe="") for name in names)))
