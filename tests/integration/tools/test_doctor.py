"""`pulsar-readonly doctor` on real clusters: healthy ones, wrong addresses and tokens, a stopped bookie, missing rights."""

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from kazoo.client import KazooClient

from devstack.common.ports import free_port
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.secure_stores import READER, SERVERS, StoreSecrets
from devstack.pulsar.security import Credentials, https_url, tls_url
from devstack.pulsar.spec import PulsarSpec
from tests.integration.tools.doctor_report import TIMEOUT_S, Report, addresses, end, publish
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.secure_stores import OWN_ROOT, restrict, restricted_stack, rights, session
from tests.support.waiting import wait_until

pytestmark = pytest.mark.own_stack

# A healthy cluster, and wrong addresses


def test_a_healthy_cluster(txn_stack: PulsarCluster, topic: str) -> None:
    """Its brokers send explicit LACs, and a topic has one; nothing is changed."""
    endpoints = txn_stack.endpoints
    publish(endpoints.writer_url, topic)
    before = txn_stack.admin().internal_stats(topic)
    words = [*addresses(endpoints), "--topic", topic, "--namespace", "public/default"]
    wait_until(lambda: set(Report(*words).results("explicit LAC")) == {"ok"}, 30, "the bookies have no explicit LAC")
    report = Report(*words)
    assert (report.status, report.failed) == (0, []), report.shown
    assert report.results("same cluster") == ["ok"]
    report.record("healthy-open")
    assert set(report.results("service URL") + report.results("admin API") + report.results("topic owner")) == {"ok"}
    assert (report.results("Pulsar version"), report.results("clock")) == (["ok"], ["ok"])
    assert report.results("metadata rights: write") == ["ok", "ok"]
    assert (report.results("pool name"), report.results("bookie")) == (["ok"], ["ok"])
    assert "supports batch reads" in report.of("bookie")[0]["observed"]
    assert "every 100 ms" in [one["observed"] for one in report.of("explicit LAC")]
    (lac,) = [one for one in report.of("explicit LAC") if one["subject"] == topic]
    assert (lac["result"], lac["observed"][:30]) == ("ok", "bookies have one, up to entry ")
    assert {one["result"] for one in report.of("topic") + report.of("namespace")} == {"ok"}
    after = txn_stack.admin().internal_stats(topic)
    assert (after["entriesAddedCounter"], after["cursors"]) == (before["entriesAddedCounter"], before["cursors"])


def test_a_topic_that_does_not_exist_is_not_created(txn_stack: PulsarCluster, topic: str) -> None:
    report = Report(*addresses(txn_stack.endpoints), "--topic", topic)
    assert report.results("topic") == ["warn"]
    assert topic not in txn_stack.admin().topics()


@pytest.mark.nightly
def test_consumers_at_the_owner_and_warnings_alone(txn_stack: PulsarCluster, topic: str) -> None:
    client = quiet_client(txn_stack.endpoints.writer_url)
    client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    words = [*addresses(txn_stack.endpoints), "--topic", topic]
    report = Report(*words)
    assert (report.status, report.results("passthrough")) == (0, ["ok", "warn"])
    assert "s (1)" in report.of("passthrough")[1]["observed"]
    assert Report(*words, "--strict").status == 1
    client.close()


@pytest.mark.nightly
def test_wrong_ports(txn_stack: PulsarCluster) -> None:
    """Each is one failure with its option; the command ends in time."""
    endpoints = txn_stack.endpoints
    report = Report(*addresses(endpoints, service_url=f"pulsar://127.0.0.1:{free_port()}"))
    assert (report.status, [one["check"] for one in report.failed]) == (2, ["service URL"])
    assert "service-url" in report.failed[0]["remedy"]
    report = Report(*addresses(endpoints, admin_url=f"http://127.0.0.1:{free_port()}"))
    assert [one["check"] for one in report.failed] == ["admin API"]
    report.record("wrong-admin-url")
    report = Report(*addresses(endpoints, metadata_store_url=f"zk:127.0.0.1:{free_port()}"))
    assert [one["check"] for one in report.failed] == ["metadata store", "bookies"]
    assert report.seconds < TIMEOUT_S
    # The port of another server: HTTP for the service URL.
    swapped = endpoints.admin_url.replace("http", "pulsar")
    assert [one["check"] for one in Report(*addresses(endpoints, service_url=swapped)).failed] == ["service URL"]


# Tokens and TLS


@pytest.mark.nightly
def test_tokens_and_tls(secured: tuple[PulsarCluster, Credentials], tmp_path: Path) -> None:
    stack, credentials = secured
    token = tmp_path / "token"
    trust = ["--broker-tls-trust-certificates", str(credentials.authority)]
    words = [
        *addresses(stack.endpoints, service_url=tls_url(stack.spec), admin_url=https_url(stack.spec)),
        "--admin-token-file",
        str(token),
    ]
    token.write_text(credentials.admin_token_file.read_text())
    good = Report(*words, *trust)
    assert (good.status, good.failed) == (0, []), good.shown
    good.record("healthy-tls-token")
    assert "accepts the token of the pool" in good.of("service URL")[0]["observed"]

    untrusted = Report(*words)
    assert {one["check"] for one in untrusted.failed} == {"service URL", "admin API"}, untrusted.shown
    assert all("broker-tls-trust-certificates" in one["remedy"] for one in untrusted.failed)
    untrusted.record("untrusted-certificate")

    token.write_text("wrong-token-of-nobody")
    wrong = Report(*words, *trust)
    assert {one["check"] for one in wrong.failed} == {"service URL", "admin API"}
    assert all("admin-token-file" in one["remedy"] for one in wrong.failed)
    assert "wrong-token-of-nobody" not in wrong.shown
    wrong.record("wrong-token")

    token.write_text(credentials.token("nobody"))
    nobody = Report(*words, *trust)
    assert (nobody.failed, nobody.results("admin API rights")) == ([], ["warn"])


# A cluster of its own, without explicit LAC, whose bookie stops


@pytest.fixture(scope="module")
def plain() -> Iterator[PulsarCluster]:
    """A stack with two bookies and without explicit LAC, Pulsar's default."""
    stack = PulsarCluster(
        PulsarSpec(name="doctor", base_port=14650, bookies=2, brokers=1, explicit_lac_ms=0, quick=True)
    )
    stack.up(renew=True)
    yield stack
    end(stack)


@pytest.mark.nightly
def test_explicit_lac_is_off(plain: PulsarCluster, topic: str) -> None:
    publish(plain.endpoints.writer_url, topic)
    report = Report(*addresses(plain.endpoints), "--topic", topic)
    assert report.status == 0
    assert report.results("explicit LAC") == ["warn", "warn"]
    setting, measured = report.of("explicit LAC")
    assert setting["observed"].startswith("off")
    assert (measured["subject"], "entry 2 of the open ledger is unconfirmed" in measured["observed"]) == (topic, True)
    report.record("explicit-lac-off")


@pytest.mark.nightly
def test_a_bookie_that_is_stopped(plain: PulsarCluster) -> None:
    stopped, other = plain.endpoints.bookies
    plain.stop_bookie(0)
    try:
        report = Report(*addresses(plain.endpoints))
        found = {one["subject"]: one["result"] for one in report.of("bookie")}
        # Its registration ends with its session.
        assert (found[stopped] in {"warn", "fail"}, found[other]) == (True, "ok")
        report.record("stopped-bookie")
    finally:
        plain.start_bookie(0)
    # Its port is open before it has registered again.
    wait_until(lambda: set(Report(*addresses(plain.endpoints)).results("bookie")) == {"ok"}, 60, "a bookie is not ok")


# Rights in ZooKeeper


@pytest.fixture(scope="module")
def secure() -> Iterator[tuple[PulsarCluster, StoreSecrets]]:
    with restricted_stack() as found:
        yield found


def tree(client: KazooClient, path: str = OWN_ROOT) -> set[str]:
    """Return the nodes below a node."""
    children = {f"{path}/{name}" for name in client.get_children(path)}
    return children.union(*(tree(client, child) for child in children))


@pytest.mark.nightly
def test_the_least_rights_are_enough_and_nothing_is_written(secure: tuple[PulsarCluster, StoreSecrets]) -> None:
    stack, secrets = secure
    with session(stack, READER) as client:
        before, sequence = tree(client), client.get(OWN_ROOT)[1].cversion
        report = Report(*addresses(stack.endpoints))
        assert (report.failed, report.results("metadata rights: write")) == ([], ["ok", "ok"]), report.shown
        report.record("healthy-secure-stores")
        assert (tree(client), client.get(OWN_ROOT)[1].cversion) == (before, sequence)
    assert secrets.password(READER) not in report.shown


@pytest.mark.nightly
def test_missing_rights_are_named(secure: tuple[PulsarCluster, StoreSecrets]) -> None:
    stack, _ = secure
    pools = f"{OWN_ROOT}/pools"
    with session(stack, READER) as reader:
        where = OWN_ROOT if reader.exists(pools) is None else pools
        if where == pools:
            reader.set_acls(pools, rights("r"))  # a pool of another test made it, for its own login alone
    with session(stack, SERVERS) as servers:
        try:
            servers.set_acls(OWN_ROOT, rights("r"))
            servers.ensure_path("/admin/partitioned-topics")
            servers.set_acls("/admin/partitioned-topics", rights(""))
            report = Report(*addresses(stack.endpoints))
            assert report.status == 2
            assert [one["subject"] for one in report.of("metadata rights: read") if one["result"] == "fail"] == [
                "/admin/partitioned-topics"
            ]
            assert report.results("metadata rights: write") == ["fail", "fail"]
            assert f"user {READER}: the right create on {where}" in report.of("metadata rights: write")[0]["observed"]
            report.record("missing-rights")
        finally:
            servers.set_acls("/admin/partitioned-topics", rights("r"))
            for path in {OWN_ROOT, where}:
                servers.set_acls(path, rights("crwda"))


@pytest.mark.nightly
def test_a_login_without_a_right_on_the_root(secure: tuple[PulsarCluster, StoreSecrets]) -> None:
    """Where /pulsar-readonly does not exist, the right to create it is checked, and it is not created."""
    stack, _ = secure
    with session(stack, SERVERS) as servers:
        servers.ensure_path("/doctor-chroot/ledgers/available")
        restrict(servers, "/doctor-chroot")
        url = f"{stack.endpoints.pool_store}/doctor-chroot"
        report = Report(*addresses(stack.endpoints, metadata_store_url=url))
        (first, _) = report.of("metadata rights: write")
        assert (first["result"], "the right create on / is missing" in first["observed"]) == ("fail", True)
        servers.set_acls("/doctor-chroot", rights("cr"))
        report = Report(*addresses(stack.endpoints, metadata_store_url=url))
        assert report.results("metadata rights: write") == ["ok", "ok"]
        assert servers.exists(f"/doctor-chroot{OWN_ROOT}") is None
