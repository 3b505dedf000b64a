"""Kubernetes Events about pools and bindings, for `kubectl describe` and `kubectl get events`.

A repeated event is counted in one object. The object's name is a hash of the event, so a restart of the operator does not matter.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_operator import metrics
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.digest import digest
from readonly_operator.kube.kinds import EVENT, Kind, Manifest
from readonly_operator.kube.names import OPERATOR

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Mapping

    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.status import Condition

logger = logging.getLogger(__name__)

NORMAL, WARNING = "Normal", "Warning"

MESSAGE_LIMIT = 1000
"""Characters of a message; the API server accepts 1024."""

ABOUT_LIMIT = 230
"""Characters of the object's name in the event's name, which may have 253."""

REPEAT_SECONDS = 300.0
"""Shortest time between two counts of the same event."""

BURST = 20
PER_SECOND = 1.0
"""Events per second of all objects together. It protects the API server and etcd when many pools fail for one reason."""

MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Notice:
    """An event before it is written.

    Attributes:
        type: NORMAL or WARNING.
        reason: one CamelCase word.
        message: a sentence; never a secret.
    """

    type: str
    reason: str
    message: str


_NOTICES = {
    ("Ready", "True"): NORMAL,
    ("LookupConfigured", "True"): NORMAL,
    ("SourceReachable", "True"): NORMAL,
    ("SourceReachable", "False"): WARNING,
    ("ExplicitLac", "True"): NORMAL,
    ("ExplicitLac", "False"): WARNING,
    ("Paused", "True"): NORMAL,
}
"""Changes of conditions that make an event, whatever their reason, and its type."""
_TROUBLE = frozenset(
    {
        *(
            "InvalidSpec",
            "NameConflict",
            "Conflict",
            "PoolNotFound",
            "PoolFailed",
            "PoolNameTaken",
            "TooLarge",
            *("NotAllowedByPool", "NamespaceNotServed"),
            "BrokerRefuses",
            "Refused",
        ),
        *("Rolling", "RollStopped", "Reverted", "NotTaken"),  # managed explicit LAC
        *("EncryptionRequired", "PartitionLimit", "TopicLimit", "SubscriptionLimit"),  # local cursors
        *("InactiveTopicsDeleted", "SubscriptionsExpire", "CompactionReplaced"),
    }
)
"""Reasons of conditions that make a warning."""
_ONCE = ("Ready", "LookupConfigured", "SourceReachable", "ExplicitLac", "LocalCursors", "Paused")


def of_conditions(before: Mapping[str, Any], after: Iterable[Condition]) -> list[Notice]:
    """Return the events of a change of conditions.

    Args:
        before: the status so far.
        after: the new conditions.
    """
    known = {one["type"]: (one["status"], one["reason"]) for one in before.get("conditions") or ()}
    found: list[Notice] = []
    for condition in after:
        now = condition.status.value, condition.reason
        was = known.get(condition.type)
        if condition.type not in _ONCE or was == now:
            continue
        kind = _NOTICES.get((condition.type, condition.status.value))
        if condition.reason in _TROUBLE:
            kind = WARNING
        elif was is not None and was[0] == condition.status.value:
            kind = None  # only the reason changed
        elif condition.type == "Paused" and was is not None and was[0] == "True":
            found.append(Notice(NORMAL, "Resumed", "the operator reconciles it again"))
        if kind and not any(one.message == condition.message for one in found):
            found.append(Notice(kind, condition.reason, condition.message))
    return found


class Budget:
    """Token bucket that limits writes, of events by default. Pure.

    Args:
        now: the time in seconds.
        burst: most tokens.
        per_second: new tokens in a second.
    """

    def __init__(self, now: float, burst: int = BURST, per_second: float = PER_SECOND) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = float(burst)
        self._at = now

    def consume(self, now: float) -> bool:
        """Take a token; return False when there is none."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Recorder:
    """Write events; drop an event that cannot be written.

    Args:
        kube: the API server.
        now: the time, with a time zone.
        clock: seconds, monotonic.
    """

    def __init__(self, kube: Kube, now: Callable[[], dt.datetime], clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._now = now
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}
        self._budget = Budget(clock())
        self._instance = os.environ.get("POD_NAME") or socket.gethostname()

    def record(self, kind: Kind, body: Manifest, notices: Iterable[Notice]) -> None:
        """Write the events of an object."""
        for notice in notices:
            name = event_name(body, notice)
            if self._may(name):
                try:
                    self._write(kind, body, notice, name)
                except KubeError as error:
                    logger.info(
                        "event not written: reason=%s object=%s error=%s",
                        notice.reason,
                        body["metadata"]["name"],
                        error,
                    )

    def _may(self, name: str) -> bool:
        now = self._clock()
        with self._lock:
            last = self._last.get(name)
            if last is not None and now - last < REPEAT_SECONDS:
                return False
            if not self._budget.consume(now):
                return False
            if len(self._last) >= MAX_REMEMBERED:
                self._last = {one: at for one, at in self._last.items() if now - at < REPEAT_SECONDS}
            self._last[name] = now
            return True

    def _write(self, kind: Kind, body: Manifest, notice: Notice, name: str) -> None:
        known = self._kube.get(EVENT, body["metadata"]["namespace"], name)
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        self._kube.apply(manifest(kind, body, notice, known, stamp, self._instance))
        metrics.count_event(notice.type)


def event_name(body: Manifest, notice: Notice) -> str:
    """Return the name of the event object: the same for the same event of the same object."""
    metadata = body["metadata"]
    about = str(metadata["name"])[:ABOUT_LIMIT].rstrip("-.")
    return f"{about}.{digest([metadata['uid'], notice.type, notice.reason, notice.message])}"


def manifest(kind: Kind, body: Manifest, notice: Notice, known: Manifest | None, stamp: str, instance: str) -> Manifest:
    """Return the event object.

    Args:
        kind: kind of the object that the event is about.
        body: that object.
        notice: the event.
        known: the existing event object, when the event repeats.
        stamp: the time.
        instance: name of the operator's process.
    """
    metadata = body["metadata"]
    before = known or {}
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": event_name(body, notice), "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": notice.type,
        "reason": notice.reason,
        "message": notice.message[:MESSAGE_LIMIT],
        "firstTimestamp": before.get("firstTimestamp") or stamp,
        "lastTimestamp": stamp,
        "count": int(before.get("count") or 0) + 1,
        "source": {"component": OPERATOR, "host": instance},
        "reportingComponent": OPERATOR,
        "reportingInstance": instance,
    }
