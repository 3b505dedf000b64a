"""What Kubernetes and the brokers show of a pool that may sleep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.assembly.sleep import Observed, Sleep, leads_to_waker
from readonly_operator.kube.kinds import POD, SERVICE, STATEFUL_SET
from readonly_operator.kube.pods import is_ready
from readonly_operator.model import waker

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool
    from readonly_operator.assembly.context import Context


def observe_sleep(context: Context, pool: Pool) -> Sleep | None:
    """Return the phase of a pool that may sleep; None for one that never does. Brokers are asked while they may go."""
    if pool.scale_to_zero is None:
        return None
    key, store = pool.key, context.store
    live = store.get(STATEFUL_SET, key.namespace, key.name)
    to_waker = leads_to_waker(store.get(SERVICE, key.namespace, key.name))
    pods = [pod for pod in store.of_pool(POD, key) if "deletionTimestamp" not in pod["metadata"]]
    idle_seconds, silent = (None, "") if to_waker or not pods else context.brokers.idle_seconds(pods)
    observed = Observed(
        exists=live is not None,
        replicas=0 if live is None else live["spec"].get("replicas", 1),
        leads_to_waker=to_waker,
        waker_ready=waker.is_ready(store.get(STATEFUL_SET, key.namespace, key.waker)),
        ready_brokers=sum(map(is_ready, pods)),
        idle_seconds=idle_seconds,
        silent=silent,
    )
    return Sleep.of(observed, pool.scale_to_zero.after)
