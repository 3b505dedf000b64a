"""Servers that brokers may connect to, in a pool's NetworkPolicy."""

import pytest
from readonly_operator.api.reader import ApiSpecError

from tests.unit.operator.model.test_children import made, spec_of

OWN = {
    "podSelector": {
        "matchLabels": {"app.kubernetes.io/name": "pulsar-readonly-broker", "pulsar-readonly.io/pool": "demo"}
    }
}
NETWORK = {"ipBlock": {"cidr": "10.0.0.0/8"}}


def policy(pool, brokers=None):
    return spec_of(made(pool, brokers), "NetworkPolicy")


def rules(pool, brokers=None):
    """Ports and peers of each rule: DNS, own brokers, owner brokers, metadata store, bookies, object stores, others."""
    return [
        ([port["port"] for port in rule["ports"] if port["protocol"] == "TCP"], rule.get("to"))
        for rule in policy(pool, brokers)["egress"]
    ]


def test_without_egress_nothing_changes(make_pool):
    before = policy(make_pool(networkPolicy={}))
    assert (before["policyTypes"], "egress" in before) == (["Ingress"], False)
    with_egress = policy(make_pool(networkPolicy={"egress": {}}))
    assert with_egress["ingress"] == before["ingress"]
    assert with_egress["policyTypes"] == ["Ingress", "Egress"]


def test_an_empty_egress_admits_the_known_ports_of_all_hosts(make_pool):
    pool = make_pool(networkPolicy={"egress": {}})
    assert rules(pool) == [
        ([53], None),
        ([6650, 8080], [OWN]),
        ([6650, 8080], None),
        ([2181], None),
        ([3181], None),
        ([443], None),
    ]
    assert policy(pool)["egress"][0]["ports"] == [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]


def test_ports_are_those_of_the_source(make_pool):
    pool = make_pool(
        networkPolicy={"egress": {}},
        source={
            "serviceUrl": "pulsar+ssl://a:6651,b:16651,c",
            "adminUrl": "https://a:8443,b/",
            "metadataStoreUrl": "zk:a:2281,b:2282/pulsar",
            "bookkeeperMetadataStoreUrl": "oxia://c:6648/bookies",
            "tls": {"brokers": {}},
        },
        tieredStorage={"endpoint": "http://store.example.com:9000"},
        listeners={"tls": {"certificate": {"secretName": "demo-tls"}}},
    )
    assert [ports for ports, _ in rules(pool)] == [
        [53], [6650, 6651, 8080], [443, 6651, 8443, 16651], [2281, 2282, 6648], [3181], [9000]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("endpoint", "port"), [("http://store", 80), ("https://store/", 443), ("https://store:8443", 8443)]
)
def test_the_port_of_an_object_store_is_that_of_its_endpoint(make_pool, endpoint, port):
    pool = make_pool(networkPolicy={"egress": {}}, tieredStorage={"endpoint": endpoint})
    assert rules(pool)[5] == ([port], None)


@pytest.mark.parametrize("endpoint", ["http://[x", "http://store:99999", "http://store:0/", "http://store:port"])
def test_an_endpoint_without_a_port_is_named(make_pool, endpoint):
    pool = make_pool(networkPolicy={"egress": {}}, tieredStorage={"endpoint": endpoint})
    with pytest.raises(ApiSpecError, match=r"spec\.tieredStorage\.endpoint must be http://HOST:PORT or https://HOST"):
        policy(pool)


def oauth2(issuer):
    return {
        "serviceUrl": "pulsar://a:6650",
        "adminUrl": "http://a:8080",
        "metadataStoreUrl": "zk:a:2181",
        "authentication": {
            "type": "OAuth2",
            "oauth2": {"issuerUrl": issuer, "secretRef": {"name": "oauth2", "keyFile": "key.json"}},
        },
    }


@pytest.mark.parametrize(
    ("issuer", "port"),
    [("https://issuer/realms/pulsar", 443), ("https://issuer:8443", 8443), ("http://issuer/a", 80)],
)
def test_brokers_reach_the_server_of_their_access_tokens(make_pool, issuer, port):
    assert rules(make_pool(networkPolicy={"egress": {}}, source=oauth2(issuer)))[5] == ([port], None)
    servers = {"to": [NETWORK], "ports": [9443]}
    pool = make_pool(networkPolicy={"egress": {"authorizationServers": servers}}, source=oauth2(issuer))
    assert rules(pool)[5:] == [([9443], [NETWORK]), ([443], None)]
    without = make_pool(networkPolicy={"egress": {"authorizationServers": servers}})
    assert rules(without) == rules(make_pool(networkPolicy={"egress": {}})), "nothing is admitted that nothing needs"


def test_brokers_reach_the_workers_of_each_other(make_pool):
    pool = make_pool(networkPolicy={"egress": {}}, workers=2)
    assert rules(pool)[1] == ([6650, 6750, 6850, 8080, 8180, 8280], [OWN])
    fewer = make_pool(networkPolicy={"egress": {}})
    assert rules(fewer, {0: 2}) == rules(pool), "a broker that is not replaced yet"
