"""The kubelet's probes of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.api.pool.probes import DEFAULTS, ProbeTimings

if TYPE_CHECKING:
    from readonly_operator.api.pool.probes import Probes


def probes(wanted: Probes, *, tls: bool) -> dict[str, Any]:
    """Return the probes of a broker's container.

    Args:
        wanted: timings.
        tls: whether the port has TLS. The kubelet accepts any certificate.
    """
    made = {
        "startupProbe": ("/healthz", wanted.startup, DEFAULTS["startup"]),
        "livenessProbe": ("/healthz", wanted.liveness, DEFAULTS["liveness"]),
        "readinessProbe": ("/readyz", wanted.readiness, DEFAULTS["readiness"]),
    }
    return {name: _probe(*one, tls=tls) for name, one in made.items()}


def _probe(path: str, wanted: ProbeTimings, default: ProbeTimings, *, tls: bool) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http", **({"scheme": "HTTPS"} if tls else {})},
        "periodSeconds": wanted.period_seconds or default.period_seconds,
        "timeoutSeconds": wanted.timeout_seconds or default.timeout_seconds,
        "failureThreshold": wanted.failure_threshold or default.failure_threshold,
    }
