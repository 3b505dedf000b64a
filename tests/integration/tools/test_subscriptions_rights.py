"""`pulsar-readonly subscriptions` on a cluster that asks its clients who they are: the owner authorizes each change."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pulsar
import pytest

from devstack.pool import Pool
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.security import Credentials
from tests.support.pulsar.fleet import quiet_client
from tests.support.subscriptions_tool import COMMAND, connections_of

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

NAMESPACE = f"public/rights-{uuid.uuid4().hex[:8]}"
LIMIT_S = 120


@pytest.fixture
def pool(secured: tuple[PulsarCluster, Credentials], tmp_path: Path) -> Iterator[Pool]:
    stack, credentials = secured
    admin = stack.admin()
    admin.create_namespace(NAMESPACE)
    admin.grant(NAMESPACE, "reader", "consume")
    options = ["--topics", f"persistent://{NAMESPACE}/.*", "--admin-token-file", str(credentials.admin_token_file)]
    with closing(Pool(stack.endpoints, tmp_path, uuid.uuid4().hex, [*options, "--cursors", "local"])) as made:
        made.start(1)
        yield made


def test_the_owner_authorizes_each_change(
    secured: tuple[PulsarCluster, Credentials], pool: Pool, tmp_path: Path
) -> None:
    stack, credentials = secured
    topic = f"persistent://{NAMESPACE}/orders"
    stack.admin().create_topic(topic)

    def run(role: str, *words: str, status: int = 0) -> str:
        token = tmp_path / role
        token.write_text(credentials.token(role))
        command = [*COMMAND, *words, *connections_of(stack.endpoints, pool.name, pool.url)]
        command += ["--admin-token-file", str(credentials.admin_token_file), "--token-file", str(token)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def names() -> list[str]:
        return list(json.loads(run("reader", "ls", topic, "-o", "json"))["subscriptions"])

    def at_owner() -> set[str]:
        found = stack.admin().stats(topic)["subscriptions"]
        return {name for name, one in found.items() if one["isDurable"] and not name.startswith("pulsar-readonly-")}

    client = quiet_client(
        stack.endpoints.writer_url, authentication=pulsar.AuthenticationToken(credentials.token("admin"))
    )
    client.subscribe(topic, "s").close()
    client.close()
    assert "uthoriz" in run("stranger", "import", topic, "s", status=1)
    assert at_owner() == {"s"}
    assert "imported" in run("reader", "import", topic, "s")
    assert at_owner() == set()
    for words in (("seek", topic, "s", "--to", "earliest"), ("delete", topic, "s"), ("export", topic, "s")):
        assert "uthoriz" in run("stranger", *words, status=1)
        assert names() == ["s"]
        assert at_owner() == set()
    assert "moved" in run("reader", "seek", topic, "s", "--to", "earliest")
    assert "exported" in run("reader", "export", topic, "s")
    assert at_owner() == {"s"}
    assert "imported" in run("reader", "import", topic, "s")
    assert "deleted" in run("reader", "delete", topic, "s")
    assert names() == []
