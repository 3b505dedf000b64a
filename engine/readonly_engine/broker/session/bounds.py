"""Bounds of one client, and of all clients of a broker."""

from __future__ import annotations

WRITE_BUFFER_BYTES = 1 << 20
"""Buffered bytes for one client. Above this it gets no messages until it has read some."""

MAX_COALESCED_BYTES = 256 << 10
"""Bytes of coalesced frames of one client. More are sent at once, before the iteration of the event loop ends."""

REDUCED_BUFFER_BYTES = 64 << 10
"""WRITE_BUFFER_BYTES while the buffers of all slow clients together exceed `max_buffered_bytes`."""

MAX_BROKER_REQUESTS = 50_000
"""Unanswered requests of all clients. The broker refuses more, as a stock one does (maxConcurrentLookupRequest)."""

MAX_BROKER_REQUEST_BYTES = 512 << 20
"""Bytes of the unanswered requests of all clients, as the default bound of buffers for slow clients."""

MAX_CONCURRENT_REQUESTS = 10_000
"""Unanswered requests of one client, a fraction of MAX_BROKER_REQUESTS. A stock Java client sends at most 5,000 lookups before
their answers (maxConcurrentLookupRequests)."""

MAX_REQUEST_BYTES = 64 << 20
"""Bytes of the unanswered requests of one client. The same bound holds for its SUBSCRIBEs and for its PRODUCERs. Most of these
frames have a few hundred bytes; one with a schema has up to 5 MiB."""

MAX_CONCURRENT_CLOSES = 10_000
"""Consumers and producers of one client that are being closed. At this number the broker stops reading from the client."""

MAX_TOPIC_WATCHERS = 1000
"""Topic-list watchers of one client. Each keeps the names of its topics. A stock client has one for each pattern, and polls if
the watcher is refused."""

MAX_CONCURRENT_SUBSCRIBES = 100
"""SUBSCRIBEs of one client in admission. The others wait as undecoded frames, because MAX_REQUEST_BYTES counts frames: decoded, a
usual SUBSCRIBE takes 7 times the memory, and one with thousands of properties 12 times (measured)."""

MAX_CONCURRENT_PRODUCERS = 10_000
"""Unanswered PRODUCERs of one client. The broker refuses more, and the client tries again."""

MAX_BROKER_SUBSCRIBES = 6000
"""SUBSCRIBEs of all clients in admission. Below that, one client may exceed MAX_CONCURRENT_SUBSCRIBES, so that the next
requests for an owner are ready when its window opens (ThrottleWindow). Each takes some KB."""

CLOSED_PRODUCER_TTL_S = 30.0
"""Seconds after the broker has closed a producer in which its messages are ignored (ServerCnx.closeProducer)."""
