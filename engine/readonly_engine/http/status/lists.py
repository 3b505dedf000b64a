"""The lists of the status page: topics, a topic's subscriptions, a subscription's consumers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.http.status.elements import EMPTY, Column, Html, facts_list, join, name, table, tag, text
from readonly_engine.status import words
from readonly_engine.status.text import byte_count, byte_rate, count, rate
from readonly_engine.status.view import REFRESHES

if TYPE_CHECKING:
    from readonly_engine.status.state import Status, SubscriptionState, TopicState
    from readonly_engine.status.view import View

MAX_QUERY: Final = 4000
"""Characters of a link's query. A longer name is shown without a link: the server would refuse the line of the request."""

_TOPICS: Final = (
    Column("Topic"),
    Column("Subscriptions", numeric=True),
    Column("Consumers", numeric=True),
    Column("Messages", numeric=True),
    Column("Bytes", numeric=True),
    Column("Largest lag (entries)", numeric=True),
    Column("Tail"),
    Column("Passed through", numeric=True),
)
_SUBSCRIPTIONS: Final = (
    Column("Subscription"),
    Column("Type"),
    Column("Consumers", numeric=True),
    Column("Messages", numeric=True),
    Column("Bytes", numeric=True),
    Column("Lag (entries)", numeric=True),
    Column("Unacked messages", numeric=True),
    Column("Mark-delete position"),
    Column("Served by"),
)
_CLIENTS: Final = (
    Column("Consumer"),
    Column("Address"),
    Column("Client version"),
    Column("Permits", numeric=True),
    Column("Unacked messages", numeric=True),
    Column("Messages", numeric=True),
    Column("Bytes", numeric=True),
)


def topics_section(status: Status, view: View) -> Html:
    """Return the page of the topics that have consumers here."""
    rows = [
        [
            _view_link(topic.name, view.changed(topic=topic.name, prefix="")),
            text(count(topic.subscriptions)),
            text(count(topic.consumers)),
            text(rate(topic.message_rate)),
            text(byte_rate(topic.byte_rate)),
            text(count(topic.lag)),
            text(topic.tail),
            text(count(topic.passed_through)),
        ]
        for topic in status.topics
    ]
    caption = _caption(status, view, "topics", "full name, TENANT/NAMESPACE/TOPIC or TOPIC")
    notes = [tag("p", text(f"{tail}: {meaning}"), class_="note") for tail, meaning in words.TAILS.items()]
    return _section(
        "Topics", [_form(view, "Topics that begin with"), table(caption, _TOPICS, rows), *notes], status, view
    )


def subscriptions_section(status: Status, view: View) -> Html:
    """Return the page of a topic's subscriptions."""
    rows = [
        [
            _view_link(one.name, view.changed(subscription=one.name, prefix="")),
            text(one.kind),
            text(count(one.consumers)),
            text(rate(one.message_rate)),
            text(byte_rate(one.byte_rate)),
            text(count(one.lag)),
            text(count(one.unacked)),
            text(one.mark_delete),
            _served_by(one),
        ]
        for one in status.subscriptions
    ]
    caption = _caption(status, view, "subscriptions", "name")
    content = [
        _topic(status.topics[0]),
        _form(view, "Subscriptions that begin with"),
        table(caption, _SUBSCRIPTIONS, rows),
    ]
    return _section("Subscriptions", content, status, view)


def clients_section(status: Status, view: View) -> Html:
    """Return the page of a subscription's consumers."""
    one = status.subscriptions[0]
    rows = [
        [
            name(client.name or "unnamed"),
            name(client.address),
            name(client.version or "unknown"),
            text(count(client.permits)),
            text(count(client.unacked)),
            text(count(client.messages)),
            text(byte_count(client.bytes)),
        ]
        for client in status.clients
    ]
    about = facts_list(
        [
            ("Type", text(one.kind)),
            ("Lag (entries)", text(count(one.lag))),
            ("Mark-delete position", text(one.mark_delete or "at its broker")),
            ("Served by", _served_by(one)),
        ]
    )
    content = [about, _form(view, ""), table(_caption(status, view, "consumers", ""), _CLIENTS, rows)]
    return _section("Consumers", content, status, view)


def _section(title: str, content: list[Html], status: Status, view: View) -> Html:
    if status.shortened:
        note = "Some rates and lags are not counted: the page has too many subscriptions. Open a topic for its own."
        content = [tag("p", text(note), class_="note"), *content]
    return tag("section", tag("h2", text(title), id="list"), *content, _pages(status, view), aria_labelledby="list")


def _topic(topic: TopicState) -> Html:
    lag = text(count(topic.lag))
    if topic.slowest:
        lag = join([lag, text(" ("), name(topic.slowest), text(")")])
    return facts_list(
        [
            ("Consumers", text(count(topic.consumers))),
            ("Messages", text(rate(topic.message_rate))),
            ("Bytes", text(byte_rate(topic.byte_rate))),
            ("Largest lag (entries)", lag),
            ("Tail", text(f"{topic.tail}: {words.TAILS.get(topic.tail, topic.tail)}")),
        ]
    )


def _served_by(one: SubscriptionState) -> Html:
    served = name(words.served_text(one))
    if not one.reason:
        return served
    why = tag("div", text(f"{one.reason}: {words.reason_text(one.reason)}"), class_="note")
    found = tag("div", name(one.finding), class_="note") if one.finding else EMPTY
    return join([served, why, found])


def _view_link(label: str, view: View) -> Html:
    if len(view.topic) + len(view.subscription) > MAX_QUERY:
        return name(label)  # a long name would take long to encode
    query = view.query()
    return tag("a", name(label), href=f"./{query}") if len(query) <= MAX_QUERY else name(label)


def _caption(status: Status, view: View, what: str, by: str) -> str:
    pages = status.pages
    what = what if pages.items != 1 else what.removesuffix("s")
    caption = f"Page {count(pages.number)} of {count(pages.count)}, {count(pages.items)} {what}"
    if view.prefix:
        caption += f" whose {by} begins with “{view.prefix}”"
    return caption


def _form(view: View, label: str) -> Html:
    """Return the form of the prefix and of the refresh. It needs no script: the browser loads the page again by itself."""
    hidden = [
        tag("input", type="hidden", name=key, value=value)
        for key, value in (("topic", view.topic), ("subscription", view.subscription))
        if value
    ]
    search = tag(
        "div",
        tag("label", text(label), for_="prefix"),
        tag("input", type="search", id="prefix", name="prefix", value=view.prefix, size="40", maxlength="512"),
    )
    choices = [
        tag("option", text(f"every {one} s" if one else "off"), value=str(one), selected=one == view.refresh)
        for one in REFRESHES
    ]
    refresh = tag(
        "div",
        tag("label", text("Load again"), for_="refresh"),
        tag("select", *choices, id="refresh", name="refresh"),
    )
    button = tag("button", text("Show"), type="submit")
    role: str | bool = "search" if label else False
    return tag("form", *hidden, *([search] if label else []), refresh, button, action="./", method="get", role=role)


def _pages(status: Status, view: View) -> Html:
    pages = status.pages
    if pages.count < 2:
        return EMPTY
    items = []
    for label, number, shown in (
        ("First page", 1, pages.number > 1),
        ("Previous page", pages.number - 1, pages.number > 1),
        ("Next page", pages.number + 1, pages.number < pages.count),
        ("Last page", pages.count, pages.number < pages.count),
    ):
        if shown:
            items.append(tag("li", tag("a", text(label), href=f"./{view.changed(page=number).query()}")))
    return tag("nav", tag("ul", *items), aria_label="Pages")
