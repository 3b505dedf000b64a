"""Probes of explicit LAC: write a message, and wait until bookies return an explicit LAC for it.

The message goes to the topic that the user names, through the owner brokers' admin API. Without a topic, the health check
of each owner broker writes one. A broker of the pool queries the bookies (GET /explicit-lac).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from readonly_operator.cluster.fetch import FetchError, get_json
from readonly_operator.cluster.source import health, send_to
from readonly_operator.kube.status import listed

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Mapping

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.broker_ports import Endpoint
    from readonly_operator.cluster.fetch import Credentials

PUBLISH_SECONDS = 10.0
QUERY_SECONDS = 6.0
GRACE_SECONDS = 5.0
"""Waiting time beyond twice the interval, which is what a writer may take."""
MAX_WAIT_SECONDS = 60.0
"""Longest waiting time for an explicit LAC; a longer interval cannot be probed."""
STEP_SECONDS = 0.2
MAX_PROBED_BROKERS = 20
"""Owner brokers whose health check is called: each call takes a while."""
CONFLICT = 409
TEXT = "pulsar-readonly: is explicit LAC on?"
V2 = "?topicVersion=V2"
"""Query for the health topic without a cluster in its name. Brokers know it since 2.9, and use the older one by default."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Position of a topic's last entry at the bookies, as a broker reports it.

    Attributes:
        topic: the topic or partition.
        ledger: the newest ledger; -1 for none.
        last_entry: the last written entry.
        lac: the last confirmed entry.
        explicit: whether the LAC is an explicit one.
    """

    topic: str
    ledger: int
    last_entry: int
    lac: int
    explicit: bool

    @classmethod
    def read(cls, answer: Any) -> Tail:
        """Parse a broker's answer.

        Raises:
            FetchError: the answer is invalid.
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
        """Return whether an explicit LAC confirms an entry that was added after `before`."""
        added = (self.ledger, self.last_entry) > (before.ledger, before.last_entry)
        return added and self.explicit and self.lac == self.last_entry


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of a probe.

    Attributes:
        observed: whether bookies had an explicit LAC; None when the probe could not run.
        text: a sentence about it.
    """

    observed: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe to run.

    Attributes:
        topic: the topic; empty for the topics of the brokers' health checks.
        source: the source cluster.
        intervals_ms: the brokers' runtime setting; a change of it starts a new probe.
    """

    topic: str
    source: Source
    intervals_ms: tuple[tuple[str, int], ...]

    @property
    def where(self) -> str:
        """Return the probed topics in words."""
        if self.topic:
            return self.topic
        count, asked = len(self.intervals_ms), len(self.brokers)
        few = f"{asked} of {count}" if asked < count else str(count)
        return f"the health check of {few} owner broker{'s' if count > 1 else ''}"

    @property
    def brokers(self) -> list[str]:
        """Return HOST:PORT of the brokers whose health check is called."""
        return [broker for broker, _ in self.intervals_ms[:MAX_PROBED_BROKERS]]

    @property
    def wait(self) -> float:
        """Return how long to wait for an explicit LAC, in seconds."""
        return 2 * max(interval for _, interval in self.intervals_ms) / 1000 + GRACE_SECONDS

    def run(self, broker: Endpoint, credentials: Credentials, ended: threading.Event) -> ProbeResult:
        """Run the probe.

        Args:
            broker: a process of a broker of the pool.
            credentials: for the admin API.
            ended: set when the operator ends; the probe ends then.
        """
        if self.wait > MAX_WAIT_SECONDS:
            return ProbeResult(None, f"explicit LACs are too far apart to try it on {self.where}")
        try:
            if self.topic:
                before = {self.topic: _ask(broker, self.topic)}
                self._publish(before[self.topic], credentials)
            else:
                topics = {owner: health_topic(owner) for owner in self.brokers}
                before = {topic: _ask(broker, topic) for topic in topics.values()}
                for owner in topics:
                    health(self.source, owner, credentials, V2)
            return self._await(broker, before, ended)
        except FetchError as error:
            return ProbeResult(None, f"it could not be tried on {self.where}: {error}")

    def _publish(self, before: Tail, credentials: Credentials) -> None:
        if before.ledger < 0:
            _create(self.source, self.topic, credentials)
        _publish(self.source, self.topic, credentials)

    def _await(self, broker: Endpoint, before: Mapping[str, Tail], ended: threading.Event) -> ProbeResult:
        deadline = time.monotonic() + self.wait
        silent = dict(before)
        while silent := _silent(broker, silent, before):
            if time.monotonic() > deadline:
                return _not_seen(self, silent.values())
            if ended.wait(STEP_SECONDS):
                return ProbeResult(None, f"the operator ended while it was tried on {self.where}")
        return ProbeResult(True, f"tried on {self.where}: bookies had it")


def health_topic(broker: str) -> str:
    """Return the topic of a broker's (HOST:PORT) health check (NamespaceService.getHeartbeatNamespaceV2)."""
    return f"persistent://pulsar/{broker}/healthcheck"


def _silent(broker: Endpoint, topics: Iterable[str], before: Mapping[str, Tail]) -> dict[str, Tail]:
    """Return the current tails of the topics without a new explicit LAC."""
    now = {topic: _ask(broker, topic) for topic in topics}
    return {topic: tail for topic, tail in now.items() if not tail.tells(before[topic])}


def _not_seen(probe: Probe, silent: Iterable[Tail]) -> ProbeResult:
    gone = [tail.topic for tail in silent if tail.ledger < 0]
    if gone:
        return ProbeResult(None, f"it could not be tried on {probe.where}: there is no topic {listed(gone)}")
    found = listed(f"{one.topic}: ledger {one.ledger}, last entry {one.last_entry}, LAC {one.lac}" for one in silent)
    return ProbeResult(
        False, f"{probe.wait:.0f} s after a message on {probe.where} no bookie had an explicit LAC for it ({found})"
    )


def _ask(broker: Endpoint, topic: str) -> Tail:
    url = f"{broker.url}/explicit-lac?topic={quote(topic, safe='')}"
    return Tail.read(get_json(url, QUERY_SECONDS, broker.credentials))


def _create(source: Source, topic: str, credentials: Credentials) -> None:
    """Create the topic unless it exists: brokers delete an idle topic without subscriptions."""
    try:
        send_to(source, "PUT", f"/admin/v2/{_path(topic)}", None, PUBLISH_SECONDS, credentials)
    except FetchError as error:
        if error.status != CONFLICT:
            raise FetchError(f"the topic could not be made: {error}", error.status) from None


def _publish(source: Source, topic: str, credentials: Credentials) -> None:
    """Publish one message over HTTP (TopicsBase.publishMessages); the broker forwards the request to the topic's owner."""
    try:
        message = {"messages": [{"payload": TEXT}]}
        send_to(source, "POST", f"/topics/{_path(topic)}", message, PUBLISH_SECONDS, credentials)
    except FetchError as error:
        raise FetchError(f"no message could be published: {error}", error.status) from None


def _path(topic: str) -> str:
    names = topic.partition("://")[2].split("/", 2)
    return "/".join(("persistent", *(quote(name, safe="") for name in names)))
