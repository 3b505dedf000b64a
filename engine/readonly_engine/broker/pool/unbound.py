"""Refusal of topics that no binding names, where the pool serves bound topics only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from readonly_engine.config.settings import Unbound
from readonly_engine.owner.errors import OwnerUnavailableError

if TYPE_CHECKING:
    from readonly_engine.broker.pool.bindings import Bindings
    from readonly_engine.broker.pool.membership import PoolMembership
    from readonly_engine.metadata.topic_name import TopicName

_SYSTEM_NAMESPACE = ("pulsar", "system")
"""Tenant and namespace of the transaction coordinators. Clients always connect to these directly."""


class BindingServices(Protocol):
    """What a broker knows of bindings.

    Attributes:
        unbound: handling of topics without a binding.
        bindings: the bindings in force.
        pool: the pool's members.
    """

    unbound: Unbound
    bindings: Bindings
    pool: PoolMembership


def unbound_error(services: BindingServices, topic: TopicName) -> str:
    """Return the reason to refuse an unbound topic; empty if the topic is bound, or the pool accepts unbound topics."""
    if services.unbound is not Unbound.REJECT or services.bindings.covers(topic) or is_coordinator_topic(topic):
        return ""
    return (
        f"{topic} is not bound to pool {services.pool.name}, which serves bound topics only: "
        "bind it there, or connect to the source cluster"
    )


def reject_unbound(services: BindingServices, topic: TopicName) -> None:
    """Refuse a consumer or producer of an unbound topic with a retriable error, if the pool serves bound topics only.

    Only the lookup refuses it permanently. Until all brokers have the changed bindings, another broker may have sent it here.

    Raises:
        OwnerUnavailableError: the topic is not bound to this pool.
    """
    why = unbound_error(services, topic)
    if why:
        raise OwnerUnavailableError(why)


def is_coordinator_topic(topic: TopicName) -> bool:
    """Return whether a topic is that of a transaction coordinator."""
    return (topic.tenant, topic.namespace) == _SYSTEM_NAMESPACE
