"""What is told of a pool's objects, and counted of all."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from readonly_operator.api.pool.sleeping import Phase
from readonly_operator.assembly.apply_events import apply_events
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube.apply import Result
from readonly_operator.kube.events import NORMAL, Notice
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.store import Store
from readonly_operator.metrics import InventoryCollector
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings


@pytest.fixture
def made(make_pool):
    pool = replace(make_pool(replicas=3), phase=Phase.FALLING_ASLEEP)
    found = children(pool, LookupConfig.of([]), Settings(engine_image="x"))
    return pool.key, {f"{one['kind']} {one['metadata']['name']}": one for one in found}


def test_what_was_made_is_one_event(made):
    key, objects = made
    done = [(one, Result.CREATED) for one in objects.values()]
    (notice,) = apply_events(key, done, None)
    assert (notice.type, notice.reason) == (NORMAL, "Created")
    assert set(notice.message.removeprefix("created: ").split(", ")) == set(objects)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (Result.NOOP, []),
        (Result.PATCHED, [Notice(NORMAL, "Updated", "updated: Service demo")]),
        (Result.DELETED, [Notice(NORMAL, "Removed", "deleted: Service demo")]),
    ],
)
def test_the_fate_of_a_service_is_told_and_that_of_bindings_is_not(made, result, told):
    key, objects = made
    changed = result if result is Result.PATCHED else Result.NOOP
    done = [(objects["Service demo"], result), (objects["ConfigMap demo-bindings"], changed)]
    assert apply_events(key, done, None) == told


def test_scaling_is_told_with_numbers(made):
    key, objects = made
    done = [(objects["StatefulSet demo"], Result.PATCHED)]
    assert Notice(NORMAL, "Scaled", "from 1 to 3 brokers") in apply_events(key, done, {"spec": {"replicas": 1}})
    assert "Scaled" not in [one.reason for one in apply_events(key, done, {"spec": {"replicas": 3}})]
    done = [(objects["StatefulSet demo-waker"], Result.PATCHED)]
    assert "Scaled" not in [one.reason for one in apply_events(key, done, {"spec": {"replicas": 3}})]


def test_objects_are_counted_by_their_conditions(pool_body, binding_body):
    store = Store(BindingTopicIndex())
    pool = pool_body()
    pool["status"] = {"replicas": 3, "readyReplicas": 2, "conditions": [{"type": "Ready", "status": "False"}]}
    store.put(POOL, pool)
    for name in ("a", "b"):
        binding = binding_body(name)
        binding["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        store.put(BINDING, binding)
    store.put(BINDING, binding_body("c"))
    registry = CollectorRegistry()
    registry.register(InventoryCollector(store))
    text = generate_latest(registry).decode()
    objects = "pulsar_readonly_operator_object_conditions"
    assert f'{objects}{{condition="Ready",kind="ReadOnlyBrokerPool",status="False"}} 1.0' in text
    assert f'{objects}{{condition="Ready",kind="ReadOnlyTopicBinding",status="True"}} 2.0' in text
    assert "pulsar_readonly_operator_brokers_desired 3.0" in text
    assert "pulsar_readonly_operator_brokers_ready 2.0" in text
