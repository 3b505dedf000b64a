"""Sources of pools: the ReadOnlySource that a pool names, and the connection that its status keeps.

Only this module writes status.source. A pool never follows its reference to another cluster: brokers would serve topics of
the same names with other messages, and cursors would not fit. A ReadOnlySource itself cannot change its cluster (its rules).
So a changed reference, a new ReadOnlySource of the same name, and a change between source and sourceRef are compared.
"""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml

from readonly_operator.api.metadata_store import may_follow
from readonly_operator.api.pool.source_ref import UnresolvedSourceError, UsedSource
from readonly_operator.api.reader import ApiSpecError, spec_value
from readonly_operator.kube import status
from readonly_operator.kube.api_server import HTTP_CONFLICT, HTTP_NOT_FOUND, KubeError
from readonly_operator.kube.kinds import CONFIG_MAP, POOL, SOURCE, Manifest
from readonly_operator.kube.names import CONFIG_KEY, PoolKey
from readonly_operator.kube.ownership import owner_uid
from readonly_operator.kube.status import Condition, ConditionStatus
from readonly_operator.kube.store import referred_source

if TYPE_CHECKING:
    from readonly_operator.assembly.context import Context
    from readonly_operator.kube.store import Store

logger = logging.getLogger(__name__)

TYPE = "SourceResolved"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Result of resolving the source of a pool.

    Attributes:
        body: the pool, with the record of its connection.
        condition: SourceResolved; None for a pool with spec.source that uses it.
    """

    body: Manifest
    condition: Condition | None

    @property
    def limitations(self) -> list[str]:
        """Return the shortcoming while the pool does not use the source of its spec, in words."""
        if self.condition is None or self.condition.status is ConditionStatus.TRUE:
            return []
        return [self.condition.message]


def resolve_source(context: Context, body: Manifest) -> Resolution:
    """Record the connection that a pool names in its status, unless it is missing, invalid or of another cluster.

    Raises:
        UnresolvedSourceError: the pool has never had a connection, and cannot have the named one.
        KubeError: the API server refused to write the status.
    """
    name, used = referred_source(body), UsedSource.of(body)
    if name is None and used is None:
        return Resolution(body, None)
    try:
        if name is None:
            _check_inline(body, used)
            found = None
        else:
            found = _referred(context, body, name, used)
    except UnresolvedSourceError as error:
        if used is None:
            raise
        message = f"{error}; the pool keeps the connection of ReadOnlySource {used.name} that it used last"
        return Resolution(body, Condition(TYPE, ConditionStatus.FALSE, error.reason, message))
    record = None if found is None else found.record()
    if record != (body.get("status") or {}).get("source"):
        body = _recorded(context, body, record)
    if found is None:
        return Resolution(body, None)
    message = f"the pool uses ReadOnlySource {found.name}"
    return Resolution(body, Condition(TYPE, ConditionStatus.TRUE, "Resolved", message))


def _check_inline(body: Manifest, used: UsedSource | None) -> None:
    """Check spec.source of a pool that used a ReadOnlySource so far."""
    wanted = spec_value(body, "source", "metadataStoreUrl")
    if used is not None and isinstance(wanted, str):
        _compare("spec.source", used.source.metadata_store_url, wanted)


def _referred(context: Context, body: Manifest, name: str, used: UsedSource | None) -> UsedSource:
    namespace, store = body["metadata"]["namespace"], context.store
    found = store.get(SOURCE, namespace, name)
    if found is None:
        text = f"there is no ReadOnlySource {name} in namespace {namespace}"
        if not store.serves(SOURCE):
            text += "; the Kubernetes cluster does not serve that kind: apply crds/"
        raise UnresolvedSourceError("SourceNotFound", text)
    try:
        read = UsedSource.read(found)
    except ApiSpecError as error:
        raise UnresolvedSourceError("InvalidSource", str(error)) from None
    same = used is not None and (used.name, used.uid) == (read.name, read.uid)
    former = _served(store, body) if used is None else used.source.metadata_store_url
    if not same and former:  # the rules of the kind have checked each change of the same object
        _compare(f"ReadOnlySource {name}", former, read.source.metadata_store_url)
    if used is None:
        # a pool without brokers begins now: its bindings must not take topics that others got meanwhile, also in this second
        begin = context.now().astimezone(dt.UTC) + dt.timedelta(seconds=1)
        since = "" if former else begin.strftime("%Y-%m-%dT%H:%M:%SZ")
    else:
        since = used.since
    return replace(read, since=since)


def _compare(what: str, former: str, wanted: str) -> None:
    if not may_follow(former, wanted):
        raise UnresolvedSourceError(
            "OtherCluster",
            f"{what} has metadataStoreUrl {wanted}, and the pool serves the cluster at {former}: name a source of this "
            "cluster, with a common host and the same chroot, or make a new pool",
        )


def _served(store: Store, body: Manifest) -> str | None:
    """Return the metadata store that the configuration of the pool's own brokers has; None without brokers.

    The pool had spec.source before, of which nothing is recorded.
    """
    metadata = body["metadata"]
    config = store.get(CONFIG_MAP, metadata["namespace"], PoolKey(metadata["namespace"], metadata["name"]).config_map)
    if config is None or owner_uid(config) != metadata["uid"]:
        return None
    try:
        settings: Any = yaml.safe_load((config.get("data") or {}).get(CONFIG_KEY) or "")
    except yaml.YAMLError:
        return None
    url = settings.get("metadata-store") if isinstance(settings, dict) else None
    return url if isinstance(url, str) else None


def _recorded(context: Context, body: Manifest, record: dict[str, Any] | None) -> Manifest:
    """Write status.source, and return the pool with it."""
    kept = {name: value for name, value in (body.get("status") or {}).items() if name != "source"}
    status.write(context.kube, context.store, POOL, body, {**kept, **({"source": record} if record else {})})
    metadata = body["metadata"]
    logger.info(
        "source recorded: pool=%s/%s source=%s", metadata["namespace"], metadata["name"], record and record["name"]
    )
    return context.store.get(POOL, metadata["namespace"], metadata["name"]) or body


def report_pools(context: Context, namespace: str) -> None:
    """Write to each ReadOnlySource of a namespace how many pools name it.

    Raises:
        KubeError: the API server did not answer.
    """
    sources = context.store.sources(namespace)
    if not sources:
        return
    named = [referred_source(body) for body in context.store.pools() if body["metadata"]["namespace"] == namespace]
    for body in sources:
        try:
            status.write(context.kube, context.store, SOURCE, body, {"pools": named.count(body["metadata"]["name"])})
        except KubeError as error:
            if not error.refused and error.status not in {HTTP_CONFLICT, HTTP_NOT_FOUND}:
                raise
            # deleted meanwhile, or without the right: a number is not worth a failed reconcile
            logger.debug("number of pools not written: source=%s: %s", body["metadata"]["name"], error)
