"""ReadOnlyBrokerPool: spec.scaleToZero, and the phases of a pool that may sleep."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import Any

from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import Text, declare

DEFAULT_AFTER_SECONDS = 600
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Phase(enum.Enum):
    """Phase of a pool that may sleep. A pool without spec.scaleToZero is always awake."""

    AWAKE = "Awake"
    """The brokers run, and clients reach them."""
    FALLING_ASLEEP = "FallingAsleep"
    """No client needs the brokers. They run and are reached until the waker is ready."""
    ASLEEP = "Asleep"
    """No broker runs. Clients reach the waker."""
    WAKING = "Waking"
    """Brokers start. Clients reach the waker until one of them is ready."""

    @property
    def has_brokers(self) -> bool:
        """Whether brokers shall run."""
        return self is not Phase.ASLEEP

    @property
    def has_waker(self) -> bool:
        """Whether the waker shall run."""
        return self is not Phase.AWAKE

    @property
    def leads_to_waker(self) -> bool:
        """Whether the Service for clients selects the waker instead of the brokers."""
        return self in {Phase.ASLEEP, Phase.WAKING}


@dataclass(frozen=True, slots=True)
class IdleTime:
    """A duration in s, m or h, from 10s to 99h, parsed to seconds."""

    def openapi(self) -> dict[str, Any]:
        """See Schema."""
        return _TEXT.openapi()

    def parse(self, value: Any, path: str) -> int:
        """See Schema."""
        if not isinstance(value, str):
            raise ApiSpecError(f"{path} {_TEXT.right}, not {value!r}")
        match = re.fullmatch(r"([0-9]+)([smh])", _TEXT.parse(value, path))
        assert match, value
        return int(match[1]) * _UNIT_SECONDS[match[2]]


_TEXT = Text(
    5,
    "[1-9][0-9]{1,3}s|[1-9][0-9]{0,3}m|[1-9][0-9]?h",
    "must be a whole number of s, m or h, from 10s to 99h, for example 10m",
)


@dataclass(frozen=True, slots=True)
class ScaleToZero:
    """When a pool goes to no broker.

    Attributes:
        after: seconds without a client that needs a broker.
    """

    after: int = field(
        default=DEFAULT_AFTER_SECONDS,
        metadata=declare(
            IdleTime(),
            "Time without a client that needs a broker: one with a consumer, a producer, a watcher of topics, or a request. "
            "Default: 10m.",
        ),
    )
