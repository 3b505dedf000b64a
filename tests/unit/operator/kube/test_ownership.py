"""Owner references: of a pool, in any version of the API group, and of nothing else."""

import pytest
from readonly_operator.kube.names import GROUP, VERSION
from readonly_operator.kube.ownership import owning_pool


def child(api_version, kind="ReadOnlyBrokerPool", **reference):
    owner = {"apiVersion": api_version, "kind": kind, "name": "demo", "uid": "u", "controller": True, **reference}
    metadata = {"name": "x", "namespace": "team", "uid": "of-x", "resourceVersion": "1", "ownerReferences": [owner]}
    return {"metadata": metadata}


@pytest.mark.parametrize("version", [VERSION, "v1"])
def test_a_pool_owns_its_objects_in_every_version(version):
    """A later release may write another version; after a rollback these objects are still the pool's."""
    assert owning_pool(child(f"{GROUP}/{version}")) == "demo"


@pytest.mark.parametrize(
    "reference",
    [
        {"api_version": f"{GROUP}.example.org/v1"},
        {"api_version": f"x{GROUP}/v1"},
        {"api_version": GROUP},
        {"api_version": f"{GROUP}/"},
        {"api_version": None},
        {"api_version": "apps/v1"},
        {"api_version": f"{GROUP}/v1beta1", "kind": "ReadOnlyTopicBinding"},
        {"api_version": f"{GROUP}/v1beta1", "controller": False},
    ],
)
def test_nothing_else_does(reference):
    assert owning_pool(child(**reference)) is None
