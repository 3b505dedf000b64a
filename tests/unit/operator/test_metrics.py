"""Metrics that name unwell pools, within a bound."""

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from readonly_operator import metrics
from readonly_operator.cluster.background import guarded
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


def failures(controller):
    return REGISTRY.get_sample_value("pulsar_readonly_operator_reconcile_errors_total", {"controller": controller})


@pytest.mark.parametrize("controller", [metrics.POOLS, metrics.SOURCE_CLUSTERS])
def test_failures_are_counted_from_zero_by_controller(controller):
    before = failures(controller)
    assert before is not None, "a rate needs the series before the first failure"
    metrics.count_failure(controller)
    assert failures(controller) == before + 1


def test_an_error_of_background_work_is_counted():
    before = failures(metrics.SOURCE_CLUSTERS)
    with guarded("item"):
        raise RuntimeError("unexpected")
    assert failures(metrics.SOURCE_CLUSTERS) == before + 1


def test_the_build_is_one_sample():
    (family,) = metrics.BUILD.collect()
    (sample,) = family.samples
    assert sample.value == 1
    assert sample.labels["python"]


@pytest.mark.parametrize(("commit", "shown"), [("0123abc", "0123abc"), ("", ""), ("<script>", ""), ("main", "")])
def test_the_commit_is_that_of_the_image_if_it_is_one(monkeypatch, commit, shown):
    monkeypatch.setenv(metrics.COMMIT_VARIABLE, commit)
    assert metrics._build()[1] == shown
