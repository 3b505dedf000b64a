"""Parts that all status pages share: the document, sections, links, and texts that need attention. Pure."""

from __future__ import annotations

from readonly_engine.http.status.elements import Html, document, name, style, tag, text
from readonly_engine.http.status.style import CSS
from readonly_engine.status.text import printable


def page_document(title: str, body: list[Html], refresh: int = 0) -> str:
    """Return a whole page.

    Args:
        title: its title.
        body: its content.
        refresh: seconds until the browser loads it again; 0 for never.
    """
    head = [
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", text(title)),
        tag("link", rel="icon", href="data:,"),
        style(CSS),
    ]
    if refresh:
        head.insert(0, tag("meta", http_equiv="refresh", content=str(refresh)))
    return document(head, body)


def section(key: str, title: str, *content: Html) -> Html:
    """Return a section, whose heading has the key as its id."""
    return tag("section", tag("h2", text(title), id=key), *content, aria_labelledby=key)


def link(label: str, url: str) -> Html:
    """Return a link to another broker, or the label alone without a URL."""
    return tag("a", name(label), href=url, rel="noreferrer") if url else name(label)


def alarm(value: str) -> Html:
    """Return a text that needs attention."""
    return tag("strong", text(printable(value)), class_="bad")
