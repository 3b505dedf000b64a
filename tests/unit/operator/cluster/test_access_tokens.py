"""Access tokens for admin APIs: an OAuth 2.0 server on loopback, and Secrets that pools name."""

import base64
import json
import socket
from contextlib import contextmanager
from threading import Thread
from urllib.parse import parse_qs

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.cluster import fetch
from readonly_operator.cluster.credentials import CredentialsReader
from readonly_operator.cluster.source import check

from tests.support.played_http import played_http

KEY = {"type": "client_credentials", "client_id": "me", "client_secret": "s3cret"}


class Secrets:
    """An API server with one Secret, by key."""

    def __init__(self, **data):
        self.data = data
        self.reads = 0

    def get(self, kind, namespace, name):
        self.reads += 1
        assert name == "oauth2"
        return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in self.data.items()}}


class Issuer:
    """What an OAuth 2.0 server answers.

    Attributes:
        forms: token requests.
        status: status of its answers to them.
        lifetime: of its tokens, in seconds.
        endpoint: its token endpoint; empty for its own.
        accepts: header of the requests that the admin API accepts; empty for all.
    """

    def __init__(self):
        self.forms = []
        self.status = 200
        self.lifetime = 100
        self.base = ""
        self.endpoint = ""
        self.accepts = ""

    @contextmanager
    def serving(self):
        with played_http(self._answer) as port:
            self.base = f"http://127.0.0.1:{port}"
            yield self

    def _answer(self, request):
        if request.method == "GET":
            if request.path == "/.well-known/openid-configuration":
                return 200, {"token_endpoint": self.endpoint or f"{self.base}/token"}
            token = request.headers.get("Authorization")
            return (200 if self.accepts in {"", token} else 401), [token]
        assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
        self.forms.append({name: value for name, (value,) in parse_qs(request.body.decode()).items()})
        made = {"access_token": f"token-{len(self.forms)}", "expires_in": self.lifetime}
        return self.status, made if self.status == 200 else {"error": "invalid_client", "x": "s3cret"}


@pytest.fixture
def issuer():
    with Issuer().serving() as serving:
        yield serving


@pytest.fixture
def source(pool_body, issuer):
    def make(namespace="team", secret=None, **fields):
        body = pool_body()
        body["metadata"]["namespace"] = namespace
        secret = secret or {"keyFile": "key.json"}
        oauth2 = {"issuerUrl": issuer.base, "secretRef": {"name": "oauth2", **secret}, **fields}
        body["spec"]["source"] |= {"adminUrl": issuer.base, "authentication": {"type": "OAuth2", "oauth2": oauth2}}
        return Pool.load(body).source

    return make


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def kube():
    return Secrets(**{"key.json": json.dumps(KEY), "id": "me\n", "secret": "s3cret\n"})


@pytest.fixture
def reader(kube, now):
    return CredentialsReader(kube, lambda: now[0])


def test_the_admin_api_is_asked_with_an_access_token(source, reader, issuer):
    one = source(audience="urn:pulsar", scope="a b")
    assert fetch.get_json(f"{issuer.base}/admin/v2/brokers", 5, reader(one)) == ["Bearer token-1"]
    form = {"grant_type": "client_credentials", "client_id": "me", "client_secret": "s3cret"}
    assert issuer.forms == [{**form, "audience": "urn:pulsar", "scope": "a b"}]


def test_id_and_secret_may_have_keys_of_their_own(source, reader, issuer):
    assert reader(source(secret={"clientId": "id", "clientSecret": "secret"})).token == "token-1"
    assert issuer.forms == [{"grant_type": "client_credentials", "client_id": "me", "client_secret": "s3cret"}]


def test_a_token_is_used_again_and_renewed_before_it_expires(source, reader, now):
    made = {}
    for now[0] in (0.0, 29.0, 31.0, 79.0, 81.0):
        made[now[0]] = reader(source()).token
    assert made == {0.0: "token-1", 29.0: "token-1", 31.0: "token-1", 79.0: "token-1", 81.0: "token-2"}


def test_a_short_token_is_cached_for_no_longer_than_it_is_valid(source, reader, now, issuer):
    issuer.lifetime = 20
    assert reader(source()).token == "token-1"
    now[0] = 17.0
    assert reader(source()).token == "token-2"


def test_changed_credentials_get_another_token_at_once(source, reader, now, kube, issuer):
    reader(source())
    kube.data["key.json"] = json.dumps({**KEY, "client_secret": "other"})
    now[0] = 31.0
    issuer.status = 401
    with pytest.raises(fetch.FetchError, match="the token endpoint answers HTTP 401, invalid_client"):
        reader(source())
    issuer.status = 200
    now[0] = 33.0
    assert reader(source()).token == "token-3"


def test_a_server_that_fails_leaves_the_token_until_it_expires_and_is_not_flooded(source, reader, now, issuer):
    reader(source())
    issuer.status = 503
    now[0] = 81.0
    assert reader(source()).token == "token-1"
    now[0] = 101.0
    with pytest.raises(fetch.FetchError) as caught:
        reader(source())
    assert str(caught.value) == f"no access token of {issuer.base}: the token endpoint answers HTTP 503, invalid_client"
    before = len(issuer.forms)
    for _ in range(5):
        with pytest.raises(fetch.FetchError):
            reader(source())
    assert len(issuer.forms) == before


@pytest.mark.parametrize("endpoint", ["http://a..b/token", "http://issuer/tok\u00e9n", "http://a b/token"])
def test_rubbish_of_the_issuer_is_an_error_of_the_source(source, reader, issuer, endpoint):
    issuer.endpoint = endpoint
    with pytest.raises(fetch.FetchError, match=f"no access token of {issuer.base}: "):
        reader(source())


def test_a_server_that_sends_the_form_back_reaches_no_status(source, reader, issuer):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                said = connection.recv(65536)
                while b"s3cret" not in said:
                    said += connection.recv(65536)
                connection.sendall(said.rpartition(b"\r\n")[2] + b"\r\n")

        thread = Thread(target=serve)
        thread.start()
        issuer.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
        with pytest.raises(fetch.FetchError, match="the answer is not one of HTTP") as caught:
            reader(source())
        thread.join(10)
    assert "s3cret" not in str(caught.value)


def test_a_token_that_the_admin_api_refuses_is_replaced(source, reader, now, issuer):
    """For example because the server has new keys: the token would be valid for another hour."""
    issuer.lifetime = 3600
    issuer.accepts = "Bearer token-2"
    for now[0] in (0.0, 400.0):
        with pytest.raises(fetch.FetchError, match="HTTP 401"):
            fetch.get_json(f"{issuer.base}/admin", 5, reader(source()))
    now[0] = 431.0
    assert fetch.get_json(f"{issuer.base}/admin", 5, reader(source())) == ["Bearer token-2"]


def test_another_namespace_has_another_login(source, reader, issuer):
    assert reader(source()).token == "token-1"
    assert reader(source("other")).token == "token-2"


def test_the_problem_is_one_of_the_source_without_secrets(source, reader, kube, issuer):
    issuer.status = 401
    problems = check(source(), reader).problems
    assert problems[0].startswith(
        f"adminUrl {issuer.base}: no access token of {issuer.base}: the token endpoint answers"
    )
    kube.data["key.json"] = '{"client_id": "me", "client_secret": "s3cret"'
    (problem, *_) = check(source(scope="x"), reader).problems
    assert problem == f"adminUrl {issuer.base}: Secret oauth2: the key file is not JSON"
    assert "s3cret" not in "".join(problems)


def test_a_certificate_as_identity_has_no_token(pool_body, kube):
    body = pool_body()
    body["spec"]["source"] |= {
        "authentication": {"type": "Tls"},
        "tls": {"brokers": {"clientCertificate": {"secretName": "client"}}},
    }
    assert CredentialsReader(kube)(Pool.load(body).source).token == ""
    assert kube.reads == 0, "the admin URL has no TLS here, which the schema refuses"
