"""The command line of `pulsar-readonly subscriptions` for a pool on this machine."""

import sys
from typing import Final

from devstack.pulsar.status import Endpoints

COMMAND: Final = (sys.executable, "-m", "readonly_engine.command", "subscriptions")


def connections_of(endpoints: Endpoints, pool: str, service_url: str) -> list[str]:
    """Return the options of the connections.

    Args:
        endpoints: the source cluster.
        pool: name of the pool.
        service_url: its service URL.
    """
    options = ["--service-url", endpoints.writer_url, "--admin-url", endpoints.admin_url]
    return [*options, "--pool", pool, "--pool-service-url", service_url]
