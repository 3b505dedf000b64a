"""All objects of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.model import autoscaler, certificate, configmaps, policies, services, statefulset, waker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_operator.api.pool import Pool
    from readonly_operator.kube.kinds import Manifest
    from readonly_operator.model.lookup import LookupConfig
    from readonly_operator.settings import Settings


def children(
    pool: Pool, lookup: LookupConfig, settings: Settings, brokers: Mapping[int, int] | None = None
) -> list[Manifest]:
    """Return the desired objects in apply order: the lookup redirection config first, because running brokers wait for it.

    Optional objects that the spec does not ask for are left out; the caller deletes existing ones.

    Args:
        pool: the pool.
        lookup: its lookup redirection config.
        settings: settings of the operator.
        brokers: worker processes of the existing brokers by ordinal; some may be terminating, or wait for their replacement.

    Raises:
        ApiSpecError: neither the pool nor the operator names an image.
    """
    brokers = brokers or {}
    workers = max((pool.workers, *brokers.values()))
    return [
        configmaps.bindings_map(pool, lookup),
        configmaps.config_map(pool),
        services.service_account(pool),
        services.headless_service(pool, workers),
        services.client_service(pool),
        *services.broker_services(pool, brokers),
        *certificate.certificates(pool, settings, brokers),
        *policies.network_policy(pool, settings, workers),
        *policies.disruption_budget(pool),
        statefulset.stateful_set(pool, settings),
        *autoscaler.autoscaler(pool),
        *policies.pod_monitor(pool, settings),
        *waker.waker(pool, settings),
    ]
