"""All objects of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.model import configmaps, policies, services, statefulset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.api.pool import Pool
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.model.lookup import LookupConfig
    from readonly_operator.settings import Settings


def children(pool: Pool, lookup: LookupConfig, settings: Settings, brokers: Iterable[int] = ()) -> list[Manifest]:
    """The objects in the order of applying: the lookup redirection config first, since running brokers wait for it.

    Objects that the spec does not ask for are not among them, and are deleted where there are some.

    Args:
        pool: the pool.
        lookup: what its brokers are to hold.
        settings: of the operator.
        brokers: ordinals of those that there are, for some may be about to end.
    """
    return [
        configmaps.bindings_map(pool, lookup),
        configmaps.config_map(pool),
        services.service_account(pool),
        services.headless_service(pool),
        services.client_service(pool),
        *services.broker_services(pool, brokers),
        *policies.network_policy(pool),
        *policies.disruption_budget(pool),
        statefulset.stateful_set(pool, settings),
        *policies.autoscaler(pool),
        *policies.pod_monitor(pool),
    ]
