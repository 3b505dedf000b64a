"""The report of a plan: a table for people, a JSON document for programs."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from readonly_engine.sizing import measured
from readonly_engine.status.text import printable
from readonly_engine.tool.table import table

if TYPE_CHECKING:
    from readonly_engine.sizing.estimate import Estimate
    from readonly_engine.sizing.plan import OwnerPlan, Plan, PoolPlan

WIDTH: Final = 100
MAX_SENTENCE: Final = 2000
"""Characters of a sentence of the advice. Some name topics."""

DIGITS: Final = 4
"""Significant digits of the JSON document. The estimates have fewer."""

CORES: Final = "cores"
BYTES: Final = "bytes"
BYTES_PER_SECOND: Final = "bytes/s"
PER_SECOND: Final = "per second"
SHARE: Final = "share"

_POOL: Final = (
    ("brokers", "brokers", ""),
    ("workers", "worker processes, one core each", ""),
    ("cpu", "CPU in use", CORES),
    ("broker_cpu", "CPU in use of each broker", CORES),
    ("broker_memory", "memory of each broker, with its cache", BYTES),
    ("broker_cache", "entry cache of each broker", BYTES),
    ("network_in", "network in, from owners and bookies", BYTES_PER_SECOND),
    ("network_out", "network out, to clients", BYTES_PER_SECOND),
    ("bookie_reads", "entries read at the bookies", PER_SECOND),
)
_OWNER: Final = (
    ("cpu_alone", "CPU of the readers without a pool", CORES),
    ("cpu_left", "CPU of the readers with the pool", CORES),
    ("cpu_relieved", "CPU relieved", CORES),
    ("share_relieved", "share of the readers' CPU relieved", SHARE),
    ("bytes_alone", "network out to readers without a pool", BYTES_PER_SECOND),
    ("bytes_left", "network out to the pool", BYTES_PER_SECOND),
    ("bytes_relieved", "network out relieved", BYTES_PER_SECOND),
    ("acks", "acks, which stay at the owners", PER_SECOND),
    ("pushed", "messages pushed to the pool at the tail", PER_SECOND),
    ("consumers", "zero-permit consumers of the pool", ""),
    ("passing", "subscriptions that pass through", ""),
)

UNCERTAINTY: Final = (
    f"Constants: {measured.SOURCE}, measured from {measured.MEASURED_ON} on {measured.MACHINE}. LOW, EXPECTED and HIGH use the "
    "lowest, median and highest figures of each. Another processor, TLS or compression changes them. The CPU of owners varies "
    "most: a factor of 2 is usual (docs/how-to/plan-size.md). Begin with HIGH, measure, then lower it."
)


def as_json(plan: Plan) -> str:
    """Return the plan as a JSON document."""
    policy = plan.policy
    document = {
        "suits": plan.advice.suits,
        "reasons": list(plan.advice.reasons),
        "limits": list(plan.advice.limits),
        "load": {name: _rounded(value) for name, (_, value) in _load(plan).items()},
        "policy": {one.name: getattr(policy, one.name) for one in fields(policy)},
        "pool": _values(plan.pool, _POOL),
        "owners": _values(plan.owner, _OWNER),
        "constants": {
            "source": measured.SOURCE,
            "measured": measured.MEASURED_ON,
            "machine": measured.MACHINE,
            "note": UNCERTAINTY,
        },
    }
    return f"{json.dumps(document, indent=1)}\n"


def as_table(plan: Plan) -> str:
    """Return the plan as text: the advice, the load, the pool and the owner brokers."""
    lines = [f"Does a pool suit this load? {plan.advice.suits}"]
    for text in (*plan.advice.reasons, *plan.advice.limits):
        shown = printable(text, MAX_SENTENCE)  # with names of topics, which strangers choose
        lines += textwrap.wrap(shown, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    lines += ["", "Load"]
    lines += table([[title, f"{value:,.6g}"] for title, value in _load(plan).values()])
    head = ("", "LOW", "EXPECTED", "HIGH", "UNIT")
    pool = [_row(title, unit, getattr(plan.pool, name)) for name, title, unit in _POOL]
    owners = [_row(title, unit, getattr(plan.owner, name)) for name, title, unit in _OWNER]
    lines += ["", "Pool", *table([head, *pool]), "", "Owner brokers", *table([head, *owners]), ""]
    lines += textwrap.wrap(UNCERTAINTY, WIDTH)
    return "\n".join(lines) + "\n"


def _load(plan: Plan) -> dict[str, tuple[str, float]]:
    loads = plan.work.loads
    return {
        "topics": ("topics and partitions", sum(load.topics for load in loads)),
        "messages": ("messages published per second", sum(load.topics * load.messages for load in loads)),
        "entries": ("entries published per second", sum(load.topics * load.entries for load in loads)),
        "bytes": ("bytes published per second", sum(load.topics * load.bytes for load in loads)),
        "delivered": ("entries delivered per second", sum(load.topics * load.entries * load.readers for load in loads)),
        "catch_up_bytes": ("bytes of backlog per second", sum(load.topics * load.catch_up_bytes for load in loads)),
        "connections": ("client connections", plan.work.client_connections),
    }


def _values(of: PoolPlan | OwnerPlan, names: tuple[tuple[str, str, str], ...]) -> dict[str, dict[str, float | str]]:
    found: dict[str, dict[str, float | str]] = {}
    for name, _, unit in names:
        estimate: Estimate = getattr(of, name)
        found[name] = {key: _rounded(value) for key, value in estimate._asdict().items()}
        found[name]["unit"] = unit
    return found


def _row(title: str, unit: str, estimate: Estimate) -> tuple[str, str, str, str, str]:
    if unit in {BYTES, BYTES_PER_SECOND}:
        shown, word = [_bytes(value) for value in estimate], "MB" if unit == BYTES else "MB/s"
    elif unit == SHARE:
        shown, word = [f"{value:.0%}" for value in estimate], ""
    elif unit == CORES:
        shown, word = [f"{value:.3f}" if value < 1 else f"{value:,.1f}" for value in estimate], unit
    else:
        shown, word = [f"{value:,.0f}" for value in estimate], unit
    return (title, shown[0], shown[1], shown[2], word)


def _bytes(value: float) -> str:
    return f"{value / 1e6:,.0f}" if value >= 1e7 else f"{value / 1e6:.2f}"


def _rounded(value: float) -> float:
    """Return a value with DIGITS digits; a whole number has all of its own."""
    if not value or not math.isfinite(value) or float(value).is_integer():
        return int(value) if math.isfinite(value) else value
    return round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))
