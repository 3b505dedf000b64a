"""Refused SUBSCRIBEs, counted and logged: otherwise only the client knows why."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from readonly_engine.wire.pulsar_pb2 import ServerError

log = logging.getLogger(__name__)

LOG_S: Final = 1.0
"""Least time between two lines: clients repeat a refused SUBSCRIBE, and there may be many of them."""

MAX_CHARACTERS: Final = 512
"""Longest part of a line that comes from the client."""


class SubscribeRefusals:
    """Counts the refused SUBSCRIBEs of a broker by their error, and logs at most one in LOG_S.

    Attributes:
        by_error: number by name of the error, which Pulsar's protocol defines.
    """

    def __init__(self) -> None:
        self.by_error: Counter[str] = Counter()
        self._next_line = float("-inf")
        self._unlogged = 0

    def add(self, topic: str, subscription: str, code: ServerError, reason: str, now: float) -> None:
        """Count a refusal.

        Args:
            topic: name of the topic, as the client gave it.
            subscription: name of the subscription.
            code: the error that the client gets.
            reason: its text.
            now: time of the event loop.
        """
        error = ServerError.Name(code)
        self.by_error[error] += 1
        if now < self._next_line:
            self._unlogged += 1
            return
        given = (text[:MAX_CHARACTERS] for text in (topic, subscription, reason))
        log.info(
            "SUBSCRIBE refused: topic=%s subscription=%s reason=%s error=%s unlogged=%d", *given, error, self._unlogged
        )
        self._next_line, self._unlogged = now + LOG_S, 0
