"""Costs of one part of a `make scale` run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Phase:
    """What a part of the run cost.

    Attributes:
        name: for the table.
        seconds: from its begin until all was settled.
        requests: of the operator, by verb and resource.
        cpu_seconds: of the operator.
        resident_mib: of the operator, at its end.
        waits: whether it is a time of waiting, which says nothing about how long something takes.
    """

    name: str
    waits: bool = False
    seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    cpu_seconds: float = 0.0
    resident_mib: float = 0.0
