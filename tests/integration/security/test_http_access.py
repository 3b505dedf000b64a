"""The HTTP ports of a pool with TLS and a token: curl, `top`, the page of the pool, and the parent of workers."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from devstack.common.certificates import issue, make_authority
from devstack.pool import BrokerProcess
from devstack.pulsar.status import Endpoints
from tests.integration.pools.test_workers import ports_with_room
from tests.support.pulsar.fleet import TESTS

pytestmark = pytest.mark.nightly

TOKEN = uuid.uuid4().hex


class Secured(BrokerProcess):
    """A broker whose HTTP port has TLS."""

    context: ssl.SSLContext

    def get(self, path: str) -> str:
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.http_port}{path}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=10, context=self.context) as response:
            return str(response.read().decode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("http")
    make_authority(made / "ca.pem", "authority")
    issue(made / "ca.pem", made / "tls.pem", "/CN=broker", usages="digitalSignature", alternatives=["IP:127.0.0.1"])
    (made / "token").write_text(TOKEN)
    return made


@pytest.fixture(scope="module")
def brokers(pulsar: Endpoints, folder: Path) -> Iterator[list[Secured]]:
    """Two brokers of a pool; the second one has two workers."""
    options = [
        *(
            "--topics",
            TESTS,
            "--pool",
            uuid.uuid4().hex,
            "--http-tls",
            "true",
            "--http-token-file",
            str(folder / "token"),
        ),
        *("--tls-certificate", str(folder / "tls.pem"), "--tls-key", str(folder / "tls.key")),
        *("--peer-tls-trust-certificates", str(folder / "ca.pem")),
    ]
    Secured.context = ssl.create_default_context(cafile=folder / "ca.pem")
    with ExitStack() as stack:
        made = []
        for number, workers in enumerate((1, 2)):
            ports = (ports_with_room(), ports_with_room())
            made.append(Secured(pulsar, folder / f"{number}.log", [*options, "--workers", str(workers)], ports))
            stack.callback(made[-1].kill)
        for one in made:
            one.wait_ready()
        yield made


def curl(broker: BrokerProcess, path: str, *options: str, scheme: str = "https") -> int:
    """Return the HTTP status that curl gets; 0 without an answer."""
    url = f"{scheme}://127.0.0.1:{broker.http_port}{path}"
    command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", *options, url]
    return int(subprocess.run(command, check=False, capture_output=True, text=True).stdout)


def test_curl_needs_the_token_for_all_but_the_probes(brokers: list[Secured], folder: Path) -> None:
    trust = ("--cacert", str(folder / "ca.pem"))
    for broker in brokers:  # of the second one the parent process answers
        assert [curl(broker, path, "--insecure") for path in ("/healthz", "/readyz")] == [200, 200]
        assert [curl(broker, path, *trust) for path in ("/metrics", "/", "/pool", "/stats")] == [401] * 4
        assert curl(broker, "/metrics", *trust, "-H", f"Authorization: Bearer {TOKEN}") == 200
        assert curl(broker, "/metrics", *trust, "-u", f"any:{TOKEN}") == 200
        assert curl(broker, "/metrics", *trust, "-u", "any:other") == 401
        assert curl(broker, "/healthz") == 0, "the authority is unknown to curl"
        assert curl(broker, "/healthz", scheme="http") == 0
    assert 'worker="1"' in brokers[1].get("/metrics"), "the parent has the token for its workers"


def test_top_reads_them_with_the_token(brokers: list[Secured], folder: Path) -> None:
    urls = [f"https://127.0.0.1:{one.http_port}" for one in brokers]
    command = [sys.executable, "-m", "readonly_engine.command", "top", "--once", "--output", "json", *urls]
    access = ["--trust-certificates", str(folder / "ca.pem"), "--token-file", str(folder / "token")]
    done = subprocess.run([*command, *access], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done
    assert [one["status"] is not None for one in json.loads(done.stdout)["brokers"]] == [True] * 3
    done = subprocess.run([*command, *access[:2]], check=False, capture_output=True, text=True)
    assert done.returncode == 1
