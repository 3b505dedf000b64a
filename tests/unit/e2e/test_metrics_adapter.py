"""The small server of custom metrics of the tests on Kubernetes."""

from __future__ import annotations

import pytest

from tests.e2e import metrics_adapter_program as program

PATH = "/apis/custom.metrics.k8s.io/v1beta2"


def test_connections_are_the_sum_of_all_workers():
    text = (
        "# TYPE pulsar_readonly_connections gauge\n"
        'pulsar_readonly_connections{worker="0"} 3.0\npulsar_readonly_connections{worker="1"} 4.0\n'
        "pulsar_readonly_connections_other 9.0\n"
    )
    assert program.connections(text) == 7
    assert program.connections("pulsar_readonly_connections 2.0\n") == 2


@pytest.mark.parametrize("every", ["*", "%2A"])
def test_the_metric_is_found_and_its_values_are_those_of_the_pool(monkeypatch, every):
    monkeypatch.setattr(program, "values", lambda namespace, pool: [(namespace, pool)])
    (resource,) = program.answer_to(PATH)["resources"]
    assert resource["name"] == "pods/pulsar_readonly_connections"
    query = "labelSelector=pulsar-readonly.io%2Fpool%3Ddemo"
    found = program.answer_to(f"{PATH}/namespaces/team/pods/{every}/pulsar_readonly_connections?{query}")
    assert found["items"] == [("team", "demo")]


@pytest.mark.parametrize("path", ["/", "/apis", f"{PATH}/namespaces/team/pods/*/other"])
def test_nothing_else_is_there(path):
    assert program.answer_to(path) is None
