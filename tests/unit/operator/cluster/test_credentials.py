"""What the operator shows to an admin API, from Secrets that pools name."""

import base64
import contextlib
import socket
import ssl
from threading import Thread

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.cluster import fetch
from readonly_operator.cluster.credentials import CACHE_TTL_SECONDS, CredentialsReader
from readonly_operator.cluster.source import active_brokers, check
from readonly_operator.kube.api_server import KubeError

from devstack.pulsar.security import Credentials
from tests.support.played_http import played_http


class Secrets:
    """An API server with Secrets and ConfigMaps."""

    def __init__(self, **objects):
        self.objects = objects
        self.reads = 0

    def get(self, kind, namespace, name):
        self.reads += 1
        assert namespace == "team"
        found = self.objects.get(name)
        if isinstance(found, Exception):
            raise found
        if found is None:
            return None
        encode = (
            (lambda text: base64.b64encode(text.encode()).decode()) if kind.kind == "Secret" else (lambda text: text)
        )
        return {"data": {key: encode(value) for key, value in found.items()}}


@pytest.fixture
def source(pool_body):
    def make(**fields):
        body = pool_body()
        body["spec"]["source"] |= fields
        return Pool.load(body).source

    return make


TOKEN = {"authentication": {"secretRef": {"name": "reader"}}}


def test_a_token_is_read_from_its_secret_and_read_again_when_it_may_have_changed(source):
    kube, now = Secrets(reader={"token": "abc\n"}), [0.0]
    credentials_for = CredentialsReader(kube, lambda: now[0])
    assert credentials_for(source(**TOKEN)).token == "abc"
    kube.objects["reader"] = {"token": "def"}
    assert credentials_for(source(**TOKEN)).token == "abc"
    now[0] = CACHE_TTL_SECONDS + 1
    assert credentials_for(source(**TOKEN)).token == "def"
    assert kube.reads == 2


def test_nothing_is_read_where_nothing_is_named(source):
    kube = Secrets()
    assert CredentialsReader(kube)(source()) == fetch.ANONYMOUS
    assert kube.reads == 0


def test_a_token_is_in_no_text(source):
    credentials = CredentialsReader(Secrets(reader={"token": "s3cret"}))(source(**TOKEN))
    assert "s3cret" not in repr(credentials)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "there is no Secret reader in namespace team"),
        ({"other": "abc"}, "Secret reader has no key token"),
        ({"token": "two\nlines"}, "key token of Secret reader is no token"),
        ({"token": ""}, "key token of Secret reader is no token"),
        (
            KubeError("forbidden", 403),
            (
                "the operator may not read Secret reader; allow it: kubectl create role pulsar-readonly-operator-reader -n team "
                "--verb=get --resource=secrets --resource-name=reader, and bind it to the operator's service account"
            ),
        ),
        (KubeError("gone fishing", 500), "Secret reader cannot be read: gone fishing"),
    ],
)
def test_a_secret_that_cannot_be_used_is_named(source, found, message):
    with pytest.raises(fetch.FetchError) as caught:
        CredentialsReader(Secrets(reader=found))(source(**TOKEN))
    assert str(caught.value) == message


def test_a_secret_that_cannot_be_used_is_a_problem_of_the_source(source):
    problems = check(source(**TOKEN), CredentialsReader(Secrets())).problems
    assert problems[0].startswith(
        "adminUrl http://pulsar-broker.pulsar:8080: there is no Secret reader in namespace team"
    )


def brokers(request):
    """Answers of an admin API that takes one token."""
    good = request.headers.get("Authorization") == "Bearer abc"
    return (200, ["broker:8080"]) if good else (401, b"who are you?")


def test_the_admin_api_is_asked_with_the_token(source):
    with played_http(brokers) as port:
        url = f"http://127.0.0.1:{port}"
        secured = source(adminUrl=url, **TOKEN)
        credentials_for = CredentialsReader(Secrets(reader={"token": "abc"}))
        assert active_brokers(secured, credentials_for(secured)) == ["broker:8080"]
        with pytest.raises(fetch.FetchError, match=r"HTTP 401 Unauthorized: who are you\?"):
            active_brokers(secured)


def wants_certificates(made, server):
    """TLS of a server whose clients need a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*server)
    context.load_verify_locations(made.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_the_admin_api_is_asked_with_tls_and_a_certificate_is_shown(source, tmp_path):
    made = Credentials.make(tmp_path)
    server, client = made.certificate("server"), made.certificate("client")
    context = wants_certificates(made, server)
    kube = Secrets(
        reader={"token": "abc"},
        ca={"ca.crt": made.authority.read_text()},
        mine={"tls.crt": client[0].read_text(), "tls.key": client[1].read_text()},
        other={"tls.crt": client[0].read_text(), "tls.key": server[1].read_text()},
    )

    def secured(port, certificate="mine", trusted="configMapName", **tls):
        tls |= {"trustCertificates": {trusted: "ca"}, "clientCertificate": {"secretName": certificate}}
        return source(adminUrl=f"https://127.0.0.1:{port}", **TOKEN, tls={"brokers": tls})

    with played_http(brokers, context) as port:
        for trusted in ("configMapName", "secretName"):
            one = secured(port, trusted=trusted)
            assert active_brokers(one, CredentialsReader(kube)(one)) == ["broker:8080"]
        with pytest.raises(fetch.FetchError, match="Secret other has no PEM certificate with its own key"):
            CredentialsReader(kube)(secured(port, "other"))
        with pytest.raises(fetch.FetchError, match=r"certificate verify failed|self.signed"):
            active_brokers(source(adminUrl=f"https://127.0.0.1:{port}"))
    kube.objects["ca"] = {"ca.crt": "nothing"}
    with pytest.raises(fetch.FetchError, match=r"key ca\.crt of ConfigMap ca has no PEM certificates"):
        CredentialsReader(kube)(secured(1))


class _Silent:
    """A server that accepts connections, makes TLS handshakes, and says nothing."""

    def __init__(self, context, first=b""):
        self._context = context
        self._first = first
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), peer:
                peer.settimeout(10)
                if self._context is None:
                    peer.sendall(self._first)
                    while peer.recv(1000):
                        pass
                    continue
                with self._context.wrap_socket(peer, server_side=True) as secured:
                    secured.recv(1000)

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Credentials.make(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def silent(made):
    """A server whose clients need a certificate."""
    server = _Silent(wants_certificates(made, made.certificate("server")))
    yield server
    server.close()


def _secrets(made):
    client = made.certificate("client")
    return Secrets(
        ca={"ca.crt": made.authority.read_text()},
        mine={"tls.crt": client[0].read_text(), "tls.key": client[1].read_text()},
    )


def _problem(kube, source, field):
    """Return the problem of a field of the source, without its name and URL; empty for none."""
    found = [one for one in check(source, tls_context=CredentialsReader(kube).tls_context).problems if field in one]
    return found[0].partition(": ")[2] if found else ""


CA = {"trustCertificates": {"configMapName": "ca"}}
MINE = CA | {"clientCertificate": {"secretName": "mine"}}


@pytest.mark.parametrize(
    ("field", "part", "url"),
    [
        ("metadataStoreUrl", "metadataStore", "zk:127.0.0.1:{}"),
        ("metadataStoreUrl", "metadataStore", "oxia://127.0.0.1:{}"),
        ("serviceUrl", "brokers", "pulsar+ssl://127.0.0.1:{}"),
    ],
)
def test_a_handshake_is_part_of_the_check(source, made, silent, field, part, url):
    kube = _secrets(made)

    def problem(**tls):
        return _problem(kube, source(**{field: url.format(silent.port)}, tls={part: tls}), field)

    assert problem(**MINE) == ""
    assert problem(**CA) == "it requires a client certificate"
    if part == "brokers":
        assert "its certificate is not accepted: " in problem()
        assert "its certificate is not accepted: " in _problem(kube, source(serviceUrl=url.format(silent.port)), field)
    kube.objects["mine"] = {"tls.crt": "nothing"}
    assert problem(**MINE) == "Secret mine has no key tls.key"
    kube.objects["mine"] = KubeError("forbidden", 403)
    assert problem(**MINE) == "", "the operator needs no right to read a Secret of a metadata store or a broker"


@pytest.mark.parametrize(
    ("first", "told"),
    [(b"", "no answer in time"), (b"no TLS here, and more than the header of a record", "the port is not one of TLS")],
)
def test_a_server_without_tls_is_named(source, made, monkeypatch, first, told):
    monkeypatch.setattr("readonly_operator.cluster.source.STEP_SECONDS", 5.0 if first else 0.3)
    server = _Silent(None, first)
    try:
        one = source(metadataStoreUrl=f"zk:127.0.0.1:{server.port}", tls={"metadataStore": MINE})
        assert _problem(_secrets(made), one, "metadataStoreUrl") == told
    finally:
        server.close()


def test_a_store_without_tls_is_asked_for_a_connection_only(source, made, silent):
    assert _problem(_secrets(made), source(metadataStoreUrl=f"zk:127.0.0.1:{silent.port}"), "metadataStoreUrl") == ""
