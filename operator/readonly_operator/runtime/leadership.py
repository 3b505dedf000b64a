"""Leader election by a Lease: one of several processes acts, and another takes over when it ends."""

from __future__ import annotations

import datetime as dt
import logging
import os
import signal
import socket
import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from readonly_operator import metrics
from readonly_operator.kube.api_server import HTTP_CONFLICT, ApiServer, KubeError
from readonly_operator.kube.kinds import LEASE
from readonly_operator.runtime.lease import Election, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from readonly_operator.kube.api_server import Kube
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.settings import Settings

logger = logging.getLogger(__name__)

EXIT_LOST = 3
"""Exit status of a process that lost the Lease."""


class Leadership:
    """Acquire, renew and release a Lease.

    Args:
        kube: the API server, with a request deadline shorter than the Lease's duration.
        namespace: of the Lease.
        name: of the Lease.
        terms: identity and durations.
        lost: called on a thread of its own when another process may have taken over: this process must end at once.
    """

    def __init__(self, kube: Kube, namespace: str, name: str, terms: Terms, lost: Callable[[], None]) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._terms = terms
        self._lost = lost
        self._election = Election(terms)
        self._stopped = threading.Event()
        self._known: Manifest | None = None
        self._threads: list[threading.Thread] = []
        self._waits_for = ""

    def acquire(self, stop: threading.Event) -> bool:
        """Wait for the Lease, then keep it.

        Returns:
            False when `stop` was set first.
        """
        while not stop.is_set():
            if self._try():
                logger.info(
                    "lease acquired: lease=%s/%s identity=%s", self._namespace, self._name, self._terms.identity
                )
                for target in (self._renew, self._watch):
                    thread = threading.Thread(target=target, name=f"lease{target.__name__}", daemon=True)
                    thread.start()
                    self._threads.append(thread)
                metrics.set_leader(yes=True)
                return True
            if self._election.holder != self._waits_for:
                self._waits_for = self._election.holder
                logger.info(
                    "waiting for the lease: lease=%s/%s holder=%s", self._namespace, self._name, self._waits_for
                )
            stop.wait(self._terms.retry_seconds)
        return False

    def release(self) -> None:
        """Release the Lease, so that another process need not wait until it expires."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=self._terms.seconds)
        if not self._threads or self._known is None or not self._election.holds:
            return
        metrics.set_leader(yes=False)
        try:
            self._put(self._election.released(dt.datetime.now(dt.UTC)))
        except KubeError as error:
            logger.warning("lease not released, expires: lease=%s/%s error=%s", self._namespace, self._name, error)
        else:
            logger.info("lease released: lease=%s/%s", self._namespace, self._name)

    def _try(self) -> bool:
        """Read the Lease, and acquire or renew it if allowed."""
        began = time.monotonic()
        try:
            self._known = self._kube.get(LEASE, self._namespace, self._name)
            self._election.observe({} if self._known is None else self._known.get("spec") or {}, began)
            if not self._election.may_take(began):
                return False
            self._put(self._election.spec(dt.datetime.now(dt.UTC)))
        except KubeError as error:
            if error.status != HTTP_CONFLICT:  # another process was faster; the next read shows its identity
                logger.warning("lease request failed: lease=%s/%s error=%s", self._namespace, self._name, error)
            return False
        self._election.acquired(began)
        return True

    def _put(self, spec: dict[str, Any]) -> None:
        metadata = {"name": self._name, "namespace": self._namespace}
        if self._known is not None:
            metadata["resourceVersion"] = self._known["metadata"]["resourceVersion"]
        self._known = self._kube.put(
            {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
        )
        self._election.observe(self._known["spec"], time.monotonic())

    def _renew(self) -> None:
        while not self._stopped.wait(self._terms.retry_seconds):
            self._try()
            if self._is_lost():
                return

    def _watch(self) -> None:
        """Watch the deadline on a thread of its own: the renewing thread may hang in a request."""
        while not self._stopped.wait(max(0.0, self._election.left_seconds(time.monotonic()))):
            if self._is_lost():
                return

    def _is_lost(self) -> bool:
        if self._election.left_seconds(time.monotonic()) > 0:
            return False
        logger.error(
            "lease lost, ending: another process may act: lease=%s/%s holder=%s",
            self._namespace,
            self._name,
            self._election.holder or "nobody",
        )
        self._lost()
        return True


@contextmanager
def leading(settings: Settings, is_active: Callable[[], bool]) -> Iterator[bool]:
    """Hold the Lease of the settings, if they name one; wait for it first.

    Args:
        settings: of this process.
        is_active: whether a step is still running at the end; then the Lease is not released, but expires.

    Yields:
        Whether this process may act; False when a signal came first.

    Raises:
        NoConfigurationError: no Kubernetes configuration names an API server.
    """
    if not settings.lease:
        metrics.set_leader(yes=True)
        yield True
        return
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    namespace, _, name = settings.lease.partition("/")
    terms = Terms(f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}", settings.lease_seconds)
    kube = ApiServer(timeout_seconds=max(1, int(terms.deadline_seconds / 2)))
    leadership = Leadership(kube, namespace, name, terms, _end_at_once)
    try:
        leads = leadership.acquire(stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    try:
        yield leads
    finally:
        if is_active():
            logger.warning("lease not released, expires: a step is still running: lease=%s", settings.lease)
        else:
            leadership.release()


def _end_at_once() -> None:
    """End the process at once: nothing may run on beside the process that takes over."""
    logging.shutdown()
    os._exit(EXIT_LOST)
