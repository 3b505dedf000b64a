"""What the brokers of a pool hold, by their own word, and how they are told that there is something new."""

from __future__ import annotations

import http.client
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_operator.fetch import FetchError, get, get_json
from readonly_operator.kinds import POD, Manifest
from readonly_operator.names import ANNOTATION_BINDINGS_REVISION, PORT_HTTP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from readonly_operator.kube import Kube
    from readonly_operator.store import Store

THREADS = 16
WORDS = 300
"""Longest quotation, in characters."""
NUDGE_AGAIN_SECONDS = 2.0
"""A broker that holds the old config so long after the nudge was nudged before its kubelet saw the new ConfigMap."""

Holding = dict[str, tuple[str, ...]]
"""Topics by binding."""


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What one broker says of itself.

    Attributes:
        name: of the pod.
        asked: whether it could be asked.
        revision: of the config that it holds; None for none yet.
        bindings: what it holds.
        problem: why it could not be asked, or its own complaint about the config; empty for none.
        unready: why it does not serve yet, by its own word; empty when it serves or does not say.
    """

    name: str
    asked: bool
    revision: str | None = None
    bindings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    problem: str = ""
    unready: str = ""


def waiting_reason(pod: Manifest) -> str:
    """Why a pod's broker does not run: its own last word when it gave up, else what Kubernetes says; empty when it runs."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        for state in ("waiting", "terminated"):
            detail = (container.get("state") or {}).get(state)
            if detail:
                ended = (container.get("lastState") or {}).get("terminated") or detail
                lines = str(ended.get("message") or detail.get("message") or "").strip().splitlines()
                text = " ".join(lines[-1].split())[:WORDS] if lines else ""
                return str(detail.get("reason") or state) + (f" ({text})" if text else "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason', 'Unschedulable')} ({condition.get('message', '')})"
    return "" if status.get("phase") == "Running" else str(status.get("phase") or "Pending")


def is_ready(pod: Manifest) -> bool:
    """Whether a pod serves."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )


class Brokers:
    """Asks brokers and nudges their kubelets.

    Args:
        kube: the API server.
        store: what is known of it.
        timeout: deadline of one question, in seconds.
        clock: seconds, monotonic.
    """

    def __init__(self, kube: Kube, store: Store, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._store = store
        self._timeout = timeout
        self._clock = clock
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="ask-broker")
        self._nudged: dict[str, tuple[str, float]] = {}

    def ask(self, pods: Sequence[Manifest]) -> list[BrokerReport]:
        """What each of the pods holds, in the order of the pods; all are asked at the same time."""
        return list(self._threads.map(self._ask, pods))

    def nudge(self, pod: Manifest, revision: str) -> bool:
        """Change the pod's annotation, so that its kubelet refreshes the bindings at once instead of at its next round.

        A pod that was nudged for this revision is nudged again only after a while.

        Returns:
            Whether it was nudged.
        """
        metadata = pod["metadata"]
        now = self._clock()
        last, at = self._nudged.get(metadata["uid"], ("", 0.0))
        if last == revision and now - at < NUDGE_AGAIN_SECONDS:
            return False
        self._nudged[metadata["uid"]] = (revision, now)
        said, _, times = str((metadata.get("annotations") or {}).get(ANNOTATION_BINDINGS_REVISION, "")).partition(".")
        value = revision if said != revision else f"{revision}.{int(times or 0) + 1}"
        after = self._kube.annotate(POD, metadata["namespace"], metadata["name"], {ANNOTATION_BINDINGS_REVISION: value})
        if after is not None:
            self._store.put(POD, after)
        return after is not None

    def forget(self, pod: Manifest) -> None:
        """Drop what is remembered of a pod that is gone."""
        self._nudged.pop(pod["metadata"]["uid"], None)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, pod: Manifest) -> BrokerReport:
        name = pod["metadata"]["name"]
        address = (pod.get("status") or {}).get("podIP")
        reason = waiting_reason(pod)
        if reason or not address:
            return BrokerReport(name, asked=False, problem=reason or "it has no address yet")
        host = f"[{address}]" if ":" in address else address
        try:
            answer = get_json(f"http://{host}:{PORT_HTTP}/bindings", self._timeout)
            return _report(name, answer, "" if is_ready(pod) else self._unready(host))
        except FetchError as error:
            return BrokerReport(name, asked=False, problem=f"http://{host}:{PORT_HTTP}/bindings: {error}")

    def _unready(self, host: str) -> str:
        try:
            status, body = get(f"http://{host}:{PORT_HTTP}/readyz", self._timeout)
        except FetchError:
            return ""
        return "" if status == http.client.OK else " ".join(body.decode(errors="replace").split())[:WORDS]


def _report(name: str, answer: Any, unready: str) -> BrokerReport:
    try:
        return BrokerReport(
            name,
            asked=True,
            revision=answer["revision"],
            bindings=tuple((one["name"], tuple(one["topics"])) for one in answer["bindings"]),
            problem=answer.get("error") or "",
            unready=unready,
        )
    except (KeyError, TypeError):
        raise FetchError("the answer is not a broker's") from None
