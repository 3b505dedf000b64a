"""Health checks and repairs of the source cluster, without which later faults would test nothing.

A stock 4.0.8 bookie does not always register again after ZooKeeper was killed: it continues to run, and no broker uses it.
Brokers may exit, or hang. A read-only broker that exits by itself is a defect. Two resource locks of one stock bookie may also
compete for its registration: each deletes the node and creates its own, 60 times per second without end. Then nothing can be
written.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Final

from devstack.console import say
from devstack.errors import DevstackError
from devstack.pulsar.admin import AdminError, PulsarAdmin
from longtests.chaos.plan import METADATA, OWNING, READ_ONLY, STORING, role
from longtests.chaos.store import registrations

if TYPE_CHECKING:
    from longtests.chaos.inject import Injector
    from longtests.chaos.stack import ChaosStack

EVERY_S: Final = 2.0
PATIENCE_S: Final = {"bookie": 25.0, "broker": 60.0, METADATA: 20.0}
"""Time for which a server may be unhealthy before its restart."""

_ASK_S: Final = 4.0


class Health:
    """Health of all servers.

    Args:
        stack: the servers.
        injector: has the nodes with a fault, and collects errors.
    """

    def __init__(self, stack: ChaosStack, injector: Injector) -> None:
        self._stack = stack
        self._injector = injector
        self._unwell: dict[str, float] = {}
        self._repairs: set[asyncio.Task[None]] = set()
        self._registrations: dict[str, int] = {}
        self.mended: list[str] = []

    async def watch(self) -> None:
        """Check and repair until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> dict[str, str]:
        """Check once, and restart servers that have been unhealthy for long; return unhealthy servers with reasons."""
        unwell = await asyncio.to_thread(self._unwell_now)
        now = time.monotonic()
        for name in [name for name in self._unwell if name not in unwell]:
            del self._unwell[name]
        for name, how in unwell.items():
            since = self._unwell.setdefault(name, now)
            dead = not self._stack.alive(name)
            if dead and role(name) == "ro" and not self._stack.lacked_store(name):
                self._injector.wrong.append(f"{name} exited by itself; its log is beside the history")
            if (dead or now - since > PATIENCE_S.get(role(name), 0.0)) and self._may_start(name, unwell):
                del self._unwell[name]
                task = asyncio.create_task(self._repair(name, how))
                self._repairs.add(task)
                task.add_done_callback(self._repairs.discard)
                self._injector.busy.add(name)
        return unwell

    def _may_start(self, name: str, unwell: dict[str, str]) -> bool:
        return name == METADATA or (METADATA not in unwell and METADATA not in self._injector.busy)

    async def _repair(self, name: str, how: str) -> None:
        say(f"repairing {name}: {how}")
        self.mended.append(f"{name}: {how}")
        try:
            if self._stack.alive(name):
                await asyncio.to_thread(self._stack.end, name, signal.SIGKILL)
            await asyncio.to_thread(self._stack.start_node, name)
        except DevstackError as error:
            say(f"{name}: {error}"[:300])
        finally:
            self._injector.busy.discard(name)

    def _unwell_now(self) -> dict[str, str]:
        busy, unwell = set(self._injector.busy), {}
        for name in (METADATA, *STORING, *OWNING, *READ_ONLY):
            if name not in busy and not self._stack.alive(name):
                unwell[name] = "it has ended"
        registered = self._registered()
        if registered is None:
            if METADATA not in busy:
                unwell.setdefault(METADATA, "it does not answer")
            return unwell
        for name, bookie in zip(STORING, self._stack.endpoints.bookies, strict=True):
            if name in busy:
                continue
            if bookie not in registered:
                unwell.setdefault(name, "it is not registered, or read-only")
            elif self._registrations.get(bookie, registered[bookie]) != registered[bookie]:
                unwell.setdefault(name, "it registers again and again")
        self._registrations = registered
        for name, url in zip(OWNING, self._stack.endpoints.admin_urls, strict=True):
            if name not in busy and name not in unwell:
                try:
                    PulsarAdmin(url, timeout=_ASK_S).ready()
                except AdminError as error:
                    unwell[name] = f"it is not ready: {error}"[:200]
        return unwell

    def _registered(self) -> dict[str, int] | None:
        """Return the registrations of writable bookies; None if the metadata store does not answer."""
        try:
            return registrations(self._stack.endpoints.metadata_store, _ASK_S)
        except OSError:
            return None
