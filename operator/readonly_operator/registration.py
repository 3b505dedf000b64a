"""A pool as a cluster of its own in the writable cluster's metadata: `pulsar-admin clusters list` shows it.

Only its entry is written (ClustersBase of the admin API): no tenant and no namespace is given to it, so nothing is replicated.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_operator.api.binding import is_paused
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError, said
from readonly_operator.fetch import FetchError, get_json
from readonly_operator.names import FINALIZER_WRITER, PORT_HTTP, PORT_PULSAR
from readonly_operator.source import STEP_SECONDS, send_to
from readonly_operator.status import Condition, Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from readonly_operator.api.pool import Source
    from readonly_operator.fetch import Access
    from readonly_operator.names import PoolKey
    from readonly_operator.store import Store

logger = logging.getLogger(__name__)

TYPE = "ClusterRegistered"
RETRY_SECONDS = 10.0
REMOVE_SECONDS = dt.timedelta(minutes=2)
"""So long a deletion waits for a writable cluster that does not answer; then the entry stays, which is said."""
NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Entry:
    """What the metadata is to say.

    Attributes:
        name: of the cluster.
        broker_url: what clients use; it also tells whose entry it is.
        web_url: the brokers' HTTP.
    """

    name: str
    broker_url: str
    web_url: str

    @classmethod
    def of(cls, pool: Pool, cluster_domain: str) -> Entry | None:
        """The entry of a pool; None when it wants none."""
        name = pool.lookup.cluster_name
        host = f"{pool.key.name}.{pool.key.namespace}.svc.{cluster_domain}"
        return cls(name, f"pulsar://{host}:{PORT_PULSAR}", f"http://{host}:{PORT_HTTP}") if name else None

    def data(self) -> dict[str, str]:
        """As the admin API takes it."""
        return {"serviceUrl": self.web_url, "brokerServiceUrl": self.broker_url}


class Step(enum.Enum):
    """What an entry needs."""

    NOTHING = "nothing"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    TAKEN = "taken"


def step(wanted: Entry, found: Mapping[str, Any] | None, *, leaving: bool) -> Step:
    """What to do.

    Args:
        wanted: the entry.
        found: what the metadata has under the name; None for nothing.
        leaving: whether it is to go.
    """
    if found is None:
        return Step.NOTHING if leaving else Step.CREATE
    if found.get("brokerServiceUrl") != wanted.broker_url:
        return Step.NOTHING if leaving else Step.TAKEN
    if leaving:
        return Step.DELETE
    same = all(found.get(name) == value for name, value in wanted.data().items())
    return Step.NOTHING if same else Step.UPDATE


@dataclass(frozen=True, slots=True)
class Report:
    """What a pool is to say.

    Attributes:
        condition: ClusterRegistered; None when it wants no entry.
        released: whether a deletion of the pool need not wait.
    """

    condition: Condition | None = None
    released: bool = False


class ClusterDesk:
    """Keeps the entries of all pools that want one.

    Args:
        store: knows the pools.
        cluster_domain: DNS domain of the Kubernetes cluster.
        period: seconds between two looks at an entry.
        now: the time, with a time zone.
        changed: called with each pool whose report is new.
        accesses: what to show to the admin API of a source.
    """

    def __init__(
        self,
        store: Store,
        cluster_domain: str,
        period: float,
        now: Callable[[], dt.datetime],
        changed: Callable[[PoolKey], None],
        accesses: Callable[[Source], Access],
    ) -> None:
        self._accesses = accesses
        self._store = store
        self._domain = cluster_domain
        self._period = period
        self._now = now
        self._changed = changed
        self._reports: dict[PoolKey, Report] = {}
        self._looked: dict[PoolKey, tuple[object, float]] = {}

    def report(self, key: PoolKey) -> Report:
        """What a pool is to say."""
        return self._reports.get(key, Report())

    def look(self) -> float:
        """Look at every entry that is due, and at those of pools that have changed.

        Returns:
            Seconds until one is due again.
        """
        reports: dict[PoolKey, Report] = {}
        looked: dict[PoolKey, tuple[object, float]] = {}
        for body in self._store.pools():
            if not said(body, "lookup", "clusterName"):
                continue
            metadata = body["metadata"]
            deleted = metadata.get("deletionTimestamp")
            if deleted and FINALIZER_WRITER not in (metadata.get("finalizers") or ()):
                continue
            try:
                pool = Pool.load(body)
            except ApiSpecError:
                continue
            entry = Entry.of(pool, self._domain)
            if entry is None or (is_paused(body) and not deleted):
                continue
            held = FINALIZER_WRITER in (metadata.get("finalizers") or ())
            subject = (entry, pool.source, deleted, held)
            known, due = self._looked.get(pool.key, (None, 0.0))
            if known == subject and due > time.monotonic():
                reports[pool.key], looked[pool.key] = self.report(pool.key), (known, due)
                continue
            made = self._remove(entry, pool.source, deleted) if deleted else self._keep(entry, pool.source, held=held)
            good = made.released or (made.condition is not None and made.condition.status is Truth.TRUE)
            reports[pool.key] = made
            looked[pool.key] = subject, time.monotonic() + (self._period if good else RETRY_SECONDS)
        before, self._reports, self._looked = self._reports, reports, looked
        for key in before.keys() | reports.keys():
            if before.get(key) != reports.get(key):
                self._changed(key)
        return max(0.0, min((due for _, due in looked.values()), default=float("inf")) - time.monotonic())

    def _keep(self, entry: Entry, source: Source, *, held: bool) -> Report:
        if not held:
            return Report(Condition(TYPE, Truth.FALSE, "NotRegistered", "the pool gets a finalizer first"))
        try:
            access = self._accesses(source)
            found = _found(source, entry.name, access)
            todo = step(entry, found, leaving=False)
            if todo is Step.TAKEN:
                other = (found or {}).get("brokerServiceUrl") or (found or {}).get("serviceUrl")
                return Report(
                    Condition(
                        TYPE,
                        Truth.FALSE,
                        "NameTaken",
                        f"the writable cluster's metadata has another cluster {entry.name}, at {other}: it is left alone; make "
                        "the pool anew with another spec.lookup.clusterName",
                    )
                )
            if todo is not Step.NOTHING:
                _write("PUT" if todo is Step.CREATE else "POST", source, entry, access)
                logger.info("cluster %s: %sd in the writable cluster's metadata", entry.name, todo.value)
        except FetchError as error:
            return Report(
                Condition(
                    TYPE,
                    Truth.FALSE,
                    "NotRegistered",
                    f"cluster {entry.name} cannot be written at {source.admin_url}: {error}; the admin API must allow it, which "
                    "takes a super-user of the writable cluster",
                )
            )
        return Report(Condition(TYPE, Truth.TRUE, "Registered", f"cluster {entry.name} is {entry.broker_url}"))

    def _remove(self, entry: Entry, source: Source, deleted: str) -> Report:
        try:
            access = self._accesses(source)
            if step(entry, _found(source, entry.name, access), leaving=True) is Step.DELETE:
                _write("DELETE", source, entry, access)
                logger.info("cluster %s: removed from the writable cluster's metadata", entry.name)
        except FetchError as error:
            message = f"cluster {entry.name} cannot be removed at {source.admin_url}: {error}"
            if self._now() - dt.datetime.fromisoformat(deleted) > REMOVE_SECONDS:
                logger.warning("%s; it stays: pulsar-admin clusters delete %s", message, entry.name)
                return Report(released=True)
            return Report(Condition(TYPE, Truth.FALSE, "Removing", message))
        return Report(released=True)


def _found(source: Source, name: str, access: Access) -> dict[str, Any] | None:
    problem = FetchError("no host")
    for url in source.admin_urls:
        try:
            found = get_json(f"{url}/admin/v2/clusters/{name}", STEP_SECONDS, access)
        except FetchError as error:
            if error.status == NOT_FOUND:
                return None
            problem = error
        else:
            return found if isinstance(found, dict) else {}
    raise problem


def _write(method: str, source: Source, entry: Entry, access: Access) -> None:
    data = None if method == "DELETE" else entry.data()
    try:
        send_to(source, method, f"/admin/v2/clusters/{entry.name}", data, STEP_SECONDS, access)
    except FetchError as error:
        raise FetchError(_words(error), error.status) from None


def _words(error: FetchError) -> str:
    """The admin API's own reason, out of its JSON."""
    text = str(error)
    head, _, body = text.partition(": ")
    try:
        return f"{head}: {json.loads(body)['reason']}"
    except (ValueError, KeyError, TypeError):
        return text
