"""Bounds on what one client may have in the broker at once."""

from __future__ import annotations

WRITE_BUFFER_BYTES = 1 << 20
"""Above this a client gets no more messages until it has read some."""

AT_ONCE_BYTES = 256 << 10
"""More than this is not held back until the event loop's turn is over."""

NARROW_BUFFER_BYTES = 64 << 10
"""The same while so many clients are slow that their buffers together would be too much."""

BROKER_REQUESTS_AT_ONCE = 50_000
"""Requests of all clients that wait for an answer of the writable cluster; more are refused (maxConcurrentLookupRequest)."""

BROKER_REQUEST_BYTES_AT_ONCE = 512 << 20
"""The same in bytes: as many as may wait for slow clients."""

REQUESTS_AT_ONCE = 10_000
"""The same of one client, so that it leaves room for others. A stock Java client has 5,000 lookups under way at most
(maxConcurrentLookupRequests)."""

REQUEST_BYTES_AT_ONCE = 64 << 20
"""The same of one client in bytes; and what its SUBSCRIBEs, and its PRODUCERs, that are not answered may have. The frames of a
crowd are some hundred bytes each; one with a schema may have up to 5 MiB."""

CLOSINGS_AT_ONCE = 10_000
"""Consumers and producers of one client that are being closed; above this nothing more is read from it."""

WATCHERS = 1000
"""Topic-list watchers of one client. Each keeps the names of its topics; a stock client has one for each pattern, and polls where
it gets none."""

SUBSCRIBES_AT_ONCE = 100
"""Consumers of one client that may be on their way in at once; the others of a crowd wait as the frames that they came in."""

PRODUCERS_AT_ONCE = 10_000
"""Producers of one client that an owner has not answered for; more are refused, and their client tries again."""

ARRIVING_AT_ONCE = 6000
"""While fewer are on their way in for all clients together, a client may have more: they go to an owner in waves (Waves), and the
next wave must be at hand. Each takes some KB meanwhile."""

CLOSED_S = 30.0
"""So long after this side has closed a producer its client's messages are ignored, as at an owner (ServerCnx.closeProducer)."""
