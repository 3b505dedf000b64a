"""What clients of which version do, told by the version that they give in CONNECT."""

from __future__ import annotations

import re

_MOVES_SINCE = {"Java": (3, 2), "CPP": (3, 5), "Python": (3, 5), "Go": (0, 13)}
"""The first version of each client that goes to the broker named in CLOSE_PRODUCER and CLOSE_CONSUMER (PIP-307)."""

_VERSION = re.compile(r"Pulsar[- ](Java|CPP|Python|Go)[- ]v?(\d+)\.(\d+)")


def goes_where_told(client_version: str) -> bool:
    """Whether a client connects to the broker that a CLOSE_PRODUCER or CLOSE_CONSUMER names; others look the topic up again.

    No feature flag says so. A client that is not known is taken for one that does not.
    """
    match = _VERSION.match(client_version)
    return match is not None and (int(match[2]), int(match[3])) >= _MOVES_SINCE[match[1]]
