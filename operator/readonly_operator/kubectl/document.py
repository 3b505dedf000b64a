"""A snapshot as a JSON document. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_operator.kubectl import next_steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from readonly_operator.kubectl.snapshot import BindingView, BrokerView, ConditionView, PoolView, Snapshot


def as_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return the document. Later versions may add fields; `brokers[].processes[].status` is that of /status."""
    return {
        "namespace": snapshot.namespace,
        "pools": [_pool(one) for one in snapshot.pools],
        "otherBindings": [_binding(one) for one in snapshot.loose],
        "missingRights": [
            {"verb": one.verb, "resource": one.resource, "namespace": one.namespace, "purpose": one.purpose}
            for one in snapshot.missing
        ],
        "notes": list(snapshot.notes),
    }


def _pool(pool: PoolView) -> dict[str, Any]:
    return {
        "namespace": pool.key.namespace,
        "name": pool.key.name,
        "replicas": pool.replicas,
        "readyReplicas": pool.ready_replicas,
        "bindingCount": pool.bindings_allowed,
        "serviceUrl": pool.service_url,
        "metadataStoreUrl": pool.metadata_store,
        "paused": pool.paused,
        "conditions": _conditions(pool.conditions),
        "brokers": [_broker(one) for one in pool.brokers],
        "bindings": [_binding(one) for one in pool.bindings],
        "nextSteps": next_steps.of_pool(pool),
    }


def _broker(broker: BrokerView) -> dict[str, Any]:
    return {
        "pod": broker.pod,
        "ready": broker.ready,
        "problem": broker.trouble,
        "restarts": broker.restarts,
        "node": broker.node,
        "locality": broker.locality,
        "processes": [
            {"name": one.url, "error": one.error, "status": one.document()["status"]} for one in broker.observed
        ],
    }


def _binding(binding: BindingView) -> dict[str, Any]:
    return {
        "namespace": binding.namespace,
        "name": binding.name,
        "pool": {"namespace": binding.pool.namespace, "name": binding.pool.name},
        "topics": list(binding.topics),
        "namespaces": list(binding.namespaces),
        "matchedTopics": binding.matched,
        "servingBrokers": binding.serving,
        "brokers": binding.brokers,
        "conditions": _conditions(binding.conditions),
    }


def _conditions(conditions: Iterable[ConditionView]) -> list[dict[str, Any]]:
    return [
        {
            "type": one.type,
            "status": one.status,
            "reason": one.reason,
            "message": one.message,
            "lastTransitionTime": one.since,
            "outdated": one.outdated,
        }
        for one in conditions
    ]
