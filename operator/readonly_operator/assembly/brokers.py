"""Queries of a pool's brokers, and the trigger that makes kubelets refresh the bindings."""

from __future__ import annotations

import http.client
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from readonly_operator.assembly.broker_report import BindingStats, BrokerReport, Lag, merged
from readonly_operator.cluster.fetch import FetchError, get, get_json
from readonly_operator.kube.kinds import POD, Manifest
from readonly_operator.kube.names import ANNOTATION_BINDINGS_REVISION
from readonly_operator.kube.pods import is_ready, waiting_reason
from readonly_operator.model.lookup import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from readonly_operator.cluster.broker_ports import BrokerPorts
    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.store import Store

MAX_CONCURRENT_QUERIES = 16
MAX_TIMEOUTS = 2
"""Deadlines of a query that all workers of a pod have together: with many silent pods the operator would else seem stuck."""
MAX_QUOTE_LENGTH = 300
"""Longest quotation in a message, in characters."""
MAX_INSTANCE_LENGTH = 128
"""Longest id of a BookKeeper cluster that is compared; BookKeeper's own have 36 characters."""
REFRESH_RETRY_SECONDS = 2.0
"""A trigger is repeated after so long: the first may reach the kubelet before it has seen the new ConfigMap."""

MATCHED_TTL_SECONDS = 30.0
"""How long the topics that a binding matches are cached; only new topics change them."""

SILENT_TTL_SECONDS = 30.0
"""How long a process that did not answer is not asked for topics again."""
MAX_SILENT = 3
"""Silent processes after which no other is asked for topics: a policy of the network may hide all brokers from the operator."""


class Brokers:
    """Query brokers, and trigger refreshes of their bindings.

    Args:
        kube: the API server.
        store: the known objects.
        timeout: deadline of one query, in seconds.
        ports: access to brokers.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        kube: Kube,
        store: Store,
        timeout: float,
        ports: BrokerPorts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._store = store
        self._timeout = timeout
        self._ports = ports
        self._clock = clock
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT_QUERIES, thread_name_prefix="ask-broker")
        self._refreshed: dict[str, tuple[str, float]] = {}
        self._matched: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._silent: dict[str, float] = {}

    def ask(self, pods: Sequence[Manifest]) -> list[BrokerReport]:
        """Query all pods at the same time, and each pod's workers in turn; return one report for each pod, in their order."""
        return list(self._threads.map(self._ask_pod, pods))

    def matched(self, pods: Sequence[Manifest], binding: str) -> tuple[str, ...]:
        """Return the topics that a binding matches, as one of the brokers with this binding reports; a recent answer is reused.

        Without a running broker the result is empty.
        """
        now = self._clock()
        said = self._matched.get(binding)
        if said is not None and now - said[0] < MATCHED_TTL_SECONDS:
            return said[1]
        silent = 0
        for pod, base in self._workers(filter(is_ready, pods)):
            if silent == MAX_SILENT:
                break
            if now - self._silent.get(base, -SILENT_TTL_SECONDS) < SILENT_TTL_SECONDS:
                silent += 1
                continue
            try:
                url = f"{base}/bindings/topics?binding={quote(binding, safe='')}"
                answer = get_json(url, self._timeout, self._ports.credentials(pod))
                topics = tuple(map(str, answer["topics"]))
            except FetchError as error:
                if not error.status:
                    silent += 1
                    known = self._silent.copy()
                    self._silent = {one: at for one, at in known.items() if now - at < SILENT_TTL_SECONDS} | {base: now}
                continue
            except (KeyError, TypeError):
                continue
            fresh = self._matched.copy()  # several workers call this
            self._matched = {name: known for name, known in fresh.items() if now - known[0] < MATCHED_TTL_SECONDS}
            self._matched[binding] = (now, topics)
            return topics
        return ()

    def idle_seconds(self, pods: Sequence[Manifest]) -> tuple[float | None, str]:
        """Return for how long no client has needed any of these brokers; None if one does not say so, and then the reason.

        All workers of all pods are asked at the same time.
        """
        for pod in pods:
            if not is_ready(pod):
                return None, f"{pod['metadata']['name']} is not ready"
        try:
            return min(self._threads.map(self._ask_idle, self._workers(pods)), default=None), ""
        except FetchError as error:
            return None, str(error)

    def _ask_idle(self, worker: tuple[Manifest, str]) -> float:
        pod, base = worker
        try:
            return float(get_json(f"{base}/idle", self._timeout, self._ports.credentials(pod))["seconds"])
        except FetchError as error:
            raise FetchError(f"{base}/idle: {error}") from error
        except (KeyError, TypeError, ValueError):
            raise FetchError(f"{base}/idle: the answer is not a broker's") from None

    def refresh_config_map(self, pod: Manifest, revision: str) -> bool:
        """Change the pod's annotation, so that its kubelet refreshes the bindings at once instead of at its next sync.

        The trigger for one revision is repeated only after a while.

        Returns:
            Whether the annotation was changed.
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
        """Drop the state of a deleted pod."""
        self._refreshed.pop(pod["metadata"]["uid"], None)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask_pod(self, pod: Manifest) -> BrokerReport:
        """Query the workers of a pod in turn, until they take too long: a silent pod costs two timeouts, not one for each worker.

        One worker that hangs does not hide the others: they may still serve a binding.
        """
        address = (pod.get("status") or {}).get("podIP")
        reason = waiting_reason(pod)
        if reason or not address:
            return BrokerReport(pod["metadata"]["name"], reachable=False, problem=reason or "it has no address yet")
        reports: list[BrokerReport] = []
        began = self._clock()
        for base in self._ports.urls(pod):
            if (took := self._clock() - began) >= MAX_TIMEOUTS * self._timeout:
                problem = f"not asked, because the workers before it took {took:.0f} s"
                reports.append(BrokerReport(pod["metadata"]["name"], reachable=False, problem=problem))
                break
            reports.append(self._ask(pod, base))
        found = merged(reports)
        if found.serving or not any(report.reachable for report in reports):
            return found
        return replace(found, unready=self._unready(pod))

    def _ask(self, pod: Manifest, base: str) -> BrokerReport:
        name = pod["metadata"]["name"]
        try:
            answer = get_json(f"{base}/bindings", self._timeout, self._ports.credentials(pod))
            return _report(name, answer, serving=is_ready(pod))
        except FetchError as error:
            return BrokerReport(name, reachable=False, problem=f"{base}/bindings: {error}")

    def _unready(self, pod: Manifest) -> str:
        try:
            status, body = get(f"{self._ports.shared_url(pod)}/readyz", self._timeout, self._ports.credentials(pod))
        except FetchError:
            return ""
        return "" if status == http.client.OK else " ".join(body.decode(errors="replace").split())[:MAX_QUOTE_LENGTH]

    def _workers(self, pods: Iterable[Manifest]) -> Iterator[tuple[Manifest, str]]:
        """Yield each process of these pods: its pod, and its URL."""
        for pod in pods:
            for url in self._ports.urls(pod):
                yield pod, url


def _report(name: str, answer: Any, *, serving: bool) -> BrokerReport:
    try:
        return BrokerReport(
            name,
            reachable=True,
            revision=answer["revision"],
            bindings=frozenset(map(Entry.parse, answer["bindings"])),  # each binding of the pool is looked up
            stats={one["name"]: _stats(one) for one in answer["bindings"]},
            serving=serving,
            problem=answer.get("error") or "",
            bookkeeper_instance=str(answer.get("bookkeeper_instance") or "")[:MAX_INSTANCE_LENGTH],
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
