"""Locality of brokers: labels of their nodes, written as an annotation on their pods; a volume shows it to the broker.

Kubernetes 1.35 copies zone and region of a node to its pods. For older versions and other labels the operator reads the node.
Labels of a node are cached. When one is missing, each new pod triggers one more read: labels are often set shortly before the
pods that need them start.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import NODE, POD, Manifest
from readonly_operator.kube.names import ANNOTATION_LOCALITY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

CACHE_TTL_SECONDS = 600.0
"""How long labels of a node are cached, and the fact that a pod triggered a read."""


def locality_path(labels: Sequence[str], pod: Mapping[str, str], node: Mapping[str, str]) -> str:
    """Return the locality `/OUTER/INNER` of these labels; empty unless all are present.

    Args:
        labels: label keys, the outermost first.
        pod: the pod's labels.
        node: its node's labels.
    """
    values = [pod.get(label) or node.get(label, "") for label in labels]
    return "".join(f"/{value}" for value in values) if values and all(values) else ""


class LocalityAnnotator:
    """Write localities on pods.

    Args:
        kube: the API server.
        store: the known objects; annotated pods are put there.
        clock: seconds, monotonic.
    """

    def __init__(self, kube: Kube, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[float, dict[str, str]]] = {}
        self._asked_for: dict[str, float] = {}
        self._complained = False

    def annotate(self, pods: Sequence[Manifest], labels: Sequence[str]) -> list[str]:
        """Write the locality on each scheduled pod unless it is there already.

        Returns:
            Reasons of refused annotations; empty when there are none.

        Raises:
            KubeError: the request failed and should be retried.
        """
        refusals = []
        for pod in pods:
            metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName")
            known = (metadata.get("annotations") or {}).get(ANNOTATION_LOCALITY, "")
            if not labels or not node:
                continue
            own = metadata.get("labels") or {}
            found = locality_path(labels, own, {}) or locality_path(
                labels, own, self._labels_of(node, labels, metadata["uid"])
            )
            if found and found != known:
                marks = {ANNOTATION_LOCALITY: found}
                try:
                    after = self._kube.annotate(POD, metadata["namespace"], metadata["name"], marks)
                except KubeError as error:
                    if not error.refused:
                        raise
                    refusals.append(str(error))
                    continue
                if after is not None:
                    self._store.put(POD, after)
        return refusals

    def _labels_of(self, name: str, wanted: Sequence[str], pod: str) -> dict[str, str]:
        now = self._clock()
        with self._lock:
            self._nodes = {node: known for node, known in self._nodes.items() if now - known[0] < CACHE_TTL_SECONDS}
            self._asked_for = {uid: at for uid, at in self._asked_for.items() if now - at < CACHE_TTL_SECONDS}
            if name in self._nodes:
                known = self._nodes[name][1]
                if known.keys() >= set(wanted) or pod in self._asked_for:
                    return known
            self._asked_for[pod] = now
        try:
            node = self._kube.get(NODE, "", name)
        except KubeError as error:
            if not self._complained:
                self._complained = True
                logger.warning("node labels cannot be read, so brokers do not know their locality: error=%s", error)
            node = None
        labels: dict[str, str] = ((node or {}).get("metadata") or {}).get("labels") or {}
        with self._lock:
            self._nodes[name] = now, labels
        return labels
