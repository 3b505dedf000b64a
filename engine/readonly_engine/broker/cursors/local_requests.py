"""Requests about a local subscription in the metadata of a consumer, and the mark of an unfinished migration. Pure.

`pulsar-readonly subscriptions` sends them with the SUBSCRIBE of a consumer that receives nothing. The owner does not see the
keys. Any client may send them: the owner authorizes each request as it authorizes a consumer of the subscription.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_engine.wire.cursor_records import SubscriptionDefinition
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

Property = tuple[str, str]

MIGRATION_PROPERTY: Final = "pulsar-readonly.migration"
"""Property of a local subscription whose migration is not finished. It has no consumers until then."""

_INTERNAL: Final = ("pulsar-readonly-", "pulsar.dedup", "pulsar.repl", "__")
"""Begin of the names of subscriptions that belong to Pulsar or to a pool."""


class LocalRequest(StrEnum):
    """A request; its value is the key of the metadata."""

    CHECK = "pulsar-readonly.check"
    """Refuse the consumer in any case, and thereby answer whether the pool keeps the subscription (LocalSubscriptionNames)."""
    IMPORT = "pulsar-readonly.import"
    """Move the subscription from its owner to the pool."""
    EXPORT = "pulsar-readonly.export"
    """Move the subscription from the pool to its owner."""
    EXISTING = "pulsar-readonly.existing"
    """Refuse the consumer if the pool does not keep the subscription."""
    FORCE = "pulsar-readonly.force"
    """The same, but ignore consumers of the same type. It gets no messages. SEEK and UNSUBSCRIBE close the others."""

    @property
    def word(self) -> str:
        """Its name on the command line."""
        return self.rpartition(".")[2]


def request_of(subscribe: CommandSubscribe) -> LocalRequest | None:
    """Return the request in the metadata of a SUBSCRIBE; None without one."""
    if not subscribe.metadata:
        return None
    keys = {item.key for item in subscribe.metadata}
    return next((request for request in LocalRequest if request in keys), None)


def check_not_local(subscribe: CommandSubscribe) -> None:
    """Check that a SUBSCRIBE whose cursor this pool does not keep has no request.

    Raises:
        OwnerRefusedError: it has one.
    """
    if request_of(subscribe) is not None:
        raise OwnerRefusedError(
            ServerError.NotAllowedError,
            f"this pool does not keep the cursor of subscription {subscribe.subscription} of {subscribe.topic}: run its brokers"
            " with --cursors local, or bind the topic with cursors: Local",
        )


def check_migratable(subscribe: CommandSubscribe) -> None:
    """Check that a subscription may be moved.

    Raises:
        OwnerRefusedError: it is not durable, or belongs to Pulsar or to a pool.
    """
    if not subscribe.durable:
        raise OwnerRefusedError(ServerError.NotAllowedError, "a non-durable subscription is stored nowhere")
    if subscribe.subscription.startswith(_INTERNAL):
        raise OwnerRefusedError(
            ServerError.NotAllowedError, f"{subscribe.subscription} belongs to Pulsar or to a pool: it cannot be moved"
        )


def migration_of(definition: SubscriptionDefinition) -> LocalRequest | None:
    """Return the unfinished migration of a local subscription; None without one."""
    found = dict(definition.properties).get(MIGRATION_PROPERTY)
    return next((request for request in LocalRequest if request == found), None)


def own_properties(properties: Iterable[Property]) -> tuple[Property, ...]:
    """Return the application's properties, without the mark."""
    return tuple((key, value) for key, value in properties if key != MIGRATION_PROPERTY)


def marked(properties: Iterable[Property], migration: LocalRequest) -> tuple[Property, ...]:
    """Return properties with the mark of a migration."""
    return *own_properties(properties), (MIGRATION_PROPERTY, migration.value)
