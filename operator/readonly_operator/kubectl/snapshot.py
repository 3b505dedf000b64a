"""Pools, brokers and bindings as values, from objects of the API server. Pure.

Fields may be missing, as in objects that no operator has seen yet or that an older operator wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.status.addresses import without_user

from readonly_operator.kube.http_ports import OPEN, PortAccess, http_ports, port_access
from readonly_operator.kube.names import ANNOTATION_LOCALITY, LABEL_POOL, PAUSED_KEY, PORT_HTTP, PoolKey
from readonly_operator.kube.pods import is_ready, termination_message, waiting_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from readonly_engine.top.observed import Observed

    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.kubectl.rights import NeededRight

UNKNOWN: Final = "Unknown"


@dataclass(frozen=True, slots=True)
class ConditionView:
    """A condition of an object.

    Attributes:
        type: its type.
        status: True, False or Unknown.
        reason: one word.
        message: for people.
        since: time of its last change.
        outdated: whether it describes an older spec.
    """

    type: str
    status: str = UNKNOWN
    reason: str = ""
    message: str = ""
    since: str = ""
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker's pod.

    Attributes:
        pod: its name.
        ready: whether it takes clients.
        problem: why its container does not run; empty if it runs.
        termination_message: last line of its container before its last end, unless it was ready since; empty for none.
        restarts: restarts of its container.
        node: its node; empty before it has one.
        locality: `/RACK` or `/ZONE/RACK`, as the operator wrote it; empty if unknown.
        ports: HTTP port of each of its processes.
        access: TLS and token of these ports.
        observed: answer of each process, in the order of the ports; empty if none was asked.
    """

    pod: str
    ready: bool = False
    problem: str = ""
    termination_message: str = ""
    restarts: int = 0
    node: str = ""
    locality: str = ""
    ports: tuple[int, ...] = (PORT_HTTP,)
    access: PortAccess = OPEN
    observed: tuple[Observed, ...] = ()

    @property
    def runs(self) -> bool:
        """Return whether its container runs, so that it can be asked."""
        return not self.problem or self.ready

    @property
    def trouble(self) -> str:
        """Return what is known about a broker that does not run, or is not ready; empty for nothing."""
        return self.problem or self.termination_message


@dataclass(frozen=True, slots=True)
class BindingView:
    """A binding.

    Attributes:
        namespace: its namespace.
        name: its name.
        pool: the pool that it names.
        topics: topics that it names.
        namespaces: namespaces of Pulsar that it names.
        matched: number of topics that match; None if it is not known.
        serving: brokers that serve it.
        brokers: brokers of its pool.
        conditions: its conditions.
    """

    namespace: str
    name: str
    pool: PoolKey
    topics: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    matched: int | None = None
    serving: int = 0
    brokers: int = 0
    conditions: tuple[ConditionView, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool.

    Attributes:
        key: namespace and name.
        replicas: desired brokers.
        ready_replicas: ready brokers, as the operator has reported.
        bindings_allowed: bindings that name it, of all namespaces; None if no operator has counted them.
        service_url: service URL of the source cluster.
        metadata_store: URL of its metadata store.
        conditions: its conditions.
        paused: whether an annotation keeps the operator from changing it.
        brokers: its brokers.
        bindings: its bindings that the user may read.
    """

    key: PoolKey
    replicas: int = 0
    ready_replicas: int = 0
    bindings_allowed: int | None = None
    service_url: str = ""
    metadata_store: str = ""
    conditions: tuple[ConditionView, ...] = ()
    paused: bool = False
    brokers: tuple[BrokerView, ...] = ()
    bindings: tuple[BindingView, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the user may see of a namespace.

    Attributes:
        namespace: the namespace.
        pools: its pools.
        loose: bindings of the namespace whose pools are not among `pools`.
        missing: rights that the user lacks.
        notes: what else is not shown, and why.
    """

    namespace: str
    pools: tuple[PoolView, ...] = ()
    loose: tuple[BindingView, ...] = ()
    missing: tuple[NeededRight, ...] = ()
    notes: tuple[str, ...] = field(default=())


def condition_of(conditions: Iterable[ConditionView], kind: str) -> ConditionView:
    """Return a condition by its type; one with status Unknown and no reason if it is absent."""
    return next((one for one in conditions if one.type == kind), ConditionView(kind))


def pool_view(body: Manifest) -> PoolView:
    """Return a pool, without its brokers and bindings."""
    metadata, spec, status = _parts(body)
    source = _mapping(_mapping(status.get("source")).get("spec")) or _mapping(spec.get("source"))  # as source_in_use
    return PoolView(
        PoolKey(_text(metadata.get("namespace")), _text(metadata.get("name"))),
        replicas=_number(spec.get("replicas")) or 0,
        ready_replicas=_number(status.get("readyReplicas")) or 0,
        bindings_allowed=_number(status.get("bindings")),
        service_url=without_user(_text(source.get("serviceUrl"))),
        metadata_store=without_user(_text(source.get("metadataStoreUrl"))),
        conditions=_conditions(metadata, status),
        paused=_mapping(metadata.get("annotations")).get(PAUSED_KEY) == "true",
    )


def binding_view(body: Manifest) -> BindingView:
    """Return a binding."""
    metadata, spec, status = _parts(body)
    reference, namespace = _mapping(spec.get("poolRef")), _text(metadata.get("namespace"))
    return BindingView(
        namespace,
        _text(metadata.get("name")),
        PoolKey(_text(reference.get("namespace")) or namespace, _text(reference.get("name"))),
        topics=_texts(spec.get("topics")),
        namespaces=_texts(spec.get("namespaces")),
        matched=_number(status.get("matchedTopics")),
        serving=_number(status.get("servingBrokers")) or 0,
        brokers=_number(status.get("brokers")) or 0,
        conditions=_conditions(metadata, status),
    )


def broker_view(body: Manifest) -> BrokerView:
    """Return a broker's pod."""
    metadata, spec, status = _parts(body)
    containers = status.get("containerStatuses")
    restarts = [_number(_mapping(one).get("restartCount")) or 0 for one in containers or () if isinstance(one, dict)]
    return BrokerView(
        _text(metadata.get("name")),
        ready=is_ready(body),
        problem=waiting_reason(body),
        termination_message=termination_message(body),
        restarts=sum(restarts),
        node=_text(spec.get("nodeName")),
        locality=_text(_mapping(metadata.get("annotations")).get(ANNOTATION_LOCALITY)),
        ports=tuple(http_ports(body)),
        access=port_access(body),
    )


def by_pool(pods: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    """Return pods by the pool that their label names."""
    found: dict[str, list[Manifest]] = {}
    for pod in pods:
        found.setdefault(_text(_mapping(_mapping(pod.get("metadata")).get("labels")).get(LABEL_POOL)), []).append(pod)
    return found


def brokers_of(key: PoolKey, pods: Iterable[Manifest]) -> list[Manifest]:
    """Return the pods of a pool's brokers by their ordinals. A label alone makes no broker: anybody may give it to a pod."""
    found: list[tuple[int, Manifest]] = []
    for pod in pods:
        metadata = _mapping(pod.get("metadata"))
        ordinal = key.ordinal(_text(metadata.get("name")))
        labelled = _mapping(metadata.get("labels")).get(LABEL_POOL) == key.name
        owners = metadata.get("ownerReferences")
        owned = any(
            owner.get("controller") is True and (owner.get("kind"), owner.get("name")) == ("StatefulSet", key.name)
            for owner in owners or ()
            if isinstance(owner, dict)
        )
        if ordinal is not None and labelled and owned:
            found.append((ordinal, pod))
    return [pod for _, pod in sorted(found, key=lambda one: one[0])]


def split_bindings(
    pools: Sequence[PoolView], bindings: Sequence[BindingView]
) -> tuple[dict[PoolKey, tuple[BindingView, ...]], tuple[BindingView, ...]]:
    """Return the bindings by pool, and those of other pools."""
    mine: dict[PoolKey, list[BindingView]] = {pool.key: [] for pool in pools}
    loose: list[BindingView] = []
    for one in bindings:
        mine.get(one.pool, loose).append(one)
    return {key: tuple(found) for key, found in mine.items()}, tuple(loose)


def _parts(body: Manifest) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    return _mapping(body.get("metadata")), _mapping(body.get("spec")), _mapping(body.get("status"))


def _conditions(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[ConditionView, ...]:
    generation = _number(metadata.get("generation")) or 0
    found = []
    for one in status.get("conditions") or ():
        if isinstance(one, dict) and one.get("type"):
            described = _number(one.get("observedGeneration"))
            found.append(
                ConditionView(
                    _text(one["type"]),
                    _text(one.get("status")) or UNKNOWN,
                    _text(one.get("reason")),
                    _text(one.get("message")),
                    _text(one.get("lastTransitionTime")),
                    outdated=described is not None and described < generation,
                )
            )
    return tuple(found)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
