"""The operator's requests in the API server's audit log."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        at: time at which the API server received it.
        verb: verb of Kubernetes: get, list, watch, create, patch, delete.
        resource: plural, with the subresource after a slash.
        code: HTTP status; 0 if unknown.
    """

    at: dt.datetime
    verb: str
    resource: str
    code: int


def parse(lines: Iterable[str]) -> Iterator[Request]:
    """Yield each request once: a watch at its start, others at their answer."""
    for line in lines:
        event = json.loads(line)
        if (event["stage"] == "ResponseStarted") != (event["verb"] == "watch"):
            continue
        about = event.get("objectRef") or {}
        parts = (about.get("resource", event["requestURI"].partition("?")[0]), about.get("subresource", ""))
        yield Request(
            at=dt.datetime.fromisoformat(event["requestReceivedTimestamp"]),
            verb=event["verb"],
            resource="/".join(part for part in parts if part),
            code=(event.get("responseStatus") or {}).get("code", 0),
        )


def between(path: Path, begin: dt.datetime, end: dt.datetime) -> Counter[str]:
    """Return the numbers of requests in an interval, by verb and resource."""
    with path.open() as lines:
        whole = (line for line in lines if line.endswith("\n"))  # the last one may be incomplete
        return Counter(f"{one.verb} {one.resource}" for one in parse(whole) if begin <= one.at < end)


def now() -> dt.datetime:
    """Return the present time as in the log."""
    return dt.datetime.now(dt.UTC)
