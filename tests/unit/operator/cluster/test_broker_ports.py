"""The operator reads HTTP ports of brokers with TLS and a token, as their pods have them."""

import ssl

import pytest
from readonly_operator.cluster.broker_ports import BrokerPorts
from readonly_operator.cluster.credentials import CACHE_TTL_SECONDS
from readonly_operator.cluster.fetch import ANONYMOUS, FetchError, get_json

from devstack.common.certificates import issue, make_authority
from tests.support.played_http import played_http
from tests.unit.operator.cluster.test_credentials import Secrets

HOST = "demo-0.demo-headless.team.svc.cluster.local"


def pod(port, *, scheme="HTTPS", token="figures"):
    volumes = [
        {
            "name": "pulsar-readonly-peer-tls-trust",
            "configMap": {"name": "authority", "items": [{"key": "ca.pem", "path": "ca.crt"}]},
        },
        {
            "name": "pulsar-readonly-http-token",
            "secret": {"secretName": token, "items": [{"key": "jwt", "path": "token"}]},
        },
    ]
    container = {
        "name": "broker",
        "ports": [{"name": "http-0", "containerPort": port}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "scheme": scheme}},
    }
    return {
        "metadata": {"namespace": "team", "name": "demo-0"},
        "spec": {"subdomain": "demo-headless", "containers": [container], "volumes": volumes},
        "status": {"podIP": "127.0.0.1"},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tls")
    for name in ("ca", "other"):
        make_authority(made / f"{name}.pem", name)
    issue(made / "ca.pem", made / "broker.pem", "/CN=b", usages="digitalSignature", alternatives=[f"DNS:*.{HOST[7:]}"])
    return made


@pytest.fixture
def port(folder):
    def answer(request):
        return (200, {"seconds": 5}) if request.headers["Authorization"] == "Bearer abc" else (401, None)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "broker.pem", folder / "broker.key")
    with played_http(answer, context) as port:
        yield port


def secrets(folder, authority="ca"):
    return Secrets(authority={"ca.pem": (folder / f"{authority}.pem").read_text()}, figures={"jwt": "abc\n"})


def ask(ports, pod):
    (url,) = ports.urls(pod)
    return get_json(f"{url}/idle", 10.0, ports.credentials(pod))


def test_a_broker_is_verified_by_its_name_at_the_address_of_its_pod(folder, port):
    kube, now = secrets(folder), [0.0]
    ports = BrokerPorts(kube, clock=lambda: now[0])
    assert [ask(ports, pod(port)) for _ in range(3)] == [{"seconds": 5}] * 3
    assert kube.reads == 2, "token and authority are read once"
    kube.objects["figures"] = {"jwt": "changed"}
    now[0] = CACHE_TTL_SECONDS + 1
    with pytest.raises(FetchError, match="HTTP 401"):
        ask(ports, pod(port))


@pytest.mark.parametrize(("authority", "domain"), [("other", "cluster.local"), ("ca", "other.local")])
def test_another_server_gets_no_token(folder, port, authority, domain):
    with pytest.raises(FetchError, match="its certificate is not accepted"):
        ask(BrokerPorts(secrets(folder, authority), domain), pod(port))


def test_a_secret_that_the_operator_may_not_read_or_that_is_missing_is_the_reason(folder, port):
    with pytest.raises(FetchError, match="there is no Secret lost in namespace team"):
        ask(BrokerPorts(secrets(folder)), pod(port, token="lost"))


def test_without_tls_nothing_is_sent(folder):
    kube = secrets(folder)
    assert BrokerPorts(kube).credentials(pod(1, scheme="HTTP")).token == ""
    plain = pod(1, scheme="HTTP")
    plain["spec"]["volumes"] = []
    assert BrokerPorts(kube).credentials(plain) is ANONYMOUS
    assert BrokerPorts(kube).urls(plain) == ["http://127.0.0.1:1"]
