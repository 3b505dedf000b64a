"""A broker whose own identity is an access token: short tokens of an OAuth 2.0 server, renewed while a pool serves."""

import json
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pulsar
import pytest

from devstack.pool import Pool
from tests.support.pulsar.fleet import quiet_client
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

LIFETIME_S = 10
SILENCE_S = 60


class Issuer(ThreadingHTTPServer):
    """Hands out tokens of the stack's superuser that expire.

    Attributes:
        forms: bodies of the token requests.
        speaks: whether it answers; requests wait else.
    """

    def __init__(self, token) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token = token
        self.speaks = threading.Event()
        self.speaks.set()
        self.forms: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        self.server.speaks.wait(SILENCE_S)
        self._answer({"token_endpoint": f"{self.server.url}/token"})

    def do_POST(self) -> None:
        self.server.forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self._answer({"access_token": self.server.token(), "token_type": "Bearer", "expires_in": LIFETIME_S})

    def _answer(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def issuer(secured) -> Iterator[Issuer]:
    credentials = secured[1]
    server = Issuer(lambda: credentials.token("admin", LIFETIME_S))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.speaks.set()
    server.shutdown()
    server.server_close()
    thread.join(10)


def a_pool(stack, issuer: Issuer, folder: Path, cursors: str) -> tuple[Pool, str]:
    """A pool without brokers whose identity is the issuer's, and a topic that it serves."""
    admin = stack.admin()
    namespace = f"public/oauth2-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    topic = f"persistent://{namespace}/test-{uuid.uuid4().hex[:12]}"
    admin.create_topic(topic)
    key_file = folder / "key.json"
    key_file.write_text(json.dumps({"type": "client_credentials", "client_id": "me", "client_secret": "s3cret"}))
    settings = f"{{issuer-url: '{issuer.url}', key-file: {key_file}}}"
    options = ["--topics", f"persistent://{namespace}/.*", "--admin-oauth2", settings, "--cursors", cursors]
    return Pool(stack.endpoints, folder, uuid.uuid4().hex, options), topic


@pytest.mark.parametrize("cursors", ["owner", "local"])
def test_a_pool_outlives_a_silence_of_the_server_that_is_longer_than_its_tokens(
    secured, issuer, tmp_path: Path, cursors: str
) -> None:
    stack, credentials = secured
    pool, topic = a_pool(stack, issuer, tmp_path, cursors)
    token = pulsar.AuthenticationToken(credentials.token("admin"))
    issuer.speaks.clear()
    try:
        pool.start(1)  # it starts without a token, and within the time of a startup probe
        assert not issuer.forms
        issuer.speaks.set()
        wait_until(lambda: issuer.forms, 2 * SILENCE_S)
        client = quiet_client(pool.brokers[0].url, authentication=token)
        producer = client.create_producer(topic, batching_enabled=False)
        consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        granted = len(issuer.forms)
        issuer.speaks.clear()
        time.sleep(2 * LIFETIME_S)  # the last token has expired
        for number in range(3):
            producer.send(b"%d" % number)
        if cursors == "local":  # the pool stores these with its own identity
            issuer.speaks.set()
        for number in range(3):
            message = consumer.receive(int(2 * SILENCE_S * 1000))
            assert message.data() == b"%d" % number
            consumer.acknowledge(message)
        issuer.speaks.set()
        wait_until(lambda: len(issuer.forms) > granted, 2 * SILENCE_S)

        def subscribes() -> bool:
            try:
                late = client.subscribe(topic, "late", initial_position=pulsar.InitialPosition.Earliest)
            except pulsar.PulsarException:
                return False
            return late.receive(30_000).data() == b"0"

        wait_until(subscribes, 2 * SILENCE_S)
        client.close()
    finally:
        pool.close()
