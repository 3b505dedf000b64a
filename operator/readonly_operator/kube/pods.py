"""Status of pods: readiness, and the reason why a container does not run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.kube.names import VOLUME_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.kube.kinds import Manifest

CREATING = "ContainerCreating"
OWN_VOLUMES = (f"{VOLUME_PREFIX}config", f"{VOLUME_PREFIX}bindings")
MAX_QUOTE_LENGTH = 300
"""Longest quotation in a message, in characters."""


def waiting_reason(pod: Manifest) -> str:
    """Return why the pod's container does not run: its own last line, else Kubernetes' reason; empty when it runs."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        for state in ("waiting", "terminated"):
            detail = (container.get("state") or {}).get(state)
            if detail:
                text = _last_line(_ended(container).get("message") or detail.get("message"))
                if detail.get("reason") == CREATING:
                    text = _needs(pod)
                return str(detail.get("reason") or state) + (f" ({text})" if text else "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason', 'Unschedulable')} ({condition.get('message', '')})"
    return "" if status.get("phase") == "Running" else str(status.get("phase") or "Pending")


def termination_message(pod: Manifest) -> str:
    """Return the last line of the last ended container, unless the pod was ready since; empty for none."""
    status = pod.get("status") or {}
    ready: Mapping[str, Any] = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), {})
    for container in status.get("containerStatuses") or ():
        started = ((container.get("state") or {}).get("running") or {}).get("startedAt")
        if started and str(ready.get("lastTransitionTime") or "") >= started:
            continue
        text = _last_line(_ended(container).get("message"))
        if text:
            return text
    return ""


def _ended(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state of the container's last termination; empty for none."""
    for state in ("lastState", "state"):
        found = (container.get(state) or {}).get("terminated")
        if found:
            return found  # type: ignore[no-any-return]
    return {}


def _last_line(message: object) -> str:
    lines = str(message or "").strip().splitlines()
    return " ".join(lines[-1].split())[:MAX_QUOTE_LENGTH] if lines else ""


def _needs(pod: Manifest) -> str:
    """Return the Secrets and ConfigMaps that the pod mounts. Kubernetes' status does not name a missing one."""
    needed = []
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "secret" in volume:
            needed.append(f"Secret {volume['secret'].get('secretName')}")
        elif "configMap" in volume and volume["name"] not in OWN_VOLUMES:
            needed.append(f"ConfigMap {volume['configMap'].get('name')}")
    return f"it needs {', '.join(dict.fromkeys(needed))}" if needed else ""


def is_ready(pod: Manifest) -> bool:
    """Return whether the pod is ready and not being deleted."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )


def is_running(pod: Manifest) -> bool:
    """Return whether the pod's containers were started: the kubelet has mounted all its volumes."""
    return (pod.get("status") or {}).get("phase") == "Running"


def secrets_of(pod: Manifest) -> set[str]:
    """Return the names of the Secrets that the pod mounts as volumes of their own."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return {one["secret"]["secretName"] for one in volumes if one.get("secret")}
