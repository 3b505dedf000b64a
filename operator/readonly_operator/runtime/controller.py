"""Controller: receives watch events, keeps the store, and runs workers that reconcile the affected pools."""

from __future__ import annotations

import datetime as dt
import logging
import random
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from readonly_operator import metrics
from readonly_operator.api.pool import Pool, Source
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.assembly.brokers import Brokers
from readonly_operator.assembly.context import Context
from readonly_operator.assembly.locality import LocalityAnnotator
from readonly_operator.assembly.lookup_history import LookupHistory
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.assembly.rollouts import RolloutBudget
from readonly_operator.assembly.source_refs import is_reported
from readonly_operator.assembly.status_throttle import StatusThrottle
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.cluster.broker_ports import BrokerPorts
from readonly_operator.cluster.source_clusters import SourceClusters
from readonly_operator.kube.api_server import Kube, KubeError, Right, missing_kinds
from readonly_operator.kube.apply import Applier
from readonly_operator.kube.events import Recorder
from readonly_operator.kube.kinds import BINDING, NAMESPACE, OPTIONAL, POD, POOL, SOURCE, WATCHED, Kind, Manifest
from readonly_operator.kube.names import PoolKey
from readonly_operator.kube.scopes import Scopes
from readonly_operator.kube.store import Store
from readonly_operator.runtime.workqueue import WorkQueue

if TYPE_CHECKING:
    from readonly_operator.settings import Settings

logger = logging.getLogger(__name__)

MIN_POLL_SECONDS = 0.1
MAX_POLL_SECONDS = 30.0
MIN_RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 60.0
SCOPE_SECONDS = 10.0
"""Delay between two checks of namespaces that cannot be read."""
RELIST_SECONDS = 5.0
"""Delay between a restart of the watches and a full list: watches do not report deletions in between."""
FOREIGN_SECONDS = 1.0
"""Delay after a change of a binding of another namespace. Its users, whom the pool may not even allow, must not keep a worker and
the pool's brokers busy: each reconcile handles all their changes since."""
STOP_SECONDS = 5.0
STUCK_SECONDS = 300.0
"""A reconcile that takes longer is stuck, and fails the liveness probe. Each of its steps has a much shorter deadline."""


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _source_key(body: Manifest) -> PoolKey:
    """Return a key whose reconcile reports on a ReadOnlySource: that of a pool of the same name, which need not exist."""
    return PoolKey(body["metadata"]["namespace"], body["metadata"]["name"])


class NotInstalledError(Exception):
    """The API server does not serve the operator's kinds."""


class Controller:
    """Reconcile pools, each by at most one worker at a time.

    Args:
        kube: the API server.
        settings: of this process.
    """

    def __init__(self, kube: Kube, settings: Settings) -> None:
        self._kube = kube
        self._settings = settings
        self._store = Store(BindingTopicIndex(), settings.selector)
        self._scopes = Scopes(settings.namespaces)
        self._queue = WorkQueue(on_add=metrics.count_add, on_get=metrics.observe_wait)
        self._stopped = threading.Event()
        ports = BrokerPorts(kube, settings.cluster_domain)
        self._brokers = Brokers(kube, self._store, settings.broker_timeout_seconds, ports)
        self._clusters = SourceClusters(
            kube,
            self._store,
            settings.source_check_seconds,
            settings.cluster_domain,
            _now,
            self._queue.add,
            self._source_changed,
            ports,
        )
        self._context = Context(
            kube=kube,
            store=self._store,
            applier=Applier(kube, self._store),
            brokers=self._brokers,
            locality_annotator=LocalityAnnotator(kube, self._store),
            sources=self._clusters.sources,
            lac=self._clusters.lac,
            registrations=self._clusters.registrations,
            probes=self._clusters.probes,
            cursor_checks=self._clusters.cursor_checks,
            cursor_releases=self._clusters.cursor_releases,
            lookup_history=LookupHistory(),
            status_throttle=StatusThrottle(),
            rollouts=RolloutBudget(self._store, settings.rolling_pools, is_lost=self._scopes.problem),
            events=Recorder(kube, _now),
            settings=settings,
            now=_now,
            scopes=self._scopes,
        )
        self._rewatched = threading.Event()
        self._refused = threading.Event()
        self._delays: dict[PoolKey, float] = {}
        self._started: dict[str, float] = {}
        self._workers: list[threading.Thread] = []
        self._threads: list[threading.Thread] = []
        metrics.watch_queue(self._queue, self._longest_reconcile)
        metrics.watch_store(self._store, self._scopes.states)

    def start(self) -> None:
        """List all objects, then start the workers: all bindings must be known before the first reconcile.

        Raises:
            NotInstalledError: the custom resource definitions are missing.
            KubeError: the API server refused a list in every served namespace.
        """
        for namespace in self.check_scopes():
            missing = missing_kinds(self._kube, (POOL, BINDING), namespace)
            if missing:
                names = " and ".join(f"{kind.plural}.{kind.group}" for kind in missing)
                raise NotInstalledError(f"the cluster has no {names}; install them: kubectl apply -k crds/")
        self.resync()
        lost = self._scopes.lost
        if len(lost) == len(self._scopes.names):
            raise KubeError(next(iter(lost.values())), HTTPStatus.FORBIDDEN)
        self._workers += [
            threading.Thread(target=self._work, name=f"worker-{index}", daemon=True)
            for index in range(self._settings.workers)
        ]
        resync = threading.Thread(target=self._resync_loop, name="resync", daemon=True)
        scopes = threading.Thread(target=self._check_scopes_now_and_then, name="scopes", daemon=True)
        self._threads += [*self._workers, resync, scopes]
        for thread in self._threads:
            thread.start()
        self._clusters.start()

    def stop(self) -> None:
        """Let the workers finish for a limited time: another process may wait for the Lease."""
        self._stopped.set()
        self._rewatched.set()
        self._refused.set()
        self._queue.close()
        self._clusters.stop()
        self._brokers.close()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))
        self._clusters.join(deadline)

    def is_active(self) -> bool:
        """Return whether a step may still change something after `stop`."""
        return self._clusters.is_active() or any(thread.is_alive() for thread in self._workers)

    def observe(self, kind: Kind, event: str | None, body: Manifest) -> None:
        """Handle a watch event.

        Args:
            kind: of the object.
            event: ADDED, MODIFIED, DELETED; None for an existing object when a watch begins.
            body: the object.
        """
        if event is None:
            self._rewatched.set()
        if kind == NAMESPACE:
            touched = self._observe_namespace(event, body)
        elif event == "DELETED":
            touched = self._store.remove(kind, body)
            if kind == POD:
                self._brokers.forget(body)
        else:
            touched = self._store.put(kind, body)
            if kind == SOURCE and not is_reported(body):
                touched = touched | {_source_key(body)}
        for key in touched:
            foreign = kind == BINDING and body["metadata"]["namespace"] != key.namespace
            if not foreign:
                self._delays.pop(key, None)
            self._queue.add(key, FOREIGN_SECONDS if foreign else 0.0)
        if kind == POOL:
            self._clusters.wake()

    def may_watch_namespaces(self) -> bool:
        """Return whether the operator may watch all namespaces. One that serves single namespaces reads their labels in `resync`.

        Raises:
            KubeError: the API server did not answer.
        """
        if self._settings.namespaces:
            return False
        try:
            return self._kube.may(Right("watch", NAMESPACE.group, NAMESPACE.plural, namespace=""))
        except KubeError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return False  # it may not even ask; labels are optional, and pools need no watch of them

    def watch_refused(self) -> None:
        """Note that the API server refused a watch: check soon whether the namespaces can still be read."""
        self._refused.set()

    def check_scopes(self) -> tuple[str | None, ...]:
        """Ask for each served namespace whether it can be read, and record those that cannot.

        Returns:
            Those that can. A lost one among them counts as lost until all its objects are listed.

        Raises:
            KubeError: the API server did not answer.
        """
        found = []
        for name in self._scopes.names:
            try:
                # a lost one needs all rights again, else it would be regained and lost in turn
                missing_kinds(self._kube, WATCHED if name in self._scopes.lost else (POOL,), name)
            except KubeError as error:
                self._lose(name, error)
            else:
                found.append(name)
        return tuple(found)

    def resync(self) -> None:
        """List all objects, and reconcile every pool."""
        readable = list(self.check_scopes())
        # before the bindings: a restart must not release one whose namespace is allowed
        touched = self._refresh_namespaces()
        lacking = missing_kinds(self._kube, tuple(OPTIONAL), readable[0]) if readable else []
        if readable:
            self._store.set_unserved(lacking)
        for kind in WATCHED:
            began = self._store.checkpoint()
            bodies: list[Manifest] = []
            for name in tuple(readable):
                try:
                    bodies += () if kind in lacking else self._kube.list(kind, name)
                except KubeError as error:
                    self._lose(name, error)
                    readable.remove(name)
            if readable:
                listed = tuple(name for name in readable if name is not None)
                touched |= self._store.replace(kind, bodies, listed, began)
        for name in readable:
            self._scopes.regain(name)
        touched |= {_source_key(body) for body in self._store.sources() if not is_reported(body)}
        self._clusters.sources.keep(self._named_sources())
        for key in touched:
            self._queue.add(key)

    def alive(self) -> bool:
        """Return whether all threads run, and none is stuck."""
        now = time.monotonic()
        return (
            self._clusters.is_healthy()
            and all(thread.is_alive() for thread in self._threads)
            and all(now - since < STUCK_SECONDS for since in self._started.copy().values())
        )

    def _longest_reconcile(self) -> float:
        """Return for how many seconds the longest present reconcile has run; 0 without one."""
        now = time.monotonic()
        return max((now - since for since in self._started.copy().values()), default=0.0)

    def _lose(self, name: str | None, error: KubeError) -> None:
        """Record a namespace that the API server refuses to show.

        Raises:
            KubeError: the error itself, if it is none of missing rights.
        """
        if error.status != HTTPStatus.FORBIDDEN:
            raise error
        self._scopes.lose(name, str(error))

    def _observe_namespace(self, event: str | None, body: Manifest) -> set[PoolKey]:
        """Record the labels of a namespace; return the pools that a change affects."""
        name, known = body["metadata"]["name"], self._store.namespaces
        changed = known.drop(name) if event == "DELETED" else known.put(body)
        return self._store.bound_from(name) if changed else set()

    def _refresh_namespaces(self) -> set[PoolKey]:
        """Read the labels of all served namespaces; return the pools that a change affects. Lost namespaces keep theirs."""
        known = self._store.namespaces
        began = known.checkpoint()
        try:
            if self._settings.namespaces:
                lost = self._scopes.lost
                names = [name for name in self._settings.namespaces if name not in lost]
                found = [self._kube.get(NAMESPACE, "", name) for name in names]
                changed = known.replace((body for body in found if body is not None), began, keep=lost)
            else:
                changed = known.replace(self._kube.list(NAMESPACE, None), began)
        except KubeError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            changed = known.forbid(str(error))
        return {key for name in changed for key in self._store.bound_from(name)}

    def _work(self) -> None:
        name = threading.current_thread().name
        while (key := self._queue.get()) is not None:
            self._started[name] = time.monotonic()
            try:
                self._reconcile(key)
            finally:
                del self._started[name]
                self._queue.done(key)

    def _reconcile(self, key: PoolKey) -> None:
        pool = self._store.get(POOL, key.namespace, key.name)
        if pool is not None and self._scopes.problem(key.namespace):
            self._delays.pop(key, None)
            return  # every request about it would be refused; the list of a regained namespace reconciles it
        if pool is not None and not self._store.selects(pool):
            self._delays.pop(key, None)
            self._clusters.cursor_checks.track(key, {})
            self._clusters.cursor_releases.track(key, {})
            return  # another operator's, perhaps since its labels changed
        try:
            with metrics.time_reconcile():
                outcome = reconcile(self._context, key)
        except KubeError as error:
            self._again(key, MIN_RETRY_SECONDS, MAX_RETRY_SECONDS)
            metrics.count_failure(metrics.POOLS)
            logger.warning("reconcile failed, retrying: pool=%s error=%s", key, error)
        except Exception:
            self._again(key, MIN_RETRY_SECONDS, MAX_RETRY_SECONDS)
            metrics.count_failure(metrics.POOLS)
            logger.exception("reconcile failed, retrying: pool=%s", key)
        else:
            if outcome.requeue:
                self._again(key, MIN_POLL_SECONDS, MAX_POLL_SECONDS)
            else:
                self._delays.pop(key, None)
                if outcome.refresh_seconds:
                    self._queue.add(key, outcome.refresh_seconds * random.uniform(0.9, 1.1))  # noqa: S311 (jitter, no secret)

    def _again(self, key: PoolKey, first: float, longest: float) -> None:
        delay = min(self._delays.get(key, first / 2) * 2, longest)
        self._delays[key] = delay
        self._queue.add(key, delay * random.uniform(0.9, 1.1))  # noqa: S311 (jitter, no secret)

    def _resync_loop(self) -> None:
        while not self._stopped.is_set():
            if self._rewatched.wait(self._settings.resync_seconds * random.uniform(0.8, 1.2)):  # noqa: S311 (jitter, no secret)
                if self._stopped.wait(RELIST_SECONDS):
                    return
                self._rewatched.clear()
            try:
                self.resync()
            except Exception:
                logger.exception("resync failed, retrying later")

    def _check_scopes_now_and_then(self) -> None:
        while not self._stopped.is_set():
            self._refused.wait(SCOPE_SECONDS if self._scopes.lost else None)
            if self._stopped.is_set():
                return
            self._refused.clear()
            try:
                if any(name in self._scopes.lost for name in self.check_scopes()):
                    self._rewatched.set()
            except KubeError as error:
                logger.info("namespaces not checked, trying again: error=%s", error)
                self._refused.set()
            except Exception:
                logger.exception("namespaces not checked")
            self._stopped.wait(SCOPE_SECONDS)

    def _source_changed(self, source: Source) -> None:
        for body in self._store.pools():
            if source in self._sources_of(body):
                self._clusters.wake()
                self._queue.add(PoolKey(body["metadata"]["namespace"], body["metadata"]["name"]))

    def _named_sources(self) -> set[Source]:
        return {source for body in self._store.pools() for source in self._sources_of(body)}

    def _sources_of(self, body: Manifest) -> set[Source]:
        try:
            return {Pool.load(body).source}
        except ApiSpecError:
            return set()
