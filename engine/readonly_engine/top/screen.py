"""One screen of `top`: states of brokers as lines of text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.status import words
from readonly_engine.status.state import ReasonCount
from readonly_engine.status.text import byte_count, byte_rate, count, duration, rate, short
from readonly_engine.top.columns import Column, fit, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.status.state import Status
    from readonly_engine.top.observed import Observed

_BROKERS: Final = (
    Column("BROKER"),
    Column("CONS", numeric=True),
    Column("CONN", numeric=True),
    Column("TOPICS", numeric=True),
    Column("SUBS", numeric=True),
    Column("SPARED MSG", numeric=True),
    Column("SPARED BYTES", numeric=True),
    Column("UP", numeric=True),
    Column("STORE"),
)
_TOPICS: Final = (
    Column("TOPIC"),
    Column("SUBS", numeric=True),
    Column("CONS", numeric=True),
    Column("MSG", numeric=True),
    Column("BYTES", numeric=True),
    Column("LAG", numeric=True),
    Column("PASSED", numeric=True),
    Column("TAIL"),
)
_SUBSCRIPTIONS: Final = (
    Column("SUBSCRIPTION"),
    Column("TYPE"),
    Column("CONS", numeric=True),
    Column("MSG", numeric=True),
    Column("BYTES", numeric=True),
    Column("LAG", numeric=True),
    Column("UNACKED", numeric=True),
    Column("SERVED BY"),
)
_CLIENTS: Final = (
    Column("CONSUMER"),
    Column("ADDRESS"),
    Column("CLIENT"),
    Column("PERMITS", numeric=True),
    Column("UNACKED", numeric=True),
    Column("MSG", numeric=True),
    Column("BYTES", numeric=True),
)
MORE: Final = "..."
PERSISTENT: Final = "persistent://"
"""Begin of the names that is left out: every served topic has it."""


def render(observed: Sequence[Observed], width: int, height: int | None = None) -> list[str]:
    """Return the lines of a screen.

    Args:
        observed: the brokers.
        width: columns of the terminal.
        height: lines of the terminal; None for all lines.
    """
    states = [one.status for one in observed if one.status is not None]
    lines = [f"{one.url}: {_error(one)}" for one in observed if one.error]
    if len(observed) == 1 and states:
        lines += _broker(states[0])
    elif states:
        lines += lay_out(_BROKERS, [_broker_cells(one) for one in states], width)
        lines += _problems(states)
    for status in states:
        lines += ["", *_list(status, width, named=len(states) > 1)]
    lines = [fit(line, width) for line in lines]
    if height is not None and len(lines) > height:
        lines = [*lines[: max(height - 1, 0)], fit(MORE, width)]
    return lines


def _error(one: Observed) -> str:
    return one.error if one.status is None else f"{one.error} (figures of {duration(one.age_s)} ago)"


def _broker(status: Status) -> list[str]:
    broker, relief, source = status.broker, status.relief, status.source
    head = [broker.url, broker.version + (f" ({broker.commit[:12]})" if broker.commit else "")]
    head.append(f"up {duration(broker.uptime_s)}")
    if broker.worker >= 0:
        head.append(f"worker {broker.worker} of {broker.workers}")
    if broker.draining:
        head.append("LEAVING THE POOL")
    pool = [f"pool {broker.pool}", f"uid {broker.pool_uid or 'none'}", f"locality {broker.locality or 'unknown'}"]
    members = [f"{one.url} {count(one.consumers)}" for one in status.members if not one.itself]
    pool.append(f"{count(status.member_count)} brokers" + (f": {', '.join(members)}" if members else ""))
    lines = [
        "  ".join(head),
        "  ".join(pool),
        (
            f"{count(broker.consumers)} consumers  {count(broker.connections)} connections  {count(broker.topics)} topics  "
            f"{count(broker.subscriptions)} subscriptions  {count(broker.claims)} claims"
        ),
        (
            f"delivered {_amount(relief.delivered_messages, relief.delivered_bytes)}  "
            f"pushed by owners {_amount(relief.pushed_messages, relief.pushed_bytes)}  "
            f"spared {_amount(relief.spared_messages, relief.spared_bytes)}"
        ),
        f"source {source.service_url}  metadata store {source.metadata_store_url}: {words.store_text(source)}",
        f"explicit LAC {words.lac_text(source)}",
    ]
    return lines + _problems([status])


def _amount(messages: int, size: int) -> str:
    return f"{short(messages)} messages, {byte_count(size)}"


def _problems(states: Sequence[Status]) -> list[str]:
    """Return bindings errors, and each reason of passthrough with its explanation once."""
    lines = [f"bindings: {one.source.bindings_error}" for one in states if one.source.bindings_error]
    passed: dict[str, int] = {}
    for status in states:
        for one in status.reasons:
            passed[one.reason] = passed.get(one.reason, 0) + one.subscriptions
    lines += [
        f"passed through: {words.passed_text(ReasonCount(reason, number))}: {words.reason_text(reason)}"
        for reason, number in passed.items()
    ]
    return lines


def _broker_cells(status: Status) -> list[str]:
    broker, relief = status.broker, status.relief
    return [
        broker.url + (" (leaving)" if broker.draining else ""),
        count(broker.consumers),
        count(broker.connections),
        count(broker.topics),
        count(broker.subscriptions),
        short(relief.spared_messages),
        byte_count(relief.spared_bytes),
        duration(broker.uptime_s),
        words.store_text(status.source),
    ]


def _list(status: Status, width: int, *, named: bool) -> list[str]:
    """Return the page of the list that was asked for.

    Args:
        status: the state of a broker.
        width: columns of the terminal.
        named: whether the broker is named, because there are several.
    """
    pages = status.pages
    if status.clients:
        what, table = "consumers", lay_out(_CLIENTS, _client_cells(status), width)
    elif status.subscriptions:
        what, table = "subscriptions", lay_out(_SUBSCRIPTIONS, _subscription_cells(status), width)
    else:
        what, table = "topics", lay_out(_TOPICS, _topic_cells(status), width)
    title = f"{count(pages.items)} {what}"
    if what != "topics" and status.topics:
        title += f" of {status.topics[0].name}"
    if named:
        title += f" at {status.broker.url}"
    if pages.count > 1:
        title += f", page {count(pages.number)} of {count(pages.count)}"
    if status.shortened:
        title += ", some rates and lags not counted"
    return [title, *table]


def _topic_cells(status: Status) -> list[list[str]]:
    return [
        [
            one.name.removeprefix(PERSISTENT),
            count(one.subscriptions),
            count(one.consumers),
            rate(one.message_rate),
            byte_rate(one.byte_rate),
            count(one.lag),
            count(one.passed_through),
            one.tail,
        ]
        for one in sorted(status.topics, key=lambda topic: (-(topic.byte_rate or 0.0), topic.name))
    ]


def _subscription_cells(status: Status) -> list[list[str]]:
    return [
        [
            one.name,
            one.kind,
            count(one.consumers),
            rate(one.message_rate),
            byte_rate(one.byte_rate),
            count(one.lag),
            count(one.unacked),
            words.served_text(one) + (f" ({one.reason})" if one.reason else ""),
        ]
        for one in status.subscriptions
    ]


def _client_cells(status: Status) -> list[list[str]]:
    return [
        [
            one.name or "unnamed",
            one.address,
            one.version or "unknown",
            count(one.permits),
            count(one.unacked),
            short(one.messages),
            byte_count(one.bytes),
        ]
        for one in status.clients
    ]
