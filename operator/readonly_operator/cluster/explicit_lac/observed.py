"""Observed state of a managed setting, parsed from the JSON of its objects."""

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
    """Annotation that the operator writes with the value, in the same request.

    Attributes:
        interval_ms: the value set.
        before: the value before; None for none.
        pool: uid of the oldest pool that requested it.
        restoring: whether `before` was restored, and brokers still have to restart.
    """

    interval_ms: int
    before: str | None
    pool: str
    restoring: bool = False

    def text(self) -> str:
        """Return the annotation's text."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def read(cls, text: str | None) -> SettingRecord | None:
        """Parse the annotation; return None for a missing or invalid one."""
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
        version: resource version of the object.
        value: at the key; None for none.
        record: the operator's annotation.
        changed: the operator's last change; without one, anybody's last change.
        others: other managers of the value: "MANAGER (2026-01-01T12:00:00Z)"; empty for none.
    """

    uid: str
    version: str
    value: str | None
    record: SettingRecord | None
    changed: dt.datetime
    others: str

    @classmethod
    def of(cls, body: Manifest, key: str) -> ObservedConfig:
        """Parse a ConfigMap."""
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
        """Return the value as a number: 0 for none, None for another text."""
        text = (self.value or "0").strip() or "0"
        return int(text) if text.isdecimal() and len(text) < 10 else None

    @property
    def in_force(self) -> SettingRecord | None:
        """Return the record while its value is still set; None after another manager's change."""
        return self.record if self.record is not None and self.record.interval_ms == self.interval_ms else None


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """The StatefulSet.

    Attributes:
        replicas: desired brokers.
        first: ordinal of the first one.
        settled: whether no rolling update is in progress.
        reads: whether its pods read the ConfigMap as environment.
        consent: namespaces whose pools may manage it; ALL_NAMESPACES for all.
    """

    replicas: int
    first: int
    settled: bool
    reads: bool
    consent: frozenset[str]

    @classmethod
    def of(cls, body: Manifest, config_map: str) -> ObservedWorkload:
        """Parse a StatefulSet."""
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
        """Return whether pools of another namespace may manage it."""
        return namespace in self.consent or ALL_NAMESPACES in self.consent


@dataclass(frozen=True, slots=True)
class ObservedBroker:
    """A owner broker: its pod, and its own answers.

    Attributes:
        pod: name.
        uid: of the pod.
        ordinal: in the StatefulSet.
        created: creation time of the pod.
        since: last change of the pod's readiness, or the deadline of its deletion.
        ready: readiness of the pod; False while it is being deleted.
        address: HOST:PORT in the list of active brokers; empty when it is not in it.
        interval_ms: its explicit LAC interval by its runtime configuration; None without an answer.
        healthy: result of Pulsar's health check; None when it was not called.
        trouble: the problem in a few words; empty for none.
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
        """Parse a pod."""
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
        """Return whether the broker is ready, in the list of active brokers, and answers."""
        return self.ready and bool(self.address) and self.interval_ms is not None and self.healthy is not False

    def found(self, addresses: Iterable[str], pod: Manifest) -> ObservedBroker:
        """Return a copy with the pod's address among these: by the first part of its host name, or by its IP."""
        ips = {(pod.get("status") or {}).get("podIP")}
        for address in addresses:
            host = address.rpartition(":")[0].strip("[]")
            if host.partition(".")[0] == self.pod or host in ips:
                return replace(self, address=address)
        trouble = self.trouble or "it is not in the list of active brokers"
        return replace(self, trouble=trouble)


@dataclass(frozen=True, slots=True)
class Observed:
    """Input of a plan.

    Attributes:
        config: the ConfigMap; None when it does not exist.
        workload: the StatefulSet; None when it does not exist.
        brokers: its existing pods, by ordinal.
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
    """Return the other managers of the value; without one, the last writer of the object."""
    foreign = [one for one in managers if one.get("manager") != MANAGER_EXPLICIT_LAC]
    owners = [one for one in foreign if f"f:{key}" in ((one.get("fieldsV1") or {}).get("f:data") or {})]
    latest = sorted(foreign, key=lambda one: str(one.get("time") or ""))[-1:]
    return ", ".join(f"{one.get('manager')} ({one.get('time') or 'no time'})" for one in owners or latest)
