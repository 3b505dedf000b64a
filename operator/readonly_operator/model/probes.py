"""The kubelet's probes of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.api.pool.probes import DEFAULTS, ProbeTimings

if TYPE_CHECKING:
    from readonly_operator.api.pool.probes import Probes


def probes(wanted: Probes) -> dict[str, Any]:
    """Return the probes of a broker's container."""
    return {
        "startupProbe": _probe("/healthz", wanted.startup, DEFAULTS["startup"]),
        "livenessProbe": _probe("/healthz", wanted.liveness, DEFAULTS["liveness"]),
        "readinessProbe": _probe("/readyz", wanted.readiness, DEFAULTS["readiness"]),
    }


def _probe(path: str, wanted: ProbeTimings, default: ProbeTimings) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": wanted.period_seconds or default.period_seconds,
        "timeoutSeconds": wanted.timeout_seconds or default.timeout_seconds,
        "failureThreshold": wanted.failure_threshold or default.failure_threshold,
    }
