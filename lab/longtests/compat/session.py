"""One run of a scenario against one target: the owner, or the pool."""

from __future__ import annotations

import itertools
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from longtests.compat.handles import new_client
from longtests.compat.process import OperationError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from devstack.pulsar.admin import PulsarAdmin
    from longtests.compat.handles import Client
    from longtests.compat.process import Driver
    from longtests.compat.views import View

OWNER: Final = "owner"
POOL: Final = "pool"
TARGETS: Final = (OWNER, POOL)

_WAIT_S: Final = 30.0


class CheckError(Exception):
    """An observation is not as the scenario requires."""


class Target(Protocol):
    """The server to which a scenario's client connects, and operations on it."""

    name: str

    @property
    def view(self) -> View:
        """Its subscriptions, as an administrator sees them."""

    @property
    def url(self) -> str:
        """Service URL."""

    def spread(self, topic: str, subscription: str) -> bool:
        """Return whether every broker of a pool dispatches a subscription; of an owner always True."""

    def restart(self, topic: str) -> None:
        """Restart the server's service of a topic."""

    def close(self) -> None:
        """Release its resources."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment of all scenarios of a run.

    Attributes:
        admin: the source cluster's admin API.
        namespace: namespace of the topics.
        strict_namespace: namespace without automatic creation of topics.
        dedup_namespace: namespace with deduplication.
        keys: a folder with keys for encryption: public.pem, private.pem.
    """

    admin: PulsarAdmin
    namespace: str
    strict_namespace: str
    dedup_namespace: str
    keys: str


class Session:
    """Operations for a scenario.

    Args:
        driver: the client.
        target: its server.
        place: the environment of all scenarios.
    """

    def __init__(self, driver: Driver, target: Target, place: Environment) -> None:
        self.driver = driver
        self.target = target
        self.place = place
        self.admin = place.admin
        self._numbers = itertools.count(1)
        self._tag = uuid.uuid4().hex[:10]
        self._clients: list[Client] = []

    @property
    def tag(self) -> str:
        """Unique word of this run, for names and patterns."""
        return self._tag

    def topic(
        self, name: str = "t", *, partitions: int = 0, domain: str = "persistent", namespace: str | None = None
    ) -> str:
        """Return the full name of a new topic; a partitioned one is created, others are created by their first use."""
        topic = f"{domain}://{namespace or self.place.namespace}/{self._tag}-{name}-{next(self._numbers)}"
        if partitions:
            self.admin.create_partitioned_topic(topic, partitions)
        return topic

    def client(self, **options: Any) -> Client:
        """Return a client of the target, which is closed at the scenario's end."""
        client = new_client(self.driver, self.target.url, **options)
        self._clients.append(client)
        return client

    @property
    def view(self) -> View:
        """Subscriptions, as an administrator of their keeper sees them."""
        return self.target.view

    def subscriptions(self, topic: str) -> list[str]:
        """Return the applications' subscriptions of a topic; none of a topic that does not exist."""
        return self.view.names(topic)

    def stats(self, topic: str, subscription: str = "sub") -> dict[str, Any]:
        """Return the statistics of a subscription."""
        return self.view.stats(topic, subscription)

    def check(self, holds: bool, what: str) -> None:
        """Check a condition.

        Raises:
            CheckError: it is false.
        """
        if not holds:
            raise CheckError(what)

    def equal(self, seen: Any, wanted: Any, what: str) -> None:
        """Check that two values are equal; a CheckError has both."""
        self.check(seen == wanted, f"{what}: {_short(seen)} instead of {_short(wanted)}")

    def refused(self, action: Callable[[], Any], *kinds: str) -> str:
        """Run an action that must be refused with an error of one of these kinds; return the kind."""
        try:
            action()
        except UnsupportedError:
            raise
        except OperationError as error:
            self.check(error.kind in kinds, f"refused with {error}, not with {' or '.join(kinds)}")
            return error.kind
        raise CheckError(f"not refused, expected {' or '.join(kinds)}")

    def until(self, condition: Callable[[], Any], what: str, deadline_s: float = _WAIT_S) -> Any:
        """Wait until a condition is true; return its value.

        Raises:
            CheckError: it is not true in time.
        """
        deadline = time.monotonic() + deadline_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise CheckError(f"not after {deadline_s:g} s: {what}")
            time.sleep(0.1)
        return value

    def backlog(self, topic: str, subscription: str = "sub") -> int:
        """Return a subscription's backlog."""
        return int(self.stats(topic, subscription)["msgBacklog"])

    def wait_backlog(self, topic: str, count: int, subscription: str = "sub") -> None:
        """Wait until a subscription's backlog has this value."""
        self.until(lambda: self.backlog(topic, subscription) == count, f"backlog {count}")

    def close(self) -> None:
        """Close its clients."""
        for client in self._clients:
            try:
                client.close()
            except OperationError:  # closed by the scenario
                continue


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
