"""The status page: a state as HTML. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.http.status.elements import (
    EMPTY,
    Column,
    Html,
    facts_list,
    join,
    name,
    table,
    tag,
    text,
)
from readonly_engine.http.status.frame import alarm, link, page_document, section
from readonly_engine.http.status.lists import clients_section, subscriptions_section, topics_section
from readonly_engine.status import words
from readonly_engine.status.text import byte_count, count, duration

if TYPE_CHECKING:
    from readonly_engine.status.state import MemberState, Status
    from readonly_engine.status.view import View

_MEMBERS: Final = (Column("Broker"), Column("Consumers", numeric=True), Column("Locality"))


def render(status: Status, view: View) -> str:
    """Return the page of a state.

    Args:
        status: the state, with the list of the view.
        view: the list.
    """
    broker = status.broker
    if view.subscription:
        sections = [clients_section(status, view)]
    elif view.topic:
        sections = [subscriptions_section(status, view)]
    else:
        sections = [
            section("broker", "This broker", _broker(status)),
            section("relief", "Owner relief", _relief(status)),
            section("source", "Source cluster", _source(status)),
            section("pool", "Pool", _pool(status)),
            topics_section(status, view),
        ]
    body = [
        tag("a", text("Skip to the list"), href="#list", class_="skip"),
        tag("header", tag("h1", text("Read-only broker "), name(broker.url)), _path(view)),
        tag("main", *sections),
        tag(
            "footer",
            tag(
                "p",
                text("The figures are those of this moment. "),
                tag("a", text("The same as JSON"), href=f"status{view.changed(page=view.page, refresh=0).query()}"),
                class_="note",
            ),
        ),
    ]
    shown = [one for one in (view.subscription, view.topic) if one]  # so that tabs and bookmarks differ
    return page_document(" · ".join([*shown, broker.url, f"pool {broker.pool}"]), body, view.refresh)


def render_error(title: str, reason: str) -> str:
    """Return the page of an error.

    Args:
        title: what happened, in a few words.
        reason: the reason, and what would be right.
    """
    body = [
        tag("main", tag("h1", text(title)), tag("p", text(reason)), tag("p", tag("a", text("Status page"), href="./")))
    ]
    return page_document(title, body)


def render_workers(workers: list[tuple[str, str]], reasons: list[str]) -> str:
    """Return the page of a broker with several worker processes, each of which has a status page of its own.

    Args:
        workers: name of each worker, and URL of its page; an empty URL for none.
        reasons: reasons of the workers that are not ready.
    """
    items = [tag("li", link(label, url)) for label, url in workers]
    body = [
        tag(
            "main",
            tag("h1", text("Read-only broker with several workers")),
            tag("p", text("Each worker is a broker of the pool, with a status page of its own.")),
            tag("ul", *items),
            *(tag("p", text(reason), class_="bad") for reason in reasons),
        )
    ]
    return page_document("Workers", body)


def _path(view: View) -> Html:
    """Return the way from all topics to the list."""
    if not view.topic:
        return EMPTY
    items = [
        tag("li", tag("a", text("All topics"), href=f"./{view.changed(topic='', subscription='', prefix='').query()}"))
    ]
    if view.subscription:
        items.append(
            tag("li", tag("a", name(view.topic), href=f"./{view.changed(subscription='', prefix='').query()}"))
        )
        items.append(tag("li", name(view.subscription), aria_current="page"))
    else:
        items.append(tag("li", name(view.topic), aria_current="page"))
    return tag("nav", tag("ul", *items), aria_label="Path")


def _broker(status: Status) -> Html:
    broker = status.broker
    version = broker.version + (f", commit {broker.commit}" if broker.commit else "")
    worker = f"{broker.worker} of {broker.workers}" if broker.worker >= 0 else "one process"
    items = [
        ("Version", text(version)),
        ("Uptime", text(duration(broker.uptime_s))),
        ("State", alarm("leaving the pool") if broker.draining else text("serving")),
        ("Pool", name(broker.pool)),
        ("Pool uid", name(broker.pool_uid or "none")),
        ("Locality", name(broker.locality or "unknown")),
        ("Worker", text(worker)),
        *((("Replay", text(words.replay_text(broker))),) if broker.replay_ms is not None else ()),
        ("Topics", text(count(broker.topics))),
        ("Subscriptions served here", text(count(broker.subscriptions))),
        ("Claimed subscriptions", text(count(broker.claims))),
        ("Consumers", text(count(broker.consumers))),
        ("Client connections", text(count(broker.connections))),
    ]
    return facts_list(items)


def _relief(status: Status) -> Html:
    relief = status.relief
    return facts_list(
        [
            (
                "Delivered here",
                text(f"{count(relief.delivered_messages)} messages, {byte_count(relief.delivered_bytes)}"),
            ),
            ("Pushed by owners", text(f"{count(relief.pushed_messages)} messages, {byte_count(relief.pushed_bytes)}")),
            (
                "Delivered without the owner",
                text(f"{count(relief.spared_messages)} messages, {byte_count(relief.spared_bytes)}"),
            ),
        ]
    )


def _source(status: Status) -> Html:
    source = status.source
    store, bad = words.store_text(source), not source.connected or source.suspended
    items = [
        ("Owner brokers", name(source.service_url)),
        ("Metadata store", name(source.metadata_store_url)),
        ("State of the metadata store", alarm(store) if bad else text(store)),
        ("Explicit LAC", text(words.lac_text(source))),
    ]
    if source.bindings_error:
        items.append(("Bindings", alarm(source.bindings_error)))
    content = [facts_list(items)]
    if status.reasons:
        lines = [
            tag("li", text(f"{words.passed_text(one)}: {words.reason_text(one.reason)}")) for one in status.reasons
        ]
        content += [tag("h3", text("Passthrough to the owner broker")), tag("ul", *lines)]
    return join(content)


def _pool(status: Status) -> Html:
    caption = f"{count(status.member_count)} brokers"
    if status.member_count > len(status.members):
        caption += f", of which the first {count(len(status.members))} are listed"
    rows = [[_member(one), text(count(one.consumers)), name(one.locality)] for one in status.members]
    all_of_them = tag("p", tag("a", text("Figures of all brokers of the pool"), href="./pool"))
    return join([table(caption, _MEMBERS, rows), all_of_them])


def _member(member: MemberState) -> Html:
    if member.itself:
        return join([name(member.url), text(" (this broker)")])
    return link(member.url, member.status_url)
