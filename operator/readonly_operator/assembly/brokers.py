"""What the brokers of a pool hold, by their own word, and how they are told that there is something new."""

from __future__ import annotations

import http.client
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from readonly_operator.cluster.fetch import FetchError, get, get_json
from readonly_operator.kube.kinds import POD, Manifest
from readonly_operator.kube.names import ANNOTATION_BINDINGS_REVISION, PORT_HTTP
from readonly_operator.kube.pods import is_ready, waiting_reason
from readonly_operator.model.lookup import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.store import Store

MAX_CONCURRENT_QUERIES = 16
MAX_QUOTE_LENGTH = 300
"""Longest quotation, in characters."""
REFRESH_RETRY_SECONDS = 2.0
"""A broker that holds the old config so long after the nudge was nudged before its kubelet saw the new ConfigMap."""

MATCHED_TTL_SECONDS = 30.0
"""How long it counts which topics a binding matches: only topics that are made make it change."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the slowest subscription of a topic is behind at one broker.

    Attributes:
        topic: full name.
        subscription: the slowest.
        entries: that it has not acked.
    """

    topic: str
    subscription: str
    entries: int


@dataclass(frozen=True, slots=True)
class BindingStats:
    """What a binding comes to at one broker.

    Attributes:
        topics: how many it matches; None while the broker does not know.
        partitions: how many partitions they have.
        lag: of some topics that the broker serves.
    """

    topics: int | None = None
    partitions: int | None = None
    lag: tuple[Lag, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What one broker says of itself.

    Attributes:
        name: of the pod.
        reachable: whether it could be asked.
        revision: of the config that it holds; None for none yet.
        bindings: what it holds.
        stats: what comes of it, by the binding's name.
        serving: whether its pod takes clients.
        problem: why it could not be asked, or its own complaint about the config; empty for none.
        unready: why it does not serve yet, by its own word; empty when it serves or does not say.
    """

    name: str
    reachable: bool
    revision: str | None = None
    bindings: tuple[Entry, ...] = ()
    stats: Mapping[str, BindingStats] = field(default_factory=dict)
    serving: bool = False
    problem: str = ""
    unready: str = ""


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
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT_QUERIES, thread_name_prefix="ask-broker")
        self._refreshed: dict[str, tuple[str, float]] = {}
        self._matched: dict[str, tuple[float, tuple[str, ...]]] = {}

    def ask(self, pods: Sequence[Manifest]) -> list[BrokerReport]:
        """What each of the pods holds, in the order of the pods; all are asked at the same time."""
        return list(self._threads.map(self._ask, pods))

    def matched(self, pods: Sequence[Manifest], binding: str) -> tuple[str, ...]:
        """The topics that a binding matches, by the word of one of the brokers that hold it; what was said lately counts.

        None of them knows while none runs: there are no such topics then, as far as the operator can tell.
        """
        now = self._clock()
        said = self._matched.get(binding)
        if said is not None and now - said[0] < MATCHED_TTL_SECONDS:
            return said[1]
        for pod in filter(is_ready, pods):
            try:
                answer = get_json(f"{_base(pod)}/bindings/topics?binding={quote(binding, safe='')}", self._timeout)
                topics = tuple(map(str, answer["topics"]))
            except (FetchError, KeyError, TypeError):
                continue
            fresh = self._matched.copy()  # several workers ask
            self._matched = {name: known for name, known in fresh.items() if now - known[0] < MATCHED_TTL_SECONDS}
            self._matched[binding] = (now, topics)
            return topics
        return ()

    def refresh_config_map(self, pod: Manifest, revision: str) -> bool:
        """Change the pod's annotation, so that its kubelet refreshes the bindings at once instead of at its next round.

        A pod that was nudged for this revision is nudged again only after a while.

        Returns:
            Whether it was nudged.
        """
        metadata = pod["metadata"]
        now = self._clock()
        last, at = self._refreshed.get(metadata["uid"], ("", 0.0))
        if last == revision and now - at < REFRESH_RETRY_SECONDS:
            return False
        self._refreshed[metadata["uid"]] = (revision, now)
        said, _, times = str((metadata.get("annotations") or {}).get(ANNOTATION_BINDINGS_REVISION, "")).partition(".")
        value = revision if said != revision else f"{revision}.{int(times or 0) + 1}"
        after = self._kube.annotate(POD, metadata["namespace"], metadata["name"], {ANNOTATION_BINDINGS_REVISION: value})
        if after is not None:
            self._store.put(POD, after)
        return after is not None

    def forget(self, pod: Manifest) -> None:
        """Drop what is remembered of a pod that is gone."""
        self._refreshed.pop(pod["metadata"]["uid"], None)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, pod: Manifest) -> BrokerReport:
        name = pod["metadata"]["name"]
        address = (pod.get("status") or {}).get("podIP")
        reason = waiting_reason(pod)
        if reason or not address:
            return BrokerReport(name, reachable=False, problem=reason or "it has no address yet")
        base, ready = _base(pod), is_ready(pod)
        try:
            answer = get_json(f"{base}/bindings", self._timeout)
            return _report(name, answer, "" if ready else self._unready(base), serving=ready)
        except FetchError as error:
            return BrokerReport(name, reachable=False, problem=f"{base}/bindings: {error}")

    def _unready(self, base: str) -> str:
        try:
            status, body = get(f"{base}/readyz", self._timeout)
        except FetchError:
            return ""
        return "" if status == http.client.OK else " ".join(body.decode(errors="replace").split())[:MAX_QUOTE_LENGTH]


def _base(pod: Manifest) -> str:
    address = str(pod["status"]["podIP"])
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{PORT_HTTP}"


def _report(name: str, answer: Any, unready: str, *, serving: bool) -> BrokerReport:
    try:
        return BrokerReport(
            name,
            reachable=True,
            revision=answer["revision"],
            bindings=tuple(map(Entry.parse, answer["bindings"])),
            stats={one["name"]: _stats(one) for one in answer["bindings"]},
            serving=serving,
            problem=answer.get("error") or "",
            unready=unready,
        )
    except (KeyError, TypeError):
        raise FetchError("the answer is not a broker's") from None


def _stats(document: Mapping[str, Any]) -> BindingStats:
    matched = document.get("matched") or {}
    return BindingStats(
        matched.get("topics"),
        matched.get("partitions"),
        tuple(Lag(one["topic"], one["subscription"], one["entries"]) for one in document.get("lag") or ()),
    )
