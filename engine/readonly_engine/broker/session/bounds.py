"""Bounds on what one client may have in the broker at once."""

from __future__ import annotations

WRITE_BUFFER_BYTES = 1 << 20
"""Bytes that wait for one client. Above this it gets no message until it has read some."""

MAX_COALESCED_BYTES = 256 << 10
"""Frames of one client that wait for the end of the event loop's turn; with more bytes they are sent at once."""

REDUCED_BUFFER_BYTES = 64 << 10
"""WRITE_BUFFER_BYTES while the buffers of all slow clients together exceed `max_buffered_bytes`."""

MAX_BROKER_REQUESTS = 50_000
"""Unanswered requests of all clients. The broker refuses more, as a stock one does (maxConcurrentLookupRequest)."""

MAX_BROKER_REQUEST_BYTES = 512 << 20
"""Bytes of the unanswered requests of all clients: as many as may wait for slow clients."""

MAX_CONCURRENT_REQUESTS = 10_000
"""Unanswered requests of one client, which leave room for others. A stock Java client has at most 5,000 lookups under way
(maxConcurrentLookupRequests)."""

MAX_REQUEST_BYTES = 64 << 20
"""Bytes of the unanswered requests of one client, and as many of its SUBSCRIBEs and of its PRODUCERs. Such a frame mostly has a
few hundred bytes; with a schema it has up to 5 MiB."""

MAX_CONCURRENT_CLOSES = 10_000
"""Consumers and producers of one client that are being closed. At this number the broker stops reading from the client."""

MAX_TOPIC_WATCHERS = 1000
"""Topic-list watchers of one client. Each keeps the names of its topics. A stock client has one for each pattern, and polls if it
is refused."""

MAX_CONCURRENT_SUBSCRIBES = 100
"""SUBSCRIBEs of one client in admission. The others wait as undecoded frames."""

MAX_CONCURRENT_PRODUCERS = 10_000
"""Unanswered PRODUCERs of one client. The broker refuses more, and the client tries again."""

MAX_BROKER_SUBSCRIBES = 6000
"""SUBSCRIBEs of all clients in admission. Below that, one client may exceed MAX_CONCURRENT_SUBSCRIBES, because the next
wave for an owner (Waves) must be at hand. Each takes some KB."""

CLOSED_PRODUCER_TTL_S = 30.0
"""Seconds after this side has closed a producer in which the client's messages are ignored (ServerCnx.closeProducer)."""
