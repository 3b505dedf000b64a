"""A binding becomes lookup redirection config that running brokers hold within 5 s, without a restart."""

import time

import pytest

TOPIC = "persistent://public/default/orders"
UPTAKE_SECONDS = 5.0


@pytest.fixture
def running(operator, writer, namespace, pool):
    """The cluster, with a pool of two brokers in the test's namespace."""
    operator.apply(pool())
    operator.expect("robp", "demo", namespace, {"Ready": ("True", "BrokersReady")}, timeout=120)
    return operator


def held(kubernetes, namespace, pod: str) -> dict[str, list[str]]:
    answer = kubernetes.broker(pod, namespace, "/bindings")
    assert answer["error"] is None
    return {one["name"]: one["topics"] for one in answer["bindings"]}


@pytest.mark.nightly
def test_a_binding_to_a_pool_that_is_not_there_waits_for_it(operator, writer, namespace, pool, binding):
    operator.apply(binding("orders", TOPIC))
    messages = operator.expect(
        "rotb",
        "orders",
        namespace,
        {
            "Ready": ("False", "PoolNotFound"),
            "LookupConfigured": ("False", "PoolNotFound"),
            "Progressing": ("False", "PoolNotFound"),
        },
    )
    assert (
        messages["Ready"] == f'there is no ReadOnlyBrokerPool "demo" in namespace "{namespace}"; there is none at all'
    )
    operator.apply(pool("dem", replicas=0), pool(replicas=1))
    operator.expect(
        "rotb", "orders", namespace, {"Ready": ("True", "Held"), "LookupConfigured": ("True", "Held")}, timeout=120
    )
    operator("delete", "robp/demo", "-n", namespace)
    message = operator.expect("rotb", "orders", namespace, {"Ready": ("False", "PoolNotFound")})["Ready"]
    assert message == f'there is no ReadOnlyBrokerPool "demo" in namespace "{namespace}"; there is dem'
    assert "finalizers" not in operator.get("rotb", "orders", namespace)["metadata"]


def test_running_brokers_take_bindings_up_within_5_seconds(running, namespace, binding, eventually, measured):
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running.list("pods", namespace)}
    assert set(pods) == {"demo-0", "demo-1"}
    took = []

    def change(name: str, topics: list[str] | None) -> None:
        started = time.monotonic()
        if topics is None:
            running("delete", f"rotb/{name}", "-n", namespace, "--wait=false")
        else:
            running.apply(binding(name, *topics))
        for pod in pods:

            def up_to_date(pod=pod):
                assert held(running, namespace, pod).get(f"{namespace}/{name}") == topics

            eventually(up_to_date, timeout=60, every=0.02)
            took.append(time.monotonic() - started)

    change("orders", [TOPIC])
    change("logs", ["persistent://public/default/log-.*"])
    change("orders", [TOPIC, "persistent://public/default/returns"])
    change("logs", None)
    change("logs", ["persistent://public/default/log-.*"])
    change("orders", None)
    measured(f"kubectl to a running broker's /bindings: {min(took):.2f} to {max(took):.2f} s over {len(took)} changes")
    assert max(took) < UPTAKE_SECONDS
    after = running.list("pods", namespace)
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in after} == pods
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in after] == [0, 0]
    running.expect("rotb", "logs", namespace, {"Ready": ("True", "Held"), "Progressing": ("False", "Settled")})
    status = running.get("rotb", "logs", namespace)["status"]
    assert (status["brokers"], status["holdingBrokers"], status["servingBrokers"]) == (2, 2, 2)

    def counted():
        assert running.get("rotb", "logs", namespace)["status"]["matchedTopics"] == 0, "there is no such topic"

    eventually(counted)
    revision = running.get("robp", "demo", namespace)["status"]["lookupRevision"]
    assert revision == running.broker("demo-0", namespace, "/bindings")["revision"]
