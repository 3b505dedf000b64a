"""Metrics that name unwell pools, within a bound."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from readonly_operator.metrics import MAX_NAMED_POOLS, InventoryCollector

NAME = "pulsar_readonly_operator_pool_unwell"


class Inventory:
    """Pools with these conditions."""

    def __init__(self, **conditions):
        self._pools = [
            {
                "metadata": {"namespace": "team", "name": name},
                "status": {"conditions": [{"type": kind, "status": status} for kind, status in found.items()]},
            }
            for name, found in conditions.items()
        ]

    def pools(self):
        return self._pools

    def bindings(self):
        return []


def named(inventory):
    registry = CollectorRegistry()
    registry.register(InventoryCollector(inventory))
    samples = [sample for family in registry.collect() for sample in family.samples if sample.name == NAME]
    assert {sample.value for sample in samples} <= {1.0}
    return [(sample.labels["object"], sample.labels["condition"]) for sample in samples]


def test_a_pool_is_named_with_the_conditions_that_keep_it_from_being_well():
    inventory = Inventory(
        well={"Ready": "True", "SourceReachable": "True", "Paused": "False", "Progressing": "False"},
        slow={"Ready": "False", "SourceReachable": "Unknown", "ExplicitLac": "False"},
        broken={"Ready": "False", "Stalled": "True", "LookupConfigured": "Unknown"},
        new={},
    )
    assert named(inventory) == [("team/broken", "Ready"), ("team/broken", "Stalled"), ("team/slow", "Ready")]


def test_no_more_pools_are_named_than_the_bound():
    inventory = Inventory(**{f"p{number:04}": {"Ready": "False"} for number in range(3 * MAX_NAMED_POOLS)})
    found = named(inventory)
    assert len(found) == MAX_NAMED_POOLS
    assert found[0] == ("team/p0000", "Ready")
