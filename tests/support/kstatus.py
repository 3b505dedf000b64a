"""The rules of kstatus for custom resources (sigs.k8s.io/cli-utils), in the order in which the library applies them."""

from typing import Any


def kstatus(body: dict[str, Any]) -> str:
    """Terminating, InProgress, Failed or Current.

    tests/e2e/test_operation.py asks the library itself.
    """
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = body.get("status") or {}
    if status.get("observedGeneration", body["metadata"]["generation"]) != body["metadata"]["generation"]:
        return "InProgress"
    conditions = status.get("conditions") or ()
    for one in conditions:
        if one["status"] == "True" and one["type"] in {"Reconciling", "Stalled"}:
            return "InProgress" if one["type"] == "Reconciling" else "Failed"
    ready = next((one["status"] for one in conditions if one["type"] == "Ready"), "True")
    return "Current" if ready == "True" else "InProgress"
