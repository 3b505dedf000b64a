"""What a pool says about the source cluster."""

import pytest

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


@pytest.mark.nightly
def test_an_interval_that_is_too_long_says_what_to_set(operator, writer, namespace, pool):
    operator.apply(pool(replicas=0, explicitLac={"interval": "10ms"}))
    message = operator.expect("robp", "demo", namespace, {"ExplicitLac": ("False", "TooSlow")}, timeout=60)[
        "ExplicitLac"
    ]
    assert (
        "spec.explicitLac.interval accepts at most 10: set bookkeeperExplicitLacIntervalInMills=10 in broker.conf"
        in message
    )
    operator.apply(pool(replicas=0, explicitLac={"interval": "10s"}))
    operator.expect("robp", "demo", namespace, {"ExplicitLac": ("True", "On")})
