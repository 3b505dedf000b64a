"""The page of the pool: its brokers, their sums, and what needs attention. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.http.status.elements import EMPTY, Column, Html, facts_list, join, name, table, tag, text
from readonly_engine.http.status.frame import alarm, link, page_document, section
from readonly_engine.status import words
from readonly_engine.status.text import UNKNOWN, byte_count, count, duration
from readonly_engine.status.view import REFRESHES

if TYPE_CHECKING:
    from readonly_engine.status.pool import MemberAnswer, PoolState
    from readonly_engine.status.state import Status

_BROKERS: Final = (
    Column("Broker"),
    Column("State"),
    Column("Version"),
    Column("Locality"),
    Column("Uptime", numeric=True),
    Column("Consumers", numeric=True),
    Column("Client connections", numeric=True),
    Column("Topics", numeric=True),
    Column("Subscriptions", numeric=True),
    Column("Claims", numeric=True),
    Column("Passed through", numeric=True),
    Column("Delivered without the owner", numeric=True),
    Column("Metadata store"),
)


def render_pool(pool: PoolState, refresh: int) -> str:
    """Return the page of a pool.

    Args:
        pool: the state.
        refresh: seconds until the browser loads the page again; 0 for never.
    """
    findings = pool.findings()
    body = [
        tag("a", text("Skip to the brokers"), href="#list", class_="skip"),
        tag(
            "header",
            tag("h1", text("Pool "), name(pool.name)),
            tag("nav", tag("ul", tag("li", tag("a", text("This broker"), href="./"))), aria_label="Path"),
        ),
        tag(
            "main",
            section("pool", "All brokers", _sums(pool)),
            section("findings", "Needs attention", _findings(findings)) if findings else EMPTY,
            section("list", "Brokers", _form(refresh), _brokers(pool)),
        ),
        tag(
            "footer",
            tag(
                "p",
                text("The figures of other brokers are some seconds old at most. "),
                tag("a", text("The same as JSON"), href="./pool/status"),
                class_="note",
            ),
        ),
    ]
    return page_document(f"Pool {pool.name}", body, refresh)


def _sums(pool: PoolState) -> Html:
    messages, size = pool.spared
    answered = f"{count(len(pool.states))} of {count(pool.member_count)}"
    items = [
        ("Pool uid", name(pool.uid or "none")),
        ("Brokers with figures", text(answered)),
        ("Consumers", text(count(pool.total(lambda one: one.broker.consumers)))),
        ("Client connections", text(count(pool.total(lambda one: one.broker.connections)))),
        ("Subscriptions served", text(count(pool.total(lambda one: one.broker.subscriptions)))),
        ("Claimed subscriptions", text(count(pool.total(lambda one: one.broker.claims)))),
        ("Passthrough subscriptions", text(count(pool.total(_passed)))),
        (
            "Delivered",
            text(f"{count(pool.relief.delivered_messages)} messages, {byte_count(pool.relief.delivered_bytes)}"),
        ),
        ("Delivered without the owner", text(f"{count(messages)} messages, {byte_count(size)}")),
    ]
    return facts_list(items)


def _findings(findings: list[str]) -> Html:
    return tag("ul", *(tag("li", alarm(one)) for one in findings))


def _brokers(pool: PoolState) -> Html:
    caption = f"{count(pool.member_count)} brokers"
    if pool.member_count > len(pool.answers):
        caption += f", of which the first {count(len(pool.answers))} are listed"
    return table(caption, _BROKERS, [_row(one) for one in pool.answers])


def _row(answer: MemberAnswer) -> list[Html]:
    member, status = answer.member, answer.status
    head = link(member.url, "./" if member.itself else member.status_url)
    if member.itself:
        head = join([head, text(" (this broker)")])
    if status is None:
        blank = text(UNKNOWN)
        return [
            head,
            alarm("no figures"),
            blank,
            name(member.locality),
            blank,
            text(count(member.consumers)),
            *[blank] * 7,
        ]
    broker = status.broker
    store = words.store_text(status.source)
    bad = not status.source.connected or status.source.suspended
    return [
        head,
        alarm("leaving the pool") if broker.draining else text("serving"),
        text(broker.version),
        name(broker.locality),
        text(duration(broker.uptime_s)),
        text(count(broker.consumers)),
        text(count(broker.connections)),
        text(count(broker.topics)),
        text(count(broker.subscriptions)),
        text(count(broker.claims)),
        text(count(_passed(status))),
        text(byte_count(status.relief.spared_bytes)),
        alarm(store) if bad else text(store),
    ]


def _passed(status: Status) -> int:
    return sum(one.subscriptions for one in status.reasons)


def _form(refresh: int) -> Html:
    """Return the form of the refresh. It needs no script: the browser loads the page again by itself."""
    choices = [
        tag("option", text(f"every {one} s" if one else "off"), value=str(one), selected=one == refresh)
        for one in REFRESHES
    ]
    chosen = tag(
        "div", tag("label", text("Load again"), for_="refresh"), tag("select", *choices, id="refresh", name="refresh")
    )
    return tag("form", chosen, tag("button", text("Show"), type="submit"), action="./pool", method="get")
