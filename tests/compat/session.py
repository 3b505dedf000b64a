"""One run of a scenario against one target: the owner, or the pool."""

from __future__ import annotations

import itertools
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from tests.compat.handles import new_client
from tests.compat.process import OperationError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from devstack.pulsar.admin import PulsarAdmin
    from tests.compat.handles import Client
    from tests.compat.process import Driver

OWNER: Final = "owner"
POOL: Final = "pool"
TARGETS: Final = (OWNER, POOL)

_WAIT_S: Final = 30.0


class CheckError(Exception):
    """Something is not as the scenario says that it must be."""


class Target(Protocol):
    """Where a scenario's client connects, and what can be done to the server there."""

    name: str

    @property
    def url(self) -> str:
        """The service URL."""

    def restart(self, topic: str) -> None:
        """End the server's service of a topic, and have it begin anew."""

    def close(self) -> None:
        """Give back what it has."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What all scenarios of a run share.

    Attributes:
        admin: the source cluster's admin API.
        namespace: where topics are made.
        strict_namespace: one where topics do not come into being by being used.
        dedup_namespace: one where brokers drop messages that were sent twice.
        keys: a folder with keys for encryption: public.pem, private.pem.
    """

    admin: PulsarAdmin
    namespace: str
    strict_namespace: str
    dedup_namespace: str
    keys: str


class Session:
    """What a scenario is given.

    Args:
        driver: the client.
        target: where it connects.
        place: what all share.
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
        """A word that no other run has, for names and patterns."""
        return self._tag

    def topic(
        self, name: str = "t", *, partitions: int = 0, domain: str = "persistent", namespace: str | None = None
    ) -> str:
        """The full name of a fresh topic; a partitioned one is made, others come into being when they are used."""
        topic = f"{domain}://{namespace or self.place.namespace}/{self._tag}-{name}-{next(self._numbers)}"
        if partitions:
            self.admin.create_partitioned_topic(topic, partitions)
        return topic

    def client(self, **options: Any) -> Client:
        """A client of the target, closed at the scenario's end."""
        client = new_client(self.driver, self.target.url, **options)
        self._clients.append(client)
        return client

    def check(self, holds: bool, what: str) -> None:
        """State what must hold.

        Raises:
            CheckError: it does not.
        """
        if not holds:
            raise CheckError(what)

    def equal(self, seen: Any, wanted: Any, what: str) -> None:
        """State what must be equal; a CheckError says what was seen."""
        self.check(seen == wanted, f"{what}: {_short(seen)} instead of {_short(wanted)}")

    def refused(self, action: Callable[[], Any], *kinds: str) -> str:
        """Do what must be refused, with an error of one of these kinds; gives the kind."""
        try:
            action()
        except UnsupportedError:
            raise
        except OperationError as error:
            self.check(error.kind in kinds, f"refused with {error}, not with {' or '.join(kinds)}")
            return error.kind
        raise CheckError(f"not refused, {' or '.join(kinds)} was to come")

    def until(self, condition: Callable[[], Any], what: str, deadline_s: float = _WAIT_S) -> Any:
        """Wait until something holds; gives what the condition gave.

        Raises:
            CheckError: not in time.
        """
        deadline = time.monotonic() + deadline_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise CheckError(f"not after {deadline_s:g} s: {what}")
            time.sleep(0.1)
        return value

    def backlog(self, topic: str, subscription: str = "sub") -> int:
        """How many messages a subscription has not acknowledged, as the owner counts."""
        return int(self.admin.stats(topic)["subscriptions"][subscription]["msgBacklog"])

    def wait_backlog(self, topic: str, count: int, subscription: str = "sub") -> None:
        """Wait until the owner counts so many unacknowledged messages."""
        self.until(lambda: self.backlog(topic, subscription) == count, f"backlog {count} at the owner")

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
