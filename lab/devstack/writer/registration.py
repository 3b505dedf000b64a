"""Registration of the bookies in the metadata store, without which no broker uses them.

A stock 4.0.8 bookie does not always register again after its Kubernetes was stopped and started: it runs, and takes no entry.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from devstack.console import say
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Callable

    from devstack.kube.kubectl import Kubectl

BOOKIES: Final = ("pulsar-bookie-0", "pulsar-bookie-1")
TIMEOUT_S: Final = 240.0
"""Time for the start of both bookies on a busy machine, and for the end of their earlier sessions (30 s)."""
SAY_EVERY_S: Final = 30.0
_POLL_S: Final = 1.0
_LIST: Final = "api/v1/bookie/list_bookies?type=rw&print_hostnames=false"


def unregistered(kubectl: Kubectl, namespace: str) -> list[str]:
    """Return the pods of bookies that the metadata store does not list as writable, as the first bookie that answers reads it."""
    for pod in BOOKIES:
        try:
            text = kubectl.run(
                "get", "--raw", f"/api/v1/namespaces/{namespace}/pods/{pod}:8000/proxy/{_LIST}", timeout=10
            )
            listed = {str(bookie).partition(".")[0] for bookie in json.loads(text)}
        except (DevstackError, ValueError, TypeError):
            continue
        return [one for one in BOOKIES if one not in listed]
    return list(BOOKIES)


def wait_until_registered(
    kubectl: Kubectl,
    namespace: str,
    *,
    again: bool,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until all bookies are registered.

    Args:
        kubectl: of the Kubernetes.
        namespace: of the cluster.
        again: whether the cluster has run before.
        now: a monotonic clock, in seconds.
        sleep: waits for a number of seconds.

    Raises:
        DevstackError: a bookie is not registered in time; says how to start over.
    """
    begin = said = now()
    while missing := unregistered(kubectl, namespace):
        names = " and ".join(missing)
        if now() - begin >= TIMEOUT_S:
            after, cause = (
                (" again", " (stock bookies sometimes do not after a stop of Kubernetes)") if again else ("", "")
            )
            raise DevstackError(
                f"writer: {names} did not register{after} in the metadata store within {TIMEOUT_S:g} s{cause}; "
                "start over with: make clean-demo, then make demo-kubernetes",
                kubectl.run("-n", namespace, "get", "pods", "-o", "wide").strip().replace("\n", "\n  "),
            )
        if now() - said >= SAY_EVERY_S:
            said = now()
            say(
                f"waiting for {names} to register in the metadata store, {now() - begin:.0f} of at most {TIMEOUT_S:g} s"
            )
        sleep(_POLL_S)
