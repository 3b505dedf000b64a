"""Objects that the tests start from."""

from collections.abc import Callable
from typing import Any

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool

from tests.support.clock import Clock

SOURCE = {
    "serviceUrl": "pulsar://pulsar-broker.pulsar:6650",
    "adminUrl": "http://pulsar-broker.pulsar:8080",
    "metadataStoreUrl": "zk:pulsar-zookeeper.pulsar:2181",
}


def _pool_body(name: str = "demo", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlyBrokerPool",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": "uid-of-" + name,
            "generation": 3,
            "resourceVersion": "7",
        },
        "spec": {"source": dict(SOURCE), **spec},
    }


def _binding_body(name: str = "orders", pool: str = "demo", topics: list[Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "pulsar-readonly.io/v1beta1",
        "kind": "ReadOnlyTopicBinding",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": "uid-of-" + name,
            "generation": 1,
            "resourceVersion": "8",
        },
        "spec": {
            "poolRef": {"name": pool},
            "topics": ["persistent://public/default/orders"] if topics is None else topics,
        },
    }


@pytest.fixture
def pool_body() -> Callable[..., dict[str, Any]]:
    """A pool as the API server gives it: name, then fields of its spec."""
    return _pool_body


@pytest.fixture
def binding_body() -> Callable[..., dict[str, Any]]:
    """A binding as the API server gives it: name, pool, topics."""
    return _binding_body


@pytest.fixture
def make_pool() -> Callable[..., Pool]:
    """A typed pool: fields of its spec."""
    return lambda **spec: Pool.load(_pool_body(**spec))


@pytest.fixture
def make_binding() -> Callable[..., Binding]:
    """A typed binding: name, topics."""
    return lambda name="orders", *topics: Binding.load(_binding_body(name, topics=list(topics) or None))


@pytest.fixture
def clock() -> Clock:
    """Return a clock at 0, which the test moves."""
    return Clock()
