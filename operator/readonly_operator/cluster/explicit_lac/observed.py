"""What is seen of the objects that a setting lives in, read from their JSON."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from readonly_operator.kube.names import ANNOTATION_EXPLICIT_LAC, ANNOTATION_EXPLICIT_LAC_FROM, MANAGER_EXPLICIT_LAC
from readonly_operator.kube.pods import is_ready, waiting_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_operator.kube.api_server import Right
    from readonly_operator.kube.kinds import Manifest

ALL_NAMESPACES = "*"


@dataclass(frozen=True, slots=True)
class SettingRecord:
    """What the operator writes beside the value that it sets, in the same request.

    Attributes:
        interval_ms: what it set.
        before: the value that was there before; None for none.
        pool: uid of the pool that it was set for, the oldest of those that wanted it.
        restoring: whether `before` was put back, and brokers still have to take it up.
    """

    interval_ms: int
    before: str | None
    pool: str
    restoring: bool = False

    def text(self) -> str:
        """As it is written."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def read(cls, text: str | None) -> SettingRecord | None:
        """A note; None when there is none that can be read."""
        try:
            found = json.loads(text or "")
            return cls(int(found["interval_ms"]), found["before"], str(found["pool"]), bool(found["restoring"]))
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class ObservedConfig:
    """The ConfigMap.

    Attributes:
        uid: of the object.
        version: of the object.
        value: at the key; None for none.
        record: the operator's own.
        changed: when the operator last changed it; when anybody did, where the operator never has.
        others: who else may have changed the value: "MANAGER (2026-01-01T12:00:00Z)"; empty for nobody.
    """

    uid: str
    version: str
    value: str | None
    record: SettingRecord | None
    changed: dt.datetime
    others: str

    @classmethod
    def of(cls, body: Manifest, key: str) -> ObservedConfig:
        """What is seen of a ConfigMap."""
        metadata = body["metadata"]
        managers = metadata.get("managedFields") or ()
        ours = [_time(one) for one in managers if one.get("manager") == MANAGER_EXPLICIT_LAC]
        made = dt.datetime.fromisoformat(metadata["creationTimestamp"])
        every = [_time(one) or made for one in managers]
        return cls(
            uid=metadata["uid"],
            version=metadata["resourceVersion"],
            value=(body.get("data") or {}).get(key),
            record=SettingRecord.read((metadata.get("annotations") or {}).get(ANNOTATION_EXPLICIT_LAC)),
            changed=max((time for time in ours if time), default=max(every, default=made)),
            others=_others(managers, key),
        )

    @property
    def interval_ms(self) -> int | None:
        """The value as a number; 0 where there is none, None where it is something else than a number."""
        text = (self.value or "0").strip() or "0"
        return int(text) if text.isdecimal() and len(text) < 10 else None

    @property
    def in_force(self) -> SettingRecord | None:
        """The note as long as what it says was set is still there; None where somebody has set something else since."""
        return self.record if self.record is not None and self.record.interval_ms == self.interval_ms else None


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """The StatefulSet.

    Attributes:
        replicas: brokers wanted.
        first: ordinal of the first one.
        settled: whether no update of it is under way.
        reads: whether its pods read the ConfigMap as environment.
        consent: namespaces whose pools may manage it; EVERYBODY for all.
    """

    replicas: int
    first: int
    settled: bool
    reads: bool
    consent: frozenset[str]

    @classmethod
    def of(cls, body: Manifest, config_map: str) -> ObservedWorkload:
        """What is seen of a StatefulSet."""
        metadata, spec, status = body["metadata"], body["spec"], body.get("status") or {}
        granted = (metadata.get("annotations") or {}).get(ANNOTATION_EXPLICIT_LAC_FROM) or ""
        current, update = status.get("currentRevision"), status.get("updateRevision")
        observed = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
        replicas = spec.get("replicas", 1)
        return cls(
            replicas=replicas,
            first=(spec.get("ordinals") or {}).get("start", 0),
            settled=observed and (current == update or status.get("updatedReplicas", 0) >= replicas),
            reads=_reads(spec["template"]["spec"], config_map),
            consent=frozenset(granted.replace(",", " ").split()),
        )

    def allows(self, namespace: str) -> bool:
        """Whether pools of another namespace may manage it."""
        return namespace in self.consent or ALL_NAMESPACES in self.consent


@dataclass(frozen=True, slots=True)
class ObservedBroker:
    """A writable broker: its pod, and what it says itself.

    Attributes:
        pod: name.
        uid: of the pod.
        ordinal: in the StatefulSet.
        created: when the pod was made.
        since: when the pod last became ready, or ceased to be; when it is to have ended, where it is ending.
        ready: by Kubernetes' word; not when it is ending.
        address: HOST:PORT under which it is in the list of active brokers; empty when it is not.
        interval_ms: its explicit LAC interval, by its own word; None when it does not say.
        healthy: whether it passed Pulsar's health check; None when it was not asked.
        trouble: what does not work, in a few words; empty for nothing.
    """

    pod: str
    uid: str
    ordinal: int
    created: dt.datetime
    since: dt.datetime
    ready: bool
    address: str = ""
    interval_ms: int | None = None
    healthy: bool | None = None
    trouble: str = ""

    @classmethod
    def of(cls, pod: Manifest, ordinal: int) -> ObservedBroker:
        """What is seen of a pod."""
        metadata = pod["metadata"]
        created = dt.datetime.fromisoformat(metadata["creationTimestamp"])
        ready = is_ready(pod)
        turned = [
            dt.datetime.fromisoformat(one["lastTransitionTime"])
            for one in (pod.get("status") or {}).get("conditions") or ()
            if one["type"] == "Ready" and one.get("lastTransitionTime")
        ]
        trouble = (
            "" if ready else "it is ending" if "deletionTimestamp" in metadata else waiting_reason(pod) or "not ready"
        )
        if "deletionTimestamp" in metadata:
            turned.append(dt.datetime.fromisoformat(metadata["deletionTimestamp"]))
        return cls(metadata["name"], metadata["uid"], ordinal, created, max([created, *turned]), ready, trouble=trouble)

    @property
    def serving(self) -> bool:
        """Whether it is ready, in the list of active brokers, and answers."""
        return self.ready and bool(self.address) and self.interval_ms is not None and self.healthy is not False

    def found(self, addresses: Iterable[str], pod: Manifest) -> ObservedBroker:
        """With its address, when one of these is this pod's: by its host name's first part, or by its IP."""
        ips = {(pod.get("status") or {}).get("podIP")}
        for address in addresses:
            host = address.rpartition(":")[0].strip("[]")
            if host.partition(".")[0] == self.pod or host in ips:
                return replace(self, address=address)
        trouble = self.trouble or "it is not in the list of active brokers"
        return replace(self, trouble=trouble)


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a plan is made from.

    Attributes:
        config: the ConfigMap; None when there is none.
        workload: the StatefulSet; None when there is none.
        brokers: its pods that exist, by ordinal.
        problem: why the list of active brokers cannot be read; empty when it can.
        missing: rights that the operator lacks.
    """

    config: ObservedConfig | None = None
    workload: ObservedWorkload | None = None
    brokers: tuple[ObservedBroker, ...] = ()
    problem: str = ""
    missing: tuple[Right, ...] = field(default=())


def _reads(pod: Mapping[str, Any], config_map: str) -> bool:
    for container in (*pod.get("containers", ()), *(pod.get("initContainers") or ())):
        sources = [one.get("configMapRef") for one in container.get("envFrom") or ()]
        sources += [(one.get("valueFrom") or {}).get("configMapKeyRef") for one in container.get("env") or ()]
        if any(source and source.get("name") == config_map for source in sources):
            return True
    return False


def _time(manager: Mapping[str, Any]) -> dt.datetime | None:
    return dt.datetime.fromisoformat(manager["time"]) if manager.get("time") else None


def _others(managers: Iterable[Mapping[str, Any]], key: str) -> str:
    """The managers of the value; where nobody is, whoever wrote the object last."""
    foreign = [one for one in managers if one.get("manager") != MANAGER_EXPLICIT_LAC]
    owners = [one for one in foreign if f"f:{key}" in ((one.get("fieldsV1") or {}).get("f:data") or {})]
    latest = sorted(foreign, key=lambda one: str(one.get("time") or ""))[-1:]
    return ", ".join(f"{one.get('manager')} ({one.get('time') or 'no time'})" for one in owners or latest)
