"""Why a subscription delivers nothing new for now."""

from __future__ import annotations

from enum import IntFlag


class Pause(IntFlag):
    """A reason; each is taken back by itself."""

    LEAVING = 1
    """Its consumers go elsewhere."""
    LEASE = 2
    """Another broker may have it: this one's claim is in doubt."""
    STALE = 4
    """Another broker may have had it: the owner's cursor is being read."""
    OWNER = 8
    """Its owner may have given it to others."""
