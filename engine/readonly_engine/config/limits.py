"""Limits of a broker that are not plain numbers: dispatch rates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from readonly_engine.config.kinds import LIMIT, SIZE, mapping_of
from readonly_engine.config.option import option


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """A limit of dispatch.

    Attributes:
        messages: messages per second; 0 for no limit.
        bytes: bytes per second; 0 for no limit.
    """

    messages: int = field(default=0, metadata=option(LIMIT, "limit of messages", unit="per second", unset="no limit"))
    bytes: int = field(default=0, metadata=option(SIZE, "limit of bytes", unit="per second", unset="no limit"))

    def __bool__(self) -> bool:
        return bool(self.messages or self.bytes)


MAX_BUFFERED_BYTES: Final = 512 << 20
UNLIMITED: Final = DispatchRate()
DISPATCH_RATE: Final = mapping_of(
    DispatchRate, "{messages: N, bytes: SIZE}", "{messages: 1000, bytes: 10MiB}", empty=False
)
