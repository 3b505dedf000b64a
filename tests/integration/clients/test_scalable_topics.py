"""Scalable topics of Pulsar 5.0 (PIP-460) with their own client: what a pool does with them."""

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devstack.pool import Pool
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.distribution import ensure_distribution
from devstack.pulsar.java import java_program
from tests.support.java import need_java
from tests.support.pulsar.stacks import fresh_stack

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

SOURCE = Path(__file__).parent / "ScalableClient.java"
COUNT = 20
LIMIT_S = 150
RELEASE = next(version for version in assembled_versions() if version.startswith("5."))


@pytest.fixture(scope="module")
def cluster() -> Iterator[PulsarCluster]:
    need_java(RELEASE)
    with fresh_stack("scalable", 19650, version=RELEASE) as stack:
        yield stack


@pytest.fixture(scope="module")
def pool(cluster: PulsarCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A pool that is bound to all topics of a namespace."""
    options = ["--topics", "persistent://public/default/.*"]
    with closing(Pool(cluster.endpoints, tmp_path_factory.mktemp("pool"), uuid.uuid4().hex, options)) as made:
        made.start(1)
        yield made


def played(url: str, topic: str) -> str:
    """Publish and receive with the client; return what it says."""
    ended = subprocess.run(
        [
            java_program(RELEASE), "-Xmx256m", "-XX:TieredStopAtLevel=1",
            "-cp", f"{ensure_distribution(RELEASE)}/lib/*", str(SOURCE), url, topic, str(COUNT),
        ],
        capture_output=True, text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return next(line for line in ended.stdout.splitlines() if line.startswith(("received", "error")))


def test_a_scalable_topic_is_read_from_its_owners_through_a_lookup_at_the_pool(
    cluster: PulsarCluster, pool: Pool
) -> None:
    """The pool's lookup leads to the owner, and the layout of the topic to the owners of its segments."""
    topic = f"scalable-{uuid.uuid4().hex[:8]}"
    cluster.admin().create_scalable_topic(topic, segments=2)
    for url in (cluster.endpoints.writer_url, pool.url):
        assert played(url, f"topic://public/default/{topic}") == f"received {COUNT}"


def test_the_client_is_told_that_a_bound_topic_has_no_scalable_view_at_a_pool(
    cluster: PulsarCluster, pool: Pool
) -> None:
    """An owner shows an ordinary topic as a scalable one to this client; a pool does not, and says so at once."""
    topic = f"persistent://public/default/test-{uuid.uuid4().hex[:8]}"
    assert played(cluster.endpoints.writer_url, topic) == f"received {COUNT}"
    assert "does not support scalable topics" in played(pool.url, topic)
    assert "protocol error" not in pool.brokers[0].log.read_text()
