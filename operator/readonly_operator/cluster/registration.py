"""Registration of a pool as a cluster in the source cluster's metadata, for `pulsar-admin clusters list`.

Only the entry is written (ClustersBase of the admin API). No tenant or namespace uses it, so nothing is replicated.

An entry names its pool by uid, in `listenerName`: the URL is the same for pools of one name in two Kubernetes clusters. Only
replicators to the cluster read that field, and none exists. It is in ClusterDataImpl of all supported releases.
"""

from __future__ import annotations

import contextlib
import enum
import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from readonly_operator.api.binding import is_paused
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError, spec_value
from readonly_operator.cluster.background import BackgroundController, guarded
from readonly_operator.cluster.fetch import FetchError, get_json
from readonly_operator.cluster.own_time import OwnTime
from readonly_operator.cluster.source import STEP_SECONDS, send_to
from readonly_operator.kube.names import FINALIZER_WRITER, PORT_HTTP, PORT_PULSAR, PoolKey
from readonly_operator.kube.status import Condition, ConditionStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from readonly_operator.api.pool import Source
    from readonly_operator.cluster.fetch import Credentials
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

TYPE = "ClusterRegistered"
RETRY_SECONDS = 10.0
REMOVE_SECONDS = 120.0
"""Time for which the removal is tried while the source cluster does not answer; then the entry stays, and a log line says so."""
NOT_FOUND = 404
POOL_PREFIX = "pool-"
"""Begins the `listenerName` of an entry; the uid of the pool follows."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Desired entry in the metadata.

    Attributes:
        name: of the cluster.
        broker_url: service URL of clients.
        web_url: HTTP URL of the brokers.
        uid: of the pool, which identifies the entry's owner.
    """

    name: str
    broker_url: str
    web_url: str
    uid: str

    @classmethod
    def of(cls, pool: Pool, cluster_domain: str) -> Entry | None:
        """Return the entry of a pool; None when it asks for none."""
        name = pool.lookup.cluster_name
        host = f"{pool.key.name}.{pool.key.namespace}.svc.{cluster_domain}"
        web_url = f"{'https' if pool.http.tls else 'http'}://{host}:{PORT_HTTP}"
        return cls(name, f"pulsar://{host}:{PORT_PULSAR}", web_url, pool.uid) if name else None

    @property
    def owner(self) -> str:
        """Return the `listenerName` of the entry."""
        return f"{POOL_PREFIX}{self.uid}"

    def data(self) -> dict[str, str]:
        """Return the entry as the admin API accepts it."""
        field = "serviceUrlTls" if self.web_url.startswith("https:") else "serviceUrl"
        return {field: self.web_url, "brokerServiceUrl": self.broker_url, "listenerName": self.owner}


class Step(enum.Enum):
    """Action that an entry needs."""

    NOTHING = "nothing"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    TAKEN = "taken"


def step(wanted: Entry, found: Mapping[str, Any] | None, *, leaving: bool) -> Step:
    """Return the next action.

    Args:
        wanted: the desired entry.
        found: the existing entry of this name; None for none.
        leaving: whether the entry is to be removed.
    """
    if found is None:
        return Step.NOTHING if leaving else Step.CREATE
    if found.get("listenerName") != wanted.owner:
        return Step.NOTHING if leaving else Step.TAKEN
    if leaving:
        return Step.DELETE
    same = all(found.get(name) == value for name, value in wanted.data().items())
    return Step.NOTHING if same else Step.UPDATE


@dataclass(frozen=True, slots=True)
class Report:
    """Report for a pool.

    Attributes:
        condition: ClusterRegistered; None when the pool asks for no entry.
        released: whether the pool's deletion need not wait.
    """

    condition: Condition | None = None
    released: bool = False


@dataclass(frozen=True, slots=True)
class Registration:
    """Desired state of a pool's entry.

    Attributes:
        entry: the entry.
        source: the source cluster.
        deleted: time of the pool's deletion request; empty for none.
        has_finalizer: whether the pool has the finalizer, without which its deletion would not wait.
    """

    entry: Entry
    source: Source
    deleted: str
    has_finalizer: bool

    @classmethod
    def of(cls, body: Manifest, cluster_domain: str) -> Registration | None:
        """Return the registration of a pool; None for none, or while the pool is paused.

        Raises:
            ApiSpecError: the spec is invalid.
        """
        if not spec_value(body, "lookup", "clusterName"):
            return None  # true for nearly all pools: saves parsing the spec
        metadata = body["metadata"]
        deleted, has_finalizer = (
            metadata.get("deletionTimestamp") or "",
            FINALIZER_WRITER in (metadata.get("finalizers") or ()),
        )
        ignored = not has_finalizer if deleted else is_paused(body)
        if ignored:
            return None
        pool = Pool.load(body)
        entry = Entry.of(pool, cluster_domain)
        return None if entry is None else cls(entry, pool.source, deleted, has_finalizer)


class RegistrationController(BackgroundController[PoolKey, Registration, Report]):
    """Maintain the entries of all pools that ask for one.

    Args:
        store: the known pools.
        cluster_domain: DNS domain of the Kubernetes cluster.
        period: seconds between two checks of an entry.
        changed: called with each pool whose report changed.
        credentials_for: returns the credentials for a source's admin API.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        store: Store,
        cluster_domain: str,
        period: float,
        changed: Callable[[PoolKey], None],
        credentials_for: Callable[[Source], Credentials],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(changed, Report())
        self._credentials_for = credentials_for
        self._store = store
        self._domain = cluster_domain
        self._period = period
        self._clock = clock
        self._removing: dict[PoolKey, OwnTime] = {}

    def _subjects(self) -> dict[PoolKey, Registration | None]:
        found: dict[PoolKey, Registration | None] = {}
        for body in self._store.pools():
            key = PoolKey(body["metadata"]["namespace"], body["metadata"]["name"])
            with guarded(key), contextlib.suppress(ApiSpecError):
                wanted = Registration.of(body, self._domain)
                if wanted is not None:
                    found[key] = wanted
        with self._guard:
            self._removing = {key: tried for key, tried in self._removing.items() if key in found}
        return found

    def _lane(self, _item: PoolKey, subject: Registration) -> str:
        return subject.source.admin_url

    def _process(self, item: PoolKey, subject: Registration) -> tuple[dict[PoolKey, Report], float]:
        entry, source = subject.entry, subject.source
        made = (
            self._remove(item, entry, source)
            if subject.deleted
            else self._keep(entry, source, has_finalizer=subject.has_finalizer)
        )
        good = made.released or (made.condition is not None and made.condition.status is ConditionStatus.TRUE)
        return {item: made}, self._period if good else RETRY_SECONDS

    def _keep(self, entry: Entry, source: Source, *, has_finalizer: bool) -> Report:
        if not has_finalizer:
            return Report(
                Condition(TYPE, ConditionStatus.FALSE, "NotRegistered", "the operator sets the pool's finalizer first")
            )
        try:
            credentials = self._credentials_for(source)
            found = _found(source, entry.name, credentials)
            todo = step(entry, found, leaving=False)
            if todo is Step.TAKEN:
                return Report(Condition(TYPE, ConditionStatus.FALSE, "NameTaken", _taken(entry, found or {})))
            if todo is not Step.NOTHING:
                _write("PUT" if todo is Step.CREATE else "POST", source, entry, credentials)
                logger.info("cluster entry %sd: cluster=%s", todo.value, entry.name)
        except FetchError as error:
            return Report(
                Condition(
                    TYPE,
                    ConditionStatus.FALSE,
                    "NotRegistered",
                    f"cluster {entry.name} cannot be written at {source.admin_url}: {error}; the admin API must allow it, which "
                    "takes a super-user of the source cluster",
                )
            )
        return Report(
            Condition(TYPE, ConditionStatus.TRUE, "Registered", f"cluster {entry.name} is {entry.broker_url}")
        )

    def _remove(self, pool: PoolKey, entry: Entry, source: Source) -> Report:
        began = self._clock()
        try:
            credentials = self._credentials_for(source)
            if step(entry, _found(source, entry.name, credentials), leaving=True) is Step.DELETE:
                _write("DELETE", source, entry, credentials)
                logger.info("cluster entry removed: cluster=%s", entry.name)
        except FetchError as error:
            message = f"cluster {entry.name} cannot be removed at {source.admin_url}: {error}"
            with self._guard:
                tried = self._removing.setdefault(pool, OwnTime(REMOVE_SECONDS))
            if tried.spend(self._clock() - began, RETRY_SECONDS):
                logger.warning(
                    "cluster entry stays, remove it with pulsar-admin clusters delete: cluster=%s: %s",
                    entry.name,
                    message,
                )
                return Report(released=True)
            return Report(Condition(TYPE, ConditionStatus.FALSE, "Removing", message))
        return Report(released=True)


def _taken(entry: Entry, found: Mapping[str, Any]) -> str:
    """Return whose entry has the name, and the remedy."""
    other, owner = found.get("brokerServiceUrl") or found.get("serviceUrl"), str(found.get("listenerName") or "")
    words = f"the source cluster's metadata has another cluster {entry.name}, at {other}"
    if owner.startswith(POOL_PREFIX):
        words += f", of the ReadOnlyBrokerPool with uid {owner.removeprefix(POOL_PREFIX)}"
    words += ": it is not changed; recreate the pool with another spec.lookup.clusterName"
    if other == entry.broker_url:
        words += f", or remove the entry with pulsar-admin clusters delete {entry.name} if its pool is gone"
    return words


def _found(source: Source, name: str, credentials: Credentials) -> dict[str, Any] | None:
    problem = FetchError("no host")
    for url in source.admin_urls:
        try:
            found = get_json(f"{url}{_path(name)}", STEP_SECONDS, credentials)
        except FetchError as error:
            if error.status == NOT_FOUND:
                return None
            problem = error
        else:
            return found if isinstance(found, dict) else {}
    raise problem


def _write(method: str, source: Source, entry: Entry, credentials: Credentials) -> None:
    data = None if method == "DELETE" else entry.data()
    try:
        send_to(source, method, _path(entry.name), data, STEP_SECONDS, credentials)
    except FetchError as error:
        raise FetchError(_words(error), error.status) from None


def _path(name: str) -> str:
    return f"/admin/v2/clusters/{quote(name, safe='')}"


def _words(error: FetchError) -> str:
    """Return the admin API's own reason from its JSON."""
    text = str(error)
    head, _, body = text.partition(": ")
    try:
        return f"{head}: {json.loads(body)['reason']}"
    except (ValueError, KeyError, TypeError):
        return text
