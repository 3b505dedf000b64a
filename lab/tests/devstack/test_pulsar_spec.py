"""A stack's spec: ports that never meet, and one clear error for each wrong option."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from devstack.errors import DevstackError
from devstack.pulsar.spec import PORT_SPAN, PulsarSpec, Setting, Site
from devstack.pulsar.status import Endpoints

ROOT: Final = Path(__file__).resolve().parents[3]
FIRST_OUTGOING_PORT: Final = 32768
"""Of the first range that Linux gives to connections (`net.ipv4.ip_local_port_range`)."""


def test_all_ports_differ_and_lie_in_the_span() -> None:
    spec = PulsarSpec(bookies=10, brokers=10, base_port=20000)
    ports = [spec.zookeeper_port]
    for i in range(10):
        ports += [spec.broker_port(i), spec.broker_http_port(i), spec.bookie_port(i), spec.bookie_metrics_port(i)]
    assert len(set(ports)) == len(ports) == 41
    assert all(20000 <= port < 20000 + PORT_SPAN for port in ports)


def test_default_ports_are_not_pulsars_own() -> None:
    spec = PulsarSpec()
    used = range(spec.base_port, spec.base_port + PORT_SPAN)
    assert not {2181, 3181, 6650, 6651, 8000, 8080, 8443, 9990} & set(used)


def test_no_stack_of_the_tests_has_ports_of_outgoing_connections() -> None:
    text = "\n".join(path.read_text() for folder in ("lab", "tests") for path in (ROOT / folder).rglob("*.py"))
    found = {int(port) for port in re.findall(r"\bbase_port(?:: Final)? ?= ?(\d+)", text, re.IGNORECASE)}
    assert len(found) > 30
    assert max(found) + PORT_SPAN <= FIRST_OUTGOING_PORT


def test_endpoints() -> None:
    ends = Endpoints.of(PulsarSpec(base_port=20000, bookies=2))
    assert ends.metadata_store == "zk:127.0.0.1:20020"
    assert ends.writer_url == ends.brokers[0] == "pulsar://127.0.0.1:20000"
    assert ends.admin_urls == ("http://127.0.0.1:20010", "http://127.0.0.1:20011")
    assert ends.bookies == ("127.0.0.1:20030", "127.0.0.1:20031")
    assert ends.bookie_metrics[1] == "http://127.0.0.1:20041/metrics"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"name": "Dev"}, "--name Dev"),
        ({"name": "../up"}, "--name ../up"),
        ({"name": ""}, "--name "),
        ({"name": "a-"}, "--name a-"),
        ({"version": "latest"}, "--version latest"),
        ({"version": "4.0"}, "--version 4.0"),
        ({"bookies": 0}, "--bookies 0"),
        ({"bookies": 11}, "--bookies 11"),
        ({"brokers": 0}, "--brokers 0"),
        ({"base_port": 80}, "--base-port 80"),
        ({"base_port": 65500}, "--base-port 65500"),
        ({"explicit_lac_ms": -1}, "--explicit-lac-ms -1"),
    ],
)
def test_a_wrong_option_is_named_and_the_right_one_told(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(DevstackError) as refused:
        PulsarSpec(**wrong)
    assert str(refused.value).startswith(named)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "role", "key", "value"),
    [
        ("broker.managedLedgerMaxEntriesPerLedger=500", "broker", "managedLedgerMaxEntriesPerLedger", "500"),
        ("bookie.dbStorage_writeCacheMaxSizeMb=32", "bookie", "dbStorage_writeCacheMaxSizeMb", "32"),
        ("broker.entryFilterNames=", "broker", "entryFilterNames", ""),
        ("broker.brokerClient_x.y=a=b c", "broker", "brokerClient_x.y", "a=b c"),
    ],
)
def test_settings_are_parsed(text: str, role: str, key: str, value: str) -> None:
    setting = Setting.parse(text)
    assert setting == Setting(role, key, value)
    assert str(setting) == text


@pytest.mark.parametrize("text", ["x=1", "broker.x", "zookeeper.x=1", "broker.=1", "broker.x=1\ny=2", "broker.a b=1"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(DevstackError, match=r"^--set "):
        Setting.parse(text)


def test_servers_can_have_addresses_of_their_own() -> None:
    sites = {"zookeeper": Site("198.18.0.1"), "bookie-1": Site("198.18.0.2"), "broker-0": Site("198.18.0.3")}
    ends = Endpoints.of(PulsarSpec(base_port=20000, bookies=2, brokers=2), sites)
    assert ends.metadata_store == "zk:198.18.0.1:20020"
    assert ends.brokers == ("pulsar://198.18.0.3:20000", "pulsar://127.0.0.1:20001")
    assert ends.admin_url == "http://198.18.0.3:20010"
    assert ends.bookies == ("127.0.0.1:20030", "198.18.0.2:20031")
    assert ends.bookie_metrics[1] == "http://198.18.0.2:20041/metrics"
