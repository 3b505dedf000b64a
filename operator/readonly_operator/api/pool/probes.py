"""ReadOnlyBrokerPool: spec.probes, timings of the kubelet's probes of brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Nested, Number, declare


@dataclass(frozen=True, slots=True)
class ProbeTimings:
    """Timings of one probe.

    Attributes:
        period_seconds: between two tries; 0 for the operator's default.
        failure_threshold: failures in a row that count; 0 for the operator's default.
        timeout_seconds: of one try; 0 for the operator's default.
    """

    period_seconds: int = field(
        default=0, metadata=declare(Number(1, 300), "Seconds between two tries. Without it, the probe's default.")
    )
    failure_threshold: int = field(
        default=0,
        metadata=declare(Number(1, 600), "Failures in a row before the kubelet acts. Without it, the probe's default."),
    )
    timeout_seconds: int = field(
        default=0, metadata=declare(Number(1, 60), "Seconds that one try may take. Without it, the probe's default.")
    )


DEFAULTS = {
    "startup": ProbeTimings(1, 60, 2),
    "readiness": ProbeTimings(2, 3, 2),
    "liveness": ProbeTimings(10, 3, 2),
}
"""Complete timings by probe."""


def _timings(name: str) -> str:
    one = DEFAULTS[name]
    return (
        f"Default: periodSeconds {one.period_seconds}, failureThreshold {one.failure_threshold}, "
        f"timeoutSeconds {one.timeout_seconds}."
    )


@dataclass(frozen=True, slots=True)
class Probes:
    """Probes of the brokers.

    Attributes:
        startup: of a process that starts.
        readiness: decides whether clients may connect.
        liveness: decides whether the container is restarted.
    """

    startup: ProbeTimings = field(
        default=ProbeTimings(),
        metadata=declare(
            Nested(ProbeTimings),
            "Until the process answers. The kubelet restarts a broker that does not start in periodSeconds times "
            f"failureThreshold. {_timings('startup')}",
        ),
    )
    readiness: ProbeTimings = field(
        default=ProbeTimings(),
        metadata=declare(
            Nested(ProbeTimings),
            "Whether the broker accepts clients. Services send no client to a broker that is not ready. "
            f"{_timings('readiness')}",
        ),
    )
    liveness: ProbeTimings = field(
        default=ProbeTimings(),
        metadata=declare(
            Nested(ProbeTimings),
            f"Whether the process answers. The kubelet restarts a broker that does not. {_timings('liveness')}",
        ),
    )
