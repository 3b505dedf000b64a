"""Watches of the API server, and how often conditions Ready changed."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import urllib3

from devstack.console import say
from longtests.scale.control_plane import ScaleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from longtests.scale.control_plane import Client


@contextmanager
def watched(client: Client, path: str, take: Callable[[str, dict[str, Any]], None]) -> Iterator[None]:
    """Call a function in a thread for each object of a kind and for each of its later events, in a context.

    Args:
        client: of an administrator.
        path: of all objects of the kind.
        take: gets the type of the event (ADDED for objects that exist) and the object.

    Raises:
        ScaleError: the watch ended early, so that events may be missing.
    """
    listed = client.request("GET", path)
    for one in listed["items"]:
        take("ADDED", one)
    ended = threading.Event()
    broken: list[str] = []

    def fail(why: object) -> None:
        broken.append(f"watch {path}: {why}")
        say(broken[0])

    def follow() -> None:
        version = listed["metadata"]["resourceVersion"]
        try:
            while not ended.is_set():
                for kind, found in client.watch(path, version):
                    if ended.is_set():
                        return
                    if kind == "ERROR":
                        fail(found)
                        return
                    version = found["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        take(kind, found)
        except (OSError, ScaleError, urllib3.exceptions.HTTPError) as error:
            if not ended.is_set():
                fail(error)

    thread = threading.Thread(target=follow, name=f"watch {path}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
    if broken:
        raise ScaleError(broken[0])


class ReadyChanges:
    """How often the condition Ready of objects became False."""

    def __init__(self) -> None:
        self._ready: dict[str, bool] = {}
        self._lost: Counter[str] = Counter()

    def take(self, _kind: str, found: dict[str, Any]) -> None:
        """Take an event of an object."""
        uid = found["metadata"]["uid"]
        conditions = (found.get("status") or {}).get("conditions") or ()
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        if self._ready.get(uid) and not ready:
            self._lost[uid] += 1
        self._ready[uid] = ready

    @property
    def objects(self) -> int:
        """Number of objects whose condition became False."""
        return len(self._lost)

    @property
    def most(self) -> int:
        """Most such changes of one object."""
        return max(self._lost.values(), default=0)
