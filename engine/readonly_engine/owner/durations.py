"""How long the source cluster's brokers take to answer, by request. Pure."""

from __future__ import annotations

from collections import defaultdict

from readonly_engine.net.durations import Durations


class RequestDurations:
    """Totals by request.

    Attributes:
        by_request: by the name of the command, of which a few exist.
    """

    def __init__(self) -> None:
        self.by_request: defaultdict[str, Durations] = defaultdict(Durations)

    def answered(self, request: str, seconds: float) -> None:
        """Count an answer, also one that is an error."""
        self.by_request[request].answered(seconds)
