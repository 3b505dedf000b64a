"""Objects that a thief of the operator's token would write: an object of a pool, with one value changed.

Each is refused by manifests/admission-policy, as evaluated without an API server (unit tests) and by a real one (tests/e2e).
"""

import copy
from typing import Any, Final

from readonly_operator.kube.kinds import (
    AUTOSCALER,
    CERTIFICATE,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD_MONITOR,
    SERVICE,
    STATEFUL_SET,
)
from readonly_operator.kube.names import LABEL_POOL

POD_ATTACKS: Final[list[tuple[tuple[Any, ...], Any]]] = [
    (("serviceAccountName",), "default"),
    (("serviceAccountName",), "cloud-admin"),
    (("serviceAccountName",), None),
    (("automountServiceAccountToken",), True),
    (("automountServiceAccountToken",), None),
    (("hostNetwork",), True),
    (("hostPID",), True),
    (("hostIPC",), True),
    (("initContainers",), [{"name": "x"}]),
    (("ephemeralContainers",), [{"name": "x"}]),
    (("containers",), lambda own: [*own, {**own[0], "name": "x"}]),
    (("containers",), lambda _: []),
    (("volumes", 0), {"name": "x", "hostPath": {"path": "/"}}),
    (("volumes", 0), {"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
    (
        ("volumes", 0),
        {"name": "x", "projected": {"sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {"path": "t"}}]}},
    ),
    (("volumes", 0), {"name": "x", "csi": {"driver": "csi.example.org"}}),
    (("volumes", 0), {"name": "x", "csi": {"driver": "csi.example.org", "readOnly": False}}),
    (("containers", 0, "securityContext"), None),
    (("containers", 0, "securityContext", "allowPrivilegeEscalation"), True),
    (("containers", 0, "securityContext", "capabilities"), {"add": ["NET_ADMIN"]}),
    (("containers", 0, "ports", 0, "hostPort"), 6650),
    (("containers", 0, "securityContext", "seccompProfile"), {"type": "Unconfined"}),
    (("containers", 0, "securityContext", "appArmorProfile"), {"type": "Unconfined"}),
    (("containers", 0, "securityContext", "procMount"), "Unmasked"),
    (("containers", 0, "securityContext", "runAsNonRoot"), False),
    (("containers", 0, "securityContext", "seLinuxOptions"), {"type": "spc_t"}),
    (("containers", 0, "securityContext", "windowsOptions"), {"hostProcess": True}),
    (("securityContext",), None),
    (("securityContext", "runAsNonRoot"), None),
    (("securityContext", "runAsNonRoot"), False),
    (("securityContext", "seccompProfile"), None),
    (("securityContext", "seccompProfile"), {"type": "Unconfined"}),
    (("securityContext", "appArmorProfile"), {"type": "Unconfined"}),
    (("securityContext", "seLinuxOptions"), {"type": "spc_t"}),
    (("securityContext", "sysctls"), [{"name": "kernel.msgmax", "value": "1"}]),
    (("securityContext", "windowsOptions"), {"hostProcess": True}),
]
"""Path in the pod's spec, and its value; None takes the field away, and a function changes it."""

OBJECT_ATTACKS: Final[list[tuple[Any, tuple[Any, ...], Any]]] = [
    (STATEFUL_SET, ("metadata", "name"), "cloud-admin"),
    (STATEFUL_SET, ("spec", "volumeClaimTemplates"), [{"metadata": {"name": "x"}}]),
    (SERVICE, ("spec", "selector"), None),
    (SERVICE, ("spec", "selector"), {"app": "database"}),
    (SERVICE, ("spec", "selector", LABEL_POOL), "other"),
    (SERVICE, ("spec", "selector", "app.kubernetes.io/name"), "database"),
    (SERVICE, ("spec", "externalIPs"), ["192.0.2.1"]),
    (SERVICE, ("spec", "type"), "ExternalName"),
    (AUTOSCALER, ("spec", "scaleTargetRef", "kind"), "Deployment"),
    (AUTOSCALER, ("spec", "scaleTargetRef", "apiVersion"), "apps/v1"),
    (AUTOSCALER, ("spec", "scaleTargetRef", "apiVersion"), None),
    (AUTOSCALER, ("spec", "scaleTargetRef", "name"), "other"),
    (DISRUPTION_BUDGET, ("spec", "selector"), {}),
    (DISRUPTION_BUDGET, ("spec", "selector"), None),
    (DISRUPTION_BUDGET, ("spec", "selector", "matchLabels", LABEL_POOL), "other"),
    (POD_MONITOR, ("spec", "selector"), {"matchLabels": {"app": "database"}}),
    (NETWORK_POLICY, ("spec", "podSelector"), {}),
    (NETWORK_POLICY, ("spec", "podSelector", "matchLabels", LABEL_POOL), "other"),
    (CERTIFICATE, ("spec", "secretName"), "database-password"),
    (CERTIFICATE, ("spec", "secretName"), "demo"),
    (CERTIFICATE, ("spec", "isCA"), True),
    (CERTIFICATE, ("spec", "commonName"), "admin"),
    (CERTIFICATE, ("spec", "uris"), ["spiffe://cluster/ns/x/sa/y"]),
    (CERTIFICATE, ("spec", "emailAddresses"), ["a@example.org"]),
    (CERTIFICATE, ("spec", "ipAddresses"), ["10.96.0.1"]),
    (CERTIFICATE, ("spec", "otherNames"), [{"oid": "1.2"}]),
    (CERTIFICATE, ("spec", "literalSubject"), "CN=admin"),
    (CERTIFICATE, ("spec", "subject"), {"organizations": ["system:masters"]}),
    (CERTIFICATE, ("spec", "dnsNames"), ["kubernetes.default.svc"]),
]
"""Kind, path in the object, and its value; None takes the field away."""


def owner(
    kind: str = "ReadOnlyBrokerPool",
    version: str = "pulsar-readonly.io/v1beta1",
    name: str = "demo",
    uid: str = "uid-of-demo",
    **more: Any,
) -> list[dict[str, Any]]:
    """Owner references with one controller."""
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True, **more}]


def with_value(body: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy with this value at the path; None takes the field away, and a function makes it from the former one."""
    body = copy.deepcopy(body)
    place: Any = body
    for name in path[:-1]:
        place = place.setdefault(name, {}) if isinstance(place, dict) else place[name]
    if value is None:
        place.pop(path[-1])
    else:
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value
    return body
