"""State of a waker: armed while no client waits. Kubernetes sees it as readiness, and the operator wakes the pool. Pure."""

from __future__ import annotations

from typing import Final

REARM_S: Final = 60.0
"""Time after the last request that needs a broker until the waker is armed again. A client whose request nobody has followed,
because the operator did not run, tries again later and must then count again."""


class Arming:
    """Whether the waker is armed. The time is an argument, in seconds."""

    __slots__ = ("_rearm_at",)

    def __init__(self) -> None:
        self._rearm_at: float | None = None

    @property
    def armed(self) -> bool:
        """Whether no client has needed a broker for REARM_S."""
        return self._rearm_at is None

    def on_request(self, now: float) -> bool:
        """Handle a request that needs a broker; return whether the waker was armed."""
        was_armed = self.armed
        self._rearm_at = now + REARM_S
        return was_armed

    def next_timer(self) -> float | None:
        """Return when to call `on_timer`; None for never."""
        return self._rearm_at

    def on_timer(self, now: float) -> None:
        """Arm the waker again if its time has come."""
        if self._rearm_at is not None and now >= self._rearm_at:
            self._rearm_at = None
