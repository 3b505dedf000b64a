import json
import os
import stat
from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.oxia.mend import mended
from devstack.pulsar import oxia_servers
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.config import bookie_conf, broker_conf, zookeeper_conf
from devstack.pulsar.oxia_servers import COORDINATOR, oxia_plan, oxia_server
from devstack.pulsar.spec import MIGRATION, OXIA, ZOOKEEPER, PulsarSpec, Site
from devstack.pulsar.state import StateFolder


@pytest.fixture(autouse=True)
def _built(monkeypatch):
    monkeypatch.setattr(oxia_servers, "ensure_program", lambda: Path("/bin/oxia"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"metadata": "etcd"}, "--metadata etcd: unknown"),
        ({"metadata": OXIA, "metadata_servers": 4}, "--metadata-servers 4: out of range"),
        ({"metadata": ZOOKEEPER, "metadata_servers": 0}, "--metadata-servers 0: out of range"),
        ({"metadata": ZOOKEEPER, "metadata_servers": 3, "brokers": 8}, "--brokers 8: out of range"),
        ({"metadata": ZOOKEEPER, "apart": True}, "--apart: only Oxia has namespaces"),
        ({"metadata": OXIA, "brokers": 8}, "--brokers 8: out of range"),
    ],
)
def test_a_stack_that_cannot_be_is_refused(given, why):
    with pytest.raises(DevstackError, match=why):
        PulsarSpec(**given)


def test_urls_of_each_store():
    assert PulsarSpec(metadata=ZOOKEEPER, base_port=20000).metadata_store_url() == "zk:127.0.0.1:20020"
    assert PulsarSpec(metadata=MIGRATION, base_port=20000).metadata_store_url() == "zk:127.0.0.1:20020"
    assert PulsarSpec(metadata=MIGRATION, base_port=20000).oxia_url() == "oxia://127.0.0.1:20021/broker"
    apart = PulsarSpec(metadata=OXIA, base_port=20000, apart=True)
    assert apart.metadata_store_url() == "oxia://127.0.0.1:20020/broker"
    assert apart.bookkeeper_metadata_store_url() == "oxia://127.0.0.1:20020/bookkeeper"


@pytest.mark.parametrize("metadata", [OXIA, MIGRATION])
def test_no_two_servers_of_a_full_stack_have_one_port(metadata, tmp_path):
    spec = PulsarSpec(metadata=metadata, metadata_servers=3, bookies=10, brokers=7, base_port=20000)
    ports = [spec.broker_port(i) for i in range(7)] + [spec.broker_http_port(i) for i in range(7)]
    ports += [spec.bookie_port(i) for i in range(10)] + [spec.bookie_metrics_port(i) for i in range(10)]
    ports += [port for _, port in oxia_plan(spec)] + [spec.oxia_internal_port(i) for i in range(3)]
    ports += [spec.oxia_coordinator_ports[1], *([spec.zookeeper_port] if metadata == MIGRATION else [])]
    assert len(ports) == len(set(ports))
    assert all(20000 <= port < 20050 for port in ports)


def test_zookeepers_of_an_ensemble(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "zookeeper.conf").write_text("")
    spec = PulsarSpec(metadata=ZOOKEEPER, metadata_servers=3, base_port=20000, bookies=1, brokers=7)
    assert spec.metadata_store_url() == "zk:127.0.0.1:20020,127.0.0.1:20021,127.0.0.1:20022"
    conf = zookeeper_conf(tmp_path, spec, tmp_path, index=2)
    assert "clientPort=20022\n" in conf
    assert "server.1=127.0.0.1:20007:20017\nserver.2=127.0.0.1:20008:20018\nserver.3=127.0.0.1:20009:20019\n" in conf
    assert "server." not in zookeeper_conf(tmp_path, PulsarSpec(metadata=ZOOKEEPER), tmp_path)
    names = [name for name, _ in PulsarCluster(spec)._plan()][:3]
    assert names == ["zookeeper", "zookeeper-1", "zookeeper-2"]


def test_the_coordinator_has_all_servers_and_namespaces(tmp_path):
    spec = PulsarSpec(metadata=OXIA, metadata_servers=3, base_port=20000)
    conf = json.loads(oxia_server(spec, StateFolder(tmp_path), COORDINATOR, 1).config)
    assert [one["name"] for one in conf["namespaces"]] == ["broker", "bookkeeper"]
    assert {one["replicationFactor"] for one in conf["namespaces"]} == {3}
    assert [one["public"] for one in conf["servers"]] == [f"127.0.0.1:{port}" for port in (20020, 20021, 20022)]


def test_a_store_at_a_site_of_its_own_is_there_for_everybody(tmp_path):
    spec = PulsarSpec(metadata=OXIA, base_port=20000)
    site = Site("198.18.17.9", "eth0", ("nsenter", "--net=x", "--"))
    sites = {"oxia-0": site, COORDINATOR: site}
    for name in sites:
        server = oxia_server(spec, StateFolder(tmp_path), name, 20020, sites)
        assert server.argv[:4] == ("nsenter", "--net=x", "--", "/bin/oxia")
        assert server.host == site.host
        assert "127.0.0.1" not in str((server.argv, server.config))
    assert json.loads(server.config)["servers"][0]["public"] == "198.18.17.9:20020"
    assert PulsarCluster(spec, tmp_path, sites).endpoints.pool_store == "oxia://198.18.17.9:20020/broker"


def test_servers_start_before_their_coordinator_and_the_others():
    cluster = PulsarCluster(PulsarSpec(metadata=MIGRATION, base_port=20000, bookies=1, brokers=1))
    assert [name for name, _ in cluster._plan()] == ["zookeeper", "oxia-0", COORDINATOR, "bookie-0", "broker-0"]
    assert PulsarCluster(PulsarSpec(metadata=OXIA)).metadata_server == "oxia-0"


def test_bookies_with_a_namespace_of_their_own(tmp_path):
    (tmp_path / "conf").mkdir()
    for name in ("bookkeeper.conf", "broker.conf"):
        (tmp_path / "conf" / name).write_text("")
    apart = PulsarSpec(metadata=OXIA, apart=True, base_port=20000)
    assert "metadataServiceUri=metadata-store:oxia://127.0.0.1:20020/bookkeeper\n" in bookie_conf(
        tmp_path, apart, 0, tmp_path
    )
    found = broker_conf(tmp_path, apart, 0)
    assert "metadataStoreUrl=oxia://127.0.0.1:20020/broker\n" in found
    assert "bookkeeperMetadataServiceUri=metadata-store:oxia://127.0.0.1:20020/bookkeeper\n" in found
    assert "bookkeeperMetadataServiceUri" not in broker_conf(tmp_path, PulsarSpec(metadata=OXIA), 0)


def module(folder: Path, text: str) -> dict[str, str]:
    """A fetched module, read-only as in Go's cache, and a `go` that names it."""
    fetched = folder / "fetched"
    (fetched / "server").mkdir(parents=True)
    (fetched / "server" / "a.go").write_text(text)
    (fetched / "server" / "a.go").chmod(stat.S_IRUSR)
    program = folder / "bin" / "go"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{json.dumps({'Dir': str(fetched)})}'\n")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


def source(folder: Path, after: str) -> Path:
    made = folder / "src"
    made.mkdir()
    (made / "go.mod").write_text("module x\n")
    (made / "go.sum").write_text("sums\n")
    edits = [{"after": after, "insert": "inserted\n"}]
    (made / "mends.json").write_text(json.dumps([{"module": "m", "file": "server/a.go", "edits": edits}]))
    return made


def test_a_module_is_edited_in_a_copy(tmp_path):
    environment = module(tmp_path, "one\ntwo\n")
    (tmp_path / "out").mkdir()
    made = mended(source(tmp_path, "one\n"), tmp_path / "out", environment)
    assert (tmp_path / "out" / "module-0" / "server" / "a.go").read_text() == "one\ninserted\ntwo\n"
    assert (tmp_path / "fetched" / "server" / "a.go").read_text() == "one\ntwo\n"
    assert made.read_text() == f"module x\n\nreplace m => {tmp_path}/out/module-0\n"
    assert (tmp_path / "out" / "go.sum").read_text() == "sums\n"


@pytest.mark.parametrize("text", ["two\n", "one\none\n"])
def test_another_release_of_the_module_is_noticed(tmp_path, text):
    environment = module(tmp_path, text)
    (tmp_path / "out").mkdir()
    with pytest.raises(DevstackError, match=r"a.go does not have 'one\\n' exactly once"):
        mended(source(tmp_path, "one\n"), tmp_path / "out", environment)
