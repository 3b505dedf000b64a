"""Generate docs/explanation/scale.md from measurements."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from longtests.scale.stand_ins import START_SECONDS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from longtests.scale.objects import Load
    from longtests.scale.phase import Phase

TEXT = """# Scale of the operator

`make -C lab scale` starts an etcd, a kube-apiserver and Kubernetes' controller of StatefulSets, without nodes. It runs the
operator of this checkout, creates {pools} pools of {brokers} brokers in {namespaces} namespaces, and {bindings} bindings,
{each} per pool.
The operator has the rights of `manifests/`. Stand-ins take the place of kubelets and brokers: a pod is ready after
{start:.0f} s, and holds the bindings of its pool at once. Pools share {writers} source clusters: stand-ins that answer at once.
The API server's audit log counts the operator's requests.
Memory and processor time are those of its process. `make -C lab scale SCALE_OPTIONS=--write` writes this page.

Measured on {processors} processors, with a load average of {load_average:.1f} by all processes of the machine. Other load
increases the durations; requests and memory do not depend on it.

| change | settled after | requests | watches, lists | status writes | processor | memory |
|---|---|---|---|---|---|---|
{rows}

{rollout}The operator's peak memory was {peak:.0f} MiB. Without changes it sent {idle:.1f} requests per minute{besides}.

An operator of commit 43cbc8f4 (`--operator FOLDER`) has no budget of rollouts, and counts a binding as ready only while all
brokers serve it. With it all pools rolled at once: 34.5 s and 1,800 status writes. Ready became False in 700 of 2,000 bindings.

`make -C lab scale SCALE_OPTIONS=--together` puts all topics into one namespace of Pulsar, with an expression in each tenth
binding: the most interaction of bindings. `--pools 1 --namespaces 1 --bindings 1000` puts all bindings into one pool.

* Settled: the status of every object is that of its current spec, and pools and bindings are ready. After a restart: every pool
  was reconciled, and none is queued. After a rollout: all pods have the new image, and are ready.
* A watch is renewed every two minutes. A list of each kind every ten minutes corrects the effect of missed events.
* A new pool costs a read and an apply request for each of its objects, and a write of its status. A new or changed binding costs
  its pool's ConfigMap, and the status of the pool and of the binding. The operator writes nothing to other bindings and pools.
* After a restart, the operator lists everything, applies nothing, and writes no unchanged status.
"""

ROLLOUT = """In the rollout {brokers} brokers were replaced, in at most {rolling} pools at the same time, with {patches:.1f}
status writes for each. Ready became False in {pools} of {all_pools} pools, at most {most} times in one, and in
{bindings} of {all_bindings} bindings{times}.

"""


def text(load: Load, phases: Sequence[Phase], peak: float, rolling: int = 0) -> str:
    """Return the page.

    Args:
        load: the objects.
        phases: what was measured.
        peak: peak memory, in MiB.
        rolling: pools that rolled at the same time.
    """
    idle = next(phase for phase in phases if phase.name == "no change")
    per_minute = idle.requests.total() / idle.seconds * 60
    others = _count(idle.requests, lambda verb, _: verb not in {"watch", "list"})
    return TEXT.format(
        pools=load.pools,
        bindings=load.bindings,
        each=load.bindings // load.pools,
        namespaces=load.namespaces,
        writers=len(load.sources),
        processors=os.cpu_count(),
        load_average=os.getloadavg()[2],
        rows="\n".join(map(_row, phases)),
        brokers=load.brokers,
        start=START_SECONDS,
        rollout="".join(_rollout(load, phase, rolling) for phase in phases if phase.brokers),
        peak=peak,
        idle=per_minute,
        besides="" if others else ", all of them watches and lists" if per_minute else "",
    )


def _rollout(load: Load, phase: Phase, rolling: int) -> str:
    times = f", at most {phase.bindings[1]} times in one" if phase.bindings[0] else ""
    return ROLLOUT.format(
        brokers=phase.brokers,
        rolling=rolling,
        patches=_status_writes(phase) / phase.brokers,
        pools=phase.pools[0],
        all_pools=load.pools,
        most=phase.pools[1],
        bindings=phase.bindings[0],
        all_bindings=load.bindings,
        times=times,
    )


def _status_writes(phase: Phase) -> int:
    return _count(phase.requests, lambda verb, resource: verb == "patch" and resource.endswith("/status"))


def _row(phase: Phase) -> str:
    observing = _count(phase.requests, lambda verb, _: verb in {"watch", "list"})
    written = _status_writes(phase)
    cells = (
        phase.name,
        f"({phase.seconds:.0f} s)" if phase.waits else f"{phase.seconds:.1f} s",
        phase.requests.total(),
        observing,
        written,
        f"{phase.cpu_seconds:.1f} s",
        f"{phase.resident_mib:.0f} MiB",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _count(requests: Counter[str], wanted: Callable[[str, str], bool]) -> int:
    return sum(count for name, count in requests.items() if wanted(*name.split(" ", 1)))
