"""Targets of a pool's autoscaler."""

import pytest
from readonly_operator.model.autoscaler import CONNECTIONS, DELIVERED_BYTES
from readonly_operator.model.children import children
from readonly_operator.model.lookup import LookupConfig
from readonly_operator.settings import Settings

from docsite.metrics import of_broker


def metrics(pool):
    made = children(pool, LookupConfig.of([]), Settings(engine_image="engine:1"))
    return next(one["spec"]["metrics"] for one in made if one["kind"] == "HorizontalPodAutoscaler")


def cpu(percent):
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def of_pods(name, average):
    return {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": average}},
    }


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ({}, [cpu(70)]),
        ({"targetCPUUtilization": 55}, [cpu(55)]),
        ({"targetConnections": 2000}, [of_pods(CONNECTIONS, "2k")]),
        ({"targetDeliveredBytesPerSecond": "1024Mi"}, [of_pods(DELIVERED_BYTES, "1Gi")]),
        (
            {"targetConnections": 1500, "targetDeliveredBytesPerSecond": "50Mi", "targetCPUUtilization": 80},
            [cpu(80), of_pods(DELIVERED_BYTES, "50Mi"), of_pods(CONNECTIONS, "1500")],
        ),
    ],
)
def test_the_autoscaler_has_the_targets_of_the_spec(make_pool, targets, expected):
    assert metrics(make_pool(autoscaling={"maxReplicas": 4, **targets})) == expected


def test_the_metrics_are_those_of_brokers():
    types = {one.name: one.type for one in of_broker()}
    assert types[CONNECTIONS] == "gauge"
    assert types[DELIVERED_BYTES.removesuffix("_per_second")] == "counter"
