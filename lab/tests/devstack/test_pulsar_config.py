"""The files of the servers."""

from pathlib import Path

import pytest

from devstack.pulsar.config import bookie_conf, broker_conf, zookeeper_conf
from devstack.pulsar.spec import PulsarSpec, Setting, Site


def parsed(text: str) -> dict[str, str]:
    """Read a properties file, insisting that no key is given twice."""
    pairs = [line.split("=", 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    values = dict(pairs)
    assert len(values) == len(pairs)
    return values


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A distribution's conf folder, with the shipped files' traps: no newline at the end, keys given twice."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "zookeeper.conf").write_text("tickTime=2000\nclientPort=2181\nadmin.serverPort=9990\nforceSync=yes")
    (conf / "bookkeeper.conf").write_text(
        "bookiePort=3181\nzkServers=localhost:2181\njournalSyncData=true\nbookiePort=1"
    )
    (conf / "broker.conf").write_text("# clusterName=x\nclusterName=\nbrokerServicePort=6650\nwebServicePort=8080")
    return tmp_path


def test_zookeeper_listens_on_loopback_only(home: Path, tmp_path: Path) -> None:
    values = parsed(zookeeper_conf(home, PulsarSpec(base_port=20000), tmp_path / "data"))
    assert values["clientPort"] == "20020"
    assert values["clientPortAddress"] == "127.0.0.1"
    assert values["admin.enableServer"] == "false"
    assert values["dataDir"] == str(tmp_path / "data")
    assert values["forceSync"] == "yes"


def test_each_bookie_has_its_own_ports_and_folders(home: Path, tmp_path: Path) -> None:
    spec = PulsarSpec(base_port=20000)
    files = [parsed(bookie_conf(home, spec, i, tmp_path / str(i))) for i in range(3)]
    for key in ("bookiePort", "httpServerPort", "journalDirectories", "ledgerDirectories"):
        assert len({values[key] for values in files}) == 3
    assert files[0]["metadataServiceUri"] == "metadata-store:zk:127.0.0.1:20020"
    assert files[0]["zkServers"] == ""
    assert files[0]["bookiePort"] == "20030"
    assert files[0]["journalSyncData"] == "true"


def test_brokers_follow_the_spec(home: Path) -> None:
    values = parsed(broker_conf(home, PulsarSpec(base_port=20000, explicit_lac_ms=250, transactions=True), 1))
    assert values["brokerServicePort"] == "20001"
    assert values["webServicePort"] == "20011"
    assert values["bookkeeperExplicitLacIntervalInMills"] == "250"
    assert values["transactionCoordinatorEnabled"] == "true"
    assert values["clusterName"] == "pulsar-readonly"
    assert values["managedLedgerDefaultWriteQuorum"] == "2"


def test_one_bookie_means_one_copy(home: Path) -> None:
    values = parsed(broker_conf(home, PulsarSpec(bookies=1), 0))
    assert {values[f"managedLedgerDefault{what}"] for what in ("EnsembleSize", "WriteQuorum", "AckQuorum")} == {"1"}


def test_a_setting_can_be_for_one_broker(home: Path) -> None:
    settings = (Setting.parse("broker-1.brokerServicePortTls=20022"), Setting("broker", "brokerServicePortTls", "1"))
    spec = PulsarSpec(base_port=20000, settings=settings)
    ports = [parsed(broker_conf(home, spec, index))["brokerServicePortTls"] for index in range(2)]
    assert ports == ["1", "20022"]


def test_settings_win_and_reach_only_their_role(home: Path, tmp_path: Path) -> None:
    spec = PulsarSpec(
        settings=(
            Setting("broker", "managedLedgerMinLedgerRolloverTimeMinutes", "7"),
            Setting("broker", "x", "1"),
            Setting("broker", "x", "2"),
            Setting("bookie", "journalSyncData", "false"),
        )
    )
    broker = parsed(broker_conf(home, spec, 0))
    bookie = parsed(bookie_conf(home, spec, 0, tmp_path))
    assert broker["managedLedgerMinLedgerRolloverTimeMinutes"] == "7"
    assert broker["x"] == "2"
    assert "journalSyncData" not in broker
    assert bookie["journalSyncData"] == "false"
    assert "x" not in bookie


@pytest.mark.parametrize("quick", [False, True])
def test_only_a_quick_stack_does_not_wait_for_the_disk(home: Path, quick: bool) -> None:
    spec = PulsarSpec(quick=quick)
    assert parsed(zookeeper_conf(home, spec, home / "data"))["forceSync"] == ("no" if quick else "yes")
    assert parsed(bookie_conf(home, spec, 0, home / "data"))["journalSyncData"] == ("false" if quick else "true")


def test_a_site_is_where_a_server_listens_and_what_it_tells_others(home: Path, tmp_path: Path) -> None:
    spec = PulsarSpec(base_port=20000, settings=(Setting("zookeeper", "4lw.commands.whitelist", "*"),))
    site = Site("198.18.0.7", interface="eth0", launcher=("nsenter", "--net=/run/netns/x"))
    zookeeper = parsed(zookeeper_conf(home, spec, tmp_path, site))
    assert zookeeper["clientPortAddress"] == "198.18.0.7"
    assert zookeeper["4lw.commands.whitelist"] == "*"
    bookie = parsed(bookie_conf(home, spec, 0, tmp_path, site, "198.18.0.1"))
    assert (bookie["advertisedAddress"], bookie["listeningInterface"]) == ("198.18.0.7", "eth0")
    assert bookie["metadataServiceUri"] == "metadata-store:zk:198.18.0.1:20020"
    broker = parsed(broker_conf(home, spec, 0, site, "198.18.0.1"))
    assert (broker["bindAddress"], broker["advertisedAddress"]) == ("198.18.0.7", "198.18.0.7")
    assert broker["metadataStoreUrl"] == "zk:198.18.0.1:20020"
