"""Bounds on what one client may have in the broker at once."""

from __future__ import annotations

WRITE_BUFFER_BYTES = 1 << 20
"""Above this a client gets no more messages until it has read some."""

AT_ONCE_BYTES = 256 << 10
"""More than this is not held back until the event loop's turn is over."""

NARROW_BUFFER_BYTES = 64 << 10
"""The same while so many clients are slow that their buffers together would be too much."""

SUBSCRIBES_AT_ONCE = 100
"""Consumers of one client that may be on their way in at once; the others of a crowd wait as the frames that they came in."""

PRODUCERS_AT_ONCE = 10_000
"""Producers of one client that an owner has not answered for; more are refused, and their client tries again."""

ARRIVING_AT_ONCE = 6000
"""While fewer are on their way in for all clients together, a client may have more: they go to an owner in waves (Waves), and the
next wave must be at hand. Each takes some KB meanwhile."""

CLOSED_S = 30.0
"""So long after this side has closed a producer its client's messages are ignored, as at an owner (ServerCnx.closeProducer)."""
