"""Behaviour of client versions, by the version in CONNECT."""

from __future__ import annotations

import re

_ASSIGNED_BROKER_SINCE = {"Java": (3, 2), "CPP": (3, 5), "Python": (3, 5), "Go": (0, 13)}
"""The first version of each client that connects to the broker named in CLOSE_PRODUCER and CLOSE_CONSUMER (PIP-307)."""

_VERSION = re.compile(r"Pulsar[- ](Java|CPP|Python|Go)[- ]v?(\d+)\.(\d+)")


_RESTARTS_SEQUENCE = re.compile(r"Pulsar[- ](CPP|Python)[- ]")


def restarts_sequence(client_version: str) -> bool:
    """Return whether a client without a receipt restarts its sequence at last_sequence_id + 1 at each PRODUCER_SUCCESS.

    C++ clients do (ProducerImpl::handleCreateProducer), and with them those of Python and Node. Messages from before the
    reconnect may have these ids already. Clients of Java and Go set the sequence only at the first PRODUCER_SUCCESS.
    """
    return _RESTARTS_SEQUENCE.match(client_version) is not None


def supports_assigned_broker(client_version: str) -> bool:
    """Return whether a client connects to the broker named in CLOSE_PRODUCER or CLOSE_CONSUMER; others look the topic up again.

    There is no feature flag for it. Unknown clients count as not supporting it.
    """
    match = _VERSION.match(client_version)
    return match is not None and (int(match[2]), int(match[3])) >= _ASSIGNED_BROKER_SINCE[match[1]]
