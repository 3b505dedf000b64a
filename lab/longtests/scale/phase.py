"""Costs of one part of a `make -C lab scale` run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Phase:
    """Costs of one part of the run.

    Attributes:
        name: name in the table.
        seconds: time from its start until all objects settled.
        requests: numbers of the operator's requests, by verb and resource.
        cpu_seconds: processor time of the operator.
        resident_mib: resident memory of the operator at its end.
        waits: whether it is a fixed waiting time, which measures no duration.
        brokers: number of brokers that were replaced.
        pools: pools that were not ready at some time, and the most times of one pool; the same for `bindings`.
    """

    name: str
    waits: bool = False
    seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    cpu_seconds: float = 0.0
    resident_mib: float = 0.0
    brokers: int = 0
    pools: tuple[int, int] = (0, 0)
    bindings: tuple[int, int] = (0, 0)
