"""Refused SUBSCRIBEs, counted and logged: otherwise only the client knows why."""

from __future__ import annotations

from collections import Counter
from typing import Final

from readonly_engine.log_bounds import bounded_logger
from readonly_engine.wire.pulsar_pb2 import ServerError

log = bounded_logger(__name__)

MAX_CHARACTERS: Final = 512
"""Longest part of a line that comes from the client."""


class SubscribeRefusals:
    """Counts the refused SUBSCRIBEs of a broker by their error, and logs them.

    Attributes:
        by_error: number by name of the error, which Pulsar's protocol defines.
    """

    def __init__(self) -> None:
        self.by_error: Counter[str] = Counter()

    def add(self, topic: str, subscription: str, code: ServerError, reason: str) -> None:
        """Count a refusal.

        Args:
            topic: name of the topic, as the client gave it.
            subscription: name of the subscription.
            code: the error that the client gets.
            reason: its text.
        """
        error = ServerError.Name(code)
        self.by_error[error] += 1
        given = (text[:MAX_CHARACTERS] for text in (topic, subscription, reason))
        log.info("SUBSCRIBE refused: topic=%s subscription=%s reason=%s error=%s", *given, error)
