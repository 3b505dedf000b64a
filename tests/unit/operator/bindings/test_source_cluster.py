"""Whether two pools have one source cluster."""

import pytest
from readonly_operator.bindings.source_cluster import SourceCluster


def cluster(namespace, url, instance="", bookies=None):
    source = {"metadataStoreUrl": url} | ({"bookkeeperMetadataStoreUrl": bookies} if bookies else {})
    body = {
        "metadata": {"namespace": namespace},
        "spec": {"source": source},
        "status": {"bookkeeperInstance": instance},
    }
    found = SourceCluster.of(body, "k8s.example")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("zk:a:1,b:2", "zk:b:2,a:1", True),
        ("zk:a:1,b:2", "zk:b:2,c:3", True),
        ("zk:a:1", "zk:b:1", False),
        ("zk:a:1/x", "zk:a:1/x", True),
        ("zk:a:1/x", "zk:a:1/y", False),
        ("zk:a:1/x", "zk:a:1", False),
        ("zk:zk:1", "zk:zk.dev:1", True),
        ("zk:zk:1", "zk:zk.stage:1", False),
        ("zk:ZK.dev.svc:1", "zk:zk.dev.svc.k8s.example.:1", True),
        ("zk:zk.dev.svc.cluster.local:1", "zk:zk.dev:1", False),
        ("oxia://zk:1", "oxia://zk.dev.svc.k8s.example:1/default", True),
        ("zk:localhost:1", "zk:localhost:1", True),
        ("zk:10.0.0.1:1", "zk:10.0.0.1:1", True),
    ],
)
def test_addresses_decide_until_brokers_report(one, other, same):
    assert cluster("dev", one).is_same(cluster("dev", other)) is same
    assert cluster("dev", one, "id").is_same(cluster("dev", other)) is same


@pytest.mark.parametrize("address", ["zk:zk:1", "zk:localhost:1", "zk:10.0.0.1:1", "zk:zk.dev:1"])
def test_a_short_name_is_another_server_in_another_namespace(address):
    assert cluster("dev", address).is_same(cluster("stage", address)) is (address != "zk:zk:1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("zk:a:1", "x"), ("zk:b:1", "x"), True),
        (("zk:a:1", "x"), ("zk:a:1", "y"), False),
        (("zk:a:1", "x"), ("zk:b:1", ""), False),
        # several clusters may share bookies with a metadata store of their own
        (("zk:a:1", "x", "zk:c:1"), ("zk:b:1", "x"), False),
        (("zk:a:1", "x", "zk:c:1"), ("zk:a:1", "x", "zk:c:1"), True),
        (("zk:a:1", "x", "zk:c:1"), ("zk:a:1", "y", "zk:c:1"), False),
    ],
)
def test_the_reported_id_decides(one, other, same):
    assert cluster("dev", *one).is_same(cluster("dev", *other)) is same
    assert cluster("dev", *other).is_same(cluster("dev", *one)) is same


def test_a_pool_without_a_source_has_no_cluster():
    assert SourceCluster.of({"metadata": {"namespace": "dev"}, "spec": {}}, "k8s.example") is None
