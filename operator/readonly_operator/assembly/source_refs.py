"""Sources of pools: the ReadOnlySource or spec.source that a pool names, and the connection that its status keeps.

Only this module writes status.source and status.membershipUid. A pool never follows its spec to another cluster: brokers would
serve topics of the same names with other messages, and cursors would not fit. A ReadOnlySource itself cannot change its cluster
(its rules), and neither can spec.source, but only while it stays in the spec: the rules do not see the value before a sourceRef.
So every other change is compared with the recorded connection.
"""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml

from readonly_operator.api.metadata_store import may_follow
from readonly_operator.api.pool.source_ref import UnresolvedSourceError, UsedSource
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.assembly.identity import membership_uid
from readonly_operator.kube import events, status
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

    The identity of the pool is recorded by the same request.

    Raises:
        ApiSpecError: spec.source is invalid.
        UnresolvedSourceError: the pool has never had a connection, and cannot have the named one.
        KubeError: the API server refused to write the status.
    """
    name, used = referred_source(body), UsedSource.of(body)
    condition = None
    try:
        found = _inline(context.store, body, used) if name is None else _referred(context, body, name, used)
    except UnresolvedSourceError as error:
        if used is None:
            raise
        found = used
        message = f"{error}; the pool keeps the connection of {used.title} that it used last"
        condition = Condition(TYPE, ConditionStatus.FALSE, error.reason, message)
    if found is None:
        return Resolution(body, None)
    if found.name and condition is None:
        condition = Condition(TYPE, ConditionStatus.TRUE, "Resolved", f"the pool uses {found.title}")
    return Resolution(_recorded(context, body, found.record()), condition)


def _inline(store: Store, body: Manifest, used: UsedSource | None) -> UsedSource | None:
    """Return spec.source of a pool; None for none, an error that parsing the pool reports."""
    found = UsedSource.inline(body)
    if found is None:
        return None
    former = _served(store, body) if used is None else used.source.metadata_store_url
    if former:
        _compare(found.title, former, found.source.metadata_store_url)
    return replace(found, since="" if used is None else used.since)


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

    For a pool of an earlier operator, which recorded no spec.source.
    """
    metadata = body["metadata"]
    config = store.get(CONFIG_MAP, metadata["namespace"], PoolKey(metadata["namespace"], metadata["name"]).config_map)
    if config is None or owner_uid(config) != metadata["uid"]:
        return None
    try:
        settings: Any = yaml.safe_load((config.get("data") or {}).get(CONFIG_KEY) or "")
    except (yaml.YAMLError, ValueError, RecursionError):  # anybody may have written it
        return None
    url = settings.get("metadata-store-url") if isinstance(settings, dict) else None
    return url if isinstance(url, str) else None


def _recorded(context: Context, body: Manifest, source: dict[str, Any]) -> Manifest:
    """Write status.source and status.membershipUid where they differ, and return the pool with them."""
    before, uid, metadata = body.get("status") or {}, membership_uid(context, body), body["metadata"]
    if not status.write(context.kube, context.store, POOL, body, {**before, "source": source, "membershipUid": uid}):
        return body
    logger.info(
        "source and identity recorded: pool=%s/%s source=%s uid=%s",
        *(metadata["namespace"], metadata["name"], source.get("name") or "spec.source", uid),
    )
    return context.store.get(POOL, metadata["namespace"], metadata["name"]) or body


def is_reported(body: Manifest) -> bool:
    """Return whether the status of a ReadOnlySource is about its present spec."""
    return bool((body.get("status") or {}).get("observedGeneration") == body["metadata"].get("generation", 0))


def report_sources(context: Context, namespace: str) -> None:
    """Write the status of each ReadOnlySource of a namespace: whether pools can use it, and how many name it.

    Raises:
        KubeError: the API server did not answer.
    """
    sources = context.store.sources(namespace)
    if not sources or context.scopes.problem(namespace):
        return
    named = [
        referred_source(body) for body in context.store.pools(others=True) if body["metadata"]["namespace"] == namespace
    ]
    for body in sources:
        metadata, before, conditions = body["metadata"], body.get("status") or {}, _conditions(body)
        values = {"pools": named.count(metadata["name"])}
        rendered = status.render(before, metadata.get("generation", 0), conditions, values, context.now())
        try:
            if status.write(context.kube, context.store, SOURCE, body, rendered):
                context.events.record(SOURCE, body, events.of_conditions(before, conditions))
        except KubeError as error:
            if not error.refused and error.status not in {HTTP_CONFLICT, HTTP_NOT_FOUND}:
                raise
            # deleted meanwhile, or without the right: a status is not worth a failed reconcile
            logger.debug("status not written: source=%s: %s", metadata["name"], error)


def _conditions(body: Manifest) -> list[Condition]:
    """Return the conditions of a ReadOnlySource, which cannot be paused."""
    try:
        UsedSource.read(body)
        ready = Condition("Ready", ConditionStatus.TRUE, "Valid", "pools can use it")
    except ApiSpecError as error:
        ready = Condition("Ready", ConditionStatus.FALSE, "InvalidSource", str(error))
    return [one for one in status.complete([ready]) if one != status.NOT_PAUSED]
