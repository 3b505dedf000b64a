"""The list that a request asks for: the query of the status page and of /status."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PAGE: Final = 1_000_000
MAX_PREFIX: Final = 512
REFRESHES: Final = (0, 2, 5, 15, 60)
"""Seconds between two loads of the page; 0 for none."""

_NUMBER: Final = re.compile(r"[0-9]{1,7}")


class ViewError(Exception):
    """An invalid parameter; the text names it and the expected form."""


@dataclass(frozen=True, slots=True)
class View:
    """What to show.

    Attributes:
        topic: full name of a topic, to list its subscriptions; empty to list topics.
        subscription: one of its subscriptions, to list its consumers; empty to list subscriptions.
        prefix: begin of the names to list.
        page: page of the list, from 1. A page after the last one is the last one.
        refresh: seconds until the browser loads the page again, one of REFRESHES.
        summary: whether to list nothing: the figures of the broker alone.
    """

    topic: str = ""
    subscription: str = ""
    prefix: str = ""
    page: int = 1
    refresh: int = 0
    summary: bool = False

    def changed(self, **changes: Any) -> View:
        """Return another view. Its page is the first one, unless the changes name one."""
        return replace(self, **{"page": 1, **changes})

    def query(self) -> str:
        """Return the query of its URL, with `?`; empty for the first page of all topics."""
        default = View()
        names = ("topic", "subscription", "prefix", "page", "refresh")
        given = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(default, name)}
        if self.summary:
            given["summary"] = 1
        return f"?{urlencode(given)}" if given else ""


def parse_view(query: Mapping[str, str]) -> View:
    """Return the view of a query; other parameters are ignored.

    Raises:
        ViewError: a parameter is invalid.
    """
    page = _number(query, "page", 1)
    if not 1 <= page <= MAX_PAGE:
        raise ViewError(f"page must be a whole number from 1 to {MAX_PAGE}")
    refresh = parse_refresh(query)
    prefix = query.get("prefix", "").strip()
    if len(prefix) > MAX_PREFIX:
        raise ViewError(f"prefix must have at most {MAX_PREFIX} characters, not {len(prefix)}")
    topic, subscription = query.get("topic", ""), query.get("subscription", "")
    if subscription and not topic:
        raise ViewError("subscription needs a topic; give topic=persistent://TENANT/NAMESPACE/TOPIC too")
    summary = query.get("summary", "")
    if summary not in {"", "0", "1"}:
        raise ViewError("summary must be 0 or 1")
    return View(topic, subscription, prefix, page, refresh, summary == "1")


def parse_refresh(query: Mapping[str, str]) -> int:
    """Return the seconds between two loads of a page that has no list; other parameters are ignored.

    Raises:
        ViewError: the parameter is invalid.
    """
    refresh = _number(query, "refresh", 0)
    if refresh not in REFRESHES:
        raise ViewError(f"refresh must be one of {', '.join(map(str, REFRESHES))} seconds")
    return refresh


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    return int(text) if _NUMBER.fullmatch(text) else -1
