"""Status of pods: readiness, and the reason why a container does not run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.kube.names import VOLUME_PREFIX

if TYPE_CHECKING:
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
                ended = (container.get("lastState") or {}).get("terminated") or detail
                lines = str(ended.get("message") or detail.get("message") or "").strip().splitlines()
                text = " ".join(lines[-1].split())[:MAX_QUOTE_LENGTH] if lines else ""
                if detail.get("reason") == CREATING:
                    text = _needs(pod)
                return str(detail.get("reason") or state) + (f" ({text})" if text else "")
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason', 'Unschedulable')} ({condition.get('message', '')})"
    return "" if status.get("phase") == "Running" else str(status.get("phase") or "Pending")


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
