"""A snapshot as text: tables as kubectl prints them, without colours. Pure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from readonly_engine.status.state import HERE, OWNER
from readonly_engine.status.text import UNKNOWN, count, printable
from readonly_engine.top.columns import Column, lay_out

from readonly_operator.kubectl import next_steps
from readonly_operator.kubectl.snapshot import condition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from readonly_engine.status.state import Status, SubscriptionState
    from readonly_engine.top.observed import Observed

    from readonly_operator.kubectl.snapshot import BindingView, BrokerView, ConditionView, PoolView, Snapshot

WIDTH: Final = 10_000
"""Columns of a table: it is never cut, as those of kubectl."""

TEXT_WIDTH: Final = 120
"""Columns of a message, which is wrapped."""

MAX_TEXT: Final = 1000
MAX_TOPICS: Final = 5
"""Topics of a binding that its line names."""

_POOLS: Final = (
    Column("POOL"),
    Column("READY"),
    Column("REASON"),
    Column("BROKERS"),
    Column("BINDINGS", numeric=True),
    Column("SOURCE"),
)
_CONDITIONS: Final = (Column("CONDITION"), Column("STATUS"), Column("REASON"), Column("SINCE"))
_BROKERS: Final = (
    Column("BROKER"),
    Column("READY"),
    Column("RESTARTS", numeric=True),
    Column("NODE"),
    Column("LOCALITY"),
    Column("CONSUMERS", numeric=True),
    Column("CONNECTIONS", numeric=True),
    Column("TOPICS", numeric=True),
    Column("SUBSCRIPTIONS", numeric=True),
    Column("CLAIMS", numeric=True),
    Column("PASSED", numeric=True),
    Column("PROBLEM"),
)
_BINDINGS: Final = (
    Column("BINDING"),
    Column("READY"),
    Column("REASON"),
    Column("SERVING"),
    Column("MATCHED", numeric=True),
    Column("TOPICS"),
)
_TOPICS: Final = (
    Column("TOPIC"),
    Column("BROKER"),
    Column("SUBSCRIPTIONS", numeric=True),
    Column("CONSUMERS", numeric=True),
    Column("LAG", numeric=True),
    Column("SLOWEST"),
    Column("PASSED", numeric=True),
    Column("TAIL"),
)
_SUBSCRIPTIONS: Final = (
    Column("SUBSCRIPTION"),
    Column("BROKER"),
    Column("TYPE"),
    Column("CONSUMERS", numeric=True),
    Column("LAG", numeric=True),
    Column("UNACKED", numeric=True),
    Column("MARK-DELETE"),
    Column("SERVED BY"),
)


def render(snapshot: Snapshot) -> list[str]:
    """Return the lines of a snapshot."""
    lines: list[str] = []
    if snapshot.pools:
        lines += lay_out(_POOLS, [_pool_cells(one) for one in snapshot.pools], WIDTH)
    for pool in snapshot.pools:
        lines += ["", printable(f"Pool {pool.key}"), *_pool(pool)]
    if snapshot.loose:
        lines += ["", "Bindings of other pools", *_bindings(snapshot.loose)]
        steps = [step for one in snapshot.loose for step in next_steps.of_binding(one)][: next_steps.MAX_STEPS]
        lines += _listed("Where to look next", steps)
    lines += _listed("Missing rights", [one.text for one in snapshot.missing])
    lines += _listed("Notes", snapshot.notes)
    return lines[1:] if lines and not lines[0] else lines


def _pool_cells(pool: PoolView) -> list[str]:
    ready = condition_of(pool.conditions, "Ready")
    name = f"{pool.key.name} (paused)" if pool.paused else pool.key.name
    brokers = f"{pool.ready_replicas}/{pool.replicas}"
    source = printable(pool.service_url) or UNKNOWN
    return [name, ready.status, ready.reason or UNKNOWN, brokers, count(pool.bindings_allowed), source]


def _pool(pool: PoolView) -> list[str]:
    lines = _conditions(pool.conditions)
    if pool.brokers:
        lines += ["", *lay_out(_BROKERS, [cells for one in pool.brokers for cells in _broker_rows(one)], WIDTH)]
    if pool.bindings:
        lines += ["", *_bindings(pool.bindings)]
    lines += _lists([one for broker in pool.brokers for one in broker.observed])
    return lines + _listed("Where to look next", next_steps.of_pool(pool))


def _conditions(conditions: Sequence[ConditionView]) -> list[str]:
    """Return a table, with the message of each condition below its line."""
    rows = [
        [one.type, one.status + (" (of an older spec)" if one.outdated else ""), one.reason, one.since or UNKNOWN]
        for one in conditions
    ]
    if not rows:
        return []
    head, *lines = lay_out(_CONDITIONS, rows, WIDTH)
    made = [head]
    for line, one in zip(lines, conditions, strict=True):
        made += [line, *_wrapped(one.message, "    ")]
    return made


def _broker_rows(broker: BrokerView) -> list[list[str]]:
    """Return a line for the pod, or one for each of its worker processes."""
    head = ["True" if broker.ready else "False", count(broker.restarts)]
    head += [broker.node or UNKNOWN, broker.locality or UNKNOWN]
    if not broker.observed:
        return [[broker.pod, *head, *[UNKNOWN] * 6, broker.trouble]]
    return [[one.url, *head, *_figures(one.status), one.error or broker.trouble] for one in broker.observed]


def _figures(status: Status | None) -> list[str]:
    if status is None:
        return [UNKNOWN] * 6
    broker = status.broker
    passed = sum(one.subscriptions for one in status.reasons)
    numbers = (broker.consumers, broker.connections, broker.topics, broker.subscriptions, broker.claims, passed)
    return list(map(count, numbers))


def _bindings(bindings: Iterable[BindingView]) -> list[str]:
    rows = []
    for one in bindings:
        ready = condition_of(one.conditions, "Ready")
        named = [*one.topics, *(f"namespace {name}" for name in one.namespaces)]
        topics = ", ".join(named[:MAX_TOPICS]) + (f" and {len(named) - MAX_TOPICS} more" if named[MAX_TOPICS:] else "")
        name = f"{one.namespace}/{one.name}"
        serving = f"{one.serving}/{one.brokers}"
        rows.append([name, ready.status, ready.reason or UNKNOWN, serving, count(one.matched), topics])
    return lay_out(_BINDINGS, rows, WIDTH)


def _lists(observed: Sequence[Observed]) -> list[str]:
    """Return the topics of all brokers, or the subscriptions of the one topic that was asked for."""
    known = [(one.url, one.status) for one in observed if one.status is not None]
    subscriptions = [
        [
            one.name,
            url,
            one.kind,
            count(one.consumers),
            count(one.lag),
            count(one.unacked),
            one.mark_delete or UNKNOWN,
            _served(one),
        ]
        for url, status in known
        for one in status.subscriptions
    ]
    if subscriptions:
        return ["", *lay_out(_SUBSCRIPTIONS, subscriptions, WIDTH), *_rest(known, "subscriptions")]
    topics = [
        [
            one.name,
            url,
            count(one.subscriptions),
            count(one.consumers),
            count(one.lag),
            one.slowest or UNKNOWN,
            count(one.passed_through),
            one.tail,
        ]
        for url, status in known
        for one in status.topics
    ]
    return ["", *lay_out(_TOPICS, sorted(topics), WIDTH), *_rest(known, "topics")] if topics else []


def _rest(known: Iterable[tuple[str, Status]], what: str) -> list[str]:
    """Return which page of a broker's list is shown, if it has several."""
    return [
        printable(f"{url}: page {status.pages.number} of {status.pages.count}, {count(status.pages.items)} {what}")
        for url, status in known
        if status.pages.count > 1
    ]


def _served(one: SubscriptionState) -> str:
    served = "this broker" if one.served_by == HERE else one.served_by
    return f"{served} ({one.reason})" if one.served_by == OWNER and one.reason else served


def _listed(title: str, texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    lines = ["", title]
    for text in texts:
        said, found, command = text.rpartition(next_steps.TRY)
        first, *others = _wrapped(said if found else text, "  ") or [""]
        lines += [f"- {first.lstrip()}", *others]
        if found:  # in one line, to be copied
            lines.append(f"  Try: {printable(' '.join(command.split()), MAX_TEXT)}")
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    lines = textwrap.wrap(
        printable(" ".join(text.split()), MAX_TEXT), TEXT_WIDTH, break_on_hyphens=False, break_long_words=False
    )
    return [indent + line for line in lines]
