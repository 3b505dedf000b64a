"""What a pool says about the source cluster."""

UNREACHABLE = {
    "serviceUrl": "pulsar://no-such-broker.nowhere:6650",
    "adminUrl": "http://no-such-broker.nowhere:8080",
    "metadataStoreUrl": "zk:127.0.0.1:9",
}


def test_a_cluster_that_is_not_there_is_named(operator, namespace, pool):
    operator.apply(pool(replicas=0, source=UNREACHABLE))
    messages = operator.expect(
        "robp",
        "demo",
        namespace,
        {"SourceReachable": ("False", "Unreachable"), "ExplicitLac": ("Unknown", "SourceUnreachable")},
        timeout=60,
    )
    assert messages["SourceReachable"] == (
        "spec.source.adminUrl http://no-such-broker.nowhere:8080: the host name does not resolve; "
        "spec.source.serviceUrl pulsar://no-such-broker.nowhere:6650: the host name does not resolve; "
        "spec.source.metadataStoreUrl zk:127.0.0.1:9: connection refused"
    )
