import re
from pathlib import Path

import pytest
from readonly_engine.config.option import ConfigError
from readonly_engine.config.reader import make_config, read_config_file
from readonly_engine.config.replay import ReplaySettings
from readonly_engine.metadata.security import LoginScheme, NodeRights, StoreSecurity
from readonly_engine.metadata.url import MetadataUrl, StoreKind
from readonly_engine.net.tls import TlsFiles

from tests.unit.engine.config.values import LISTENER, REQUIRED


@pytest.mark.parametrize("url", [{"service-url": "pulsar+ssl://w"}, {"admin-url": "https://a"}])
def test_tls_to_the_writable_cluster_needs_no_files(url):
    assert make_config({}, {**REQUIRED, **url}).broker_tls == TlsFiles("broker-tls")


def test_nodes_belong_to_their_creator_where_it_logs_in():
    assert make_config({}, REQUIRED).metadata_security.created_rights is NodeRights.OPEN
    login = {"metadata-store-login-file": "/login"}
    assert make_config({}, {**REQUIRED, **login}).metadata_security.created_rights is NodeRights.CREATOR


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tls-listen": "h:1"}, "tls-certificate and tls-key are missing: tls-listen needs them"),
        ({"tls-listen": "h:1", "tls-key": "/k"}, "tls-certificate is missing: tls-key needs it"),
        ({"tls-listen": "h:1", "tls-certificate": "/c"}, "tls-key is missing: tls-certificate needs it"),
        ({"broker-tls-certificate": "/c"}, "broker-tls-key is missing: broker-tls-certificate needs it"),
        ({"metadata-store-tls-key": "/k"}, "metadata-store-tls-certificate is missing: metadata-store-tls-key needs"),
        ({"metadata-store-login-scheme": "digest"}, "metadata-store-login-file is missing:"),
        ({"metadata-store-node-rights": "creator"}, "metadata-store-login-file is missing:"),
        ({"bookie-tls-key": "/k"}, "bookie-tls-certificate is missing: bookie-tls-key needs it"),
        ({"tls-certificate": "/c", "tls-key": "/k"}, "tls-certificate is given without tls-listen: it has no effect"),
        ({"tls-trust-certificates": "/c"}, "tls-trust-certificates is given without tls-listen"),
        (
            {"admin-token-file": "/t", "admin-oauth2": "{issuer-url: 'https://i', key-file: /k}"},
            "admin-oauth2 and admin-token-file exclude each other: give one of them",
        ),
        ({"admin-oauth2": "{key-file: /k}"}, "admin-oauth2: issuer-url is missing: give https://HOST[/PATH]"),
        ({"admin-oauth2": "{issuer-url: 'https://i?a=b', key-file: /k}"}, "admin-oauth2: issuer-url: must be https://"),
        ({"admin-oauth2": "{issuer-url: 'https://u:p@i', key-file: /k}"}, "admin-oauth2: issuer-url: must be https://"),
        ({"admin-oauth2": "{issuer-url: 'https://i'}"}, "admin-oauth2: key-file is missing: give it, or"),
        ({"admin-oauth2": "{issuer-url: 'https://i', client-id-file: /i}"}, "admin-oauth2: key-file is missing: give"),
        (
            {"admin-oauth2": "{issuer-url: 'https://i', key-file: /k, client-id-file: /i}"},
            "admin-oauth2: key-file and client-id-file exclude each other",
        ),
        ({"peer-tls-trust-certificates": "/c"}, "peer-tls-trust-certificates is given without tls-listen"),
        ({"advertised-tls-url": "pulsar+ssl://h"}, "advertised-tls-url is given without tls-listen"),
        ({"http-tls": True}, "tls-certificate and tls-key are missing: http-tls needs them"),
        ({"http-token-file": "/t"}, "http-tls is missing: http-token-file needs it with http *:8080"),
        ({"http": "8.8.8.8:8080"}, "where anyone could read topics and subscriptions: give http-tls"),
        (
            {"http": "[2600::1]:80", "http-tls": True, "tls-certificate": "/c", "tls-key": "/k"},
            "http: [2600::1]:80 is an address of the internet",
        ),
        ({"bind-addresses": "a:pulsar://h:1"}, "bind-addresses: a:pulsar://h:1: listener a has no pulsar:// URL"),
        (
            {"bind-addresses": "a:pulsar+ssl://h:1", "advertised-listeners": "a:pulsar+ssl://h:1"},
            "tls-listen is missing: bind-addresses with pulsar+ssl:// use its certificate",
        ),
        ({"broker-tls-trust-certificates": "/c"}, "broker-tls-trust-certificates is given without a service-url of"),
    ],
)
def test_settings_of_tls_that_do_not_go_together(settings, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        make_config({}, {**REQUIRED, **settings})


@pytest.mark.parametrize(
    "host", ["*", "0.0.0.0", "[::]", "127.0.0.1", "10.1.2.3", "[fd00::1]", "broker-0", "100.64.0.1"]
)
def test_an_http_port_of_a_pod_or_a_machine_needs_no_token(host):
    assert make_config({}, {**REQUIRED, "http": f"{host}:8080"}).http_files is None


def test_an_http_port_without_tls_may_have_a_token_on_this_machine_alone():
    given = {**REQUIRED, "http-token-file": "/t", "http": "127.0.0.1:8080"}
    assert make_config({}, given).http_token_file == Path("/t")


def test_settings_that_several_options_give_together(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text("""
metadata-store-url: zk:a:2181,b:2182/chroot
service-url: pulsar+ssl://writer:6651,other/
admin-url: https://admin:8443,[::1]:8443
bookkeeper-metadata-store-url: metadata-store:oxia://oxia:6648/bookkeeper
http-tls: true
broker-tls-trust-certificates: /run/tls/writer-ca.pem
broker-tls-certificate: /run/tls/writer.pem
broker-tls-key: /run/tls/writer.key
broker-tls-hostname-verification: false
bookie-tls-trust-certificates: /run/tls/bookie-ca.pem
bookie-tls-certificate: /run/tls/bookie.pem
bookie-tls-key: /run/tls/bookie.key
bookie-tls-hostname-verification: "true"
metadata-store-tls-trust-certificates: /run/tls/zookeeper-ca.pem
metadata-store-tls-certificate: /run/tls/zookeeper.pem
metadata-store-tls-key: /run/tls/zookeeper.key
metadata-store-tls-hostname-verification: false
metadata-store-login-file: /run/secrets/zookeeper-login
metadata-store-login-scheme: digest
metadata-store-node-rights: open
tls-listen: 127.0.0.1:7002
tls-certificate: /run/tls/server.pem
tls-key: /run/tls/server.key
tls-trust-certificates: /run/tls/clients.pem
advertised-listeners: "external:pulsar://out:6650,external:pulsar+ssl://out:6651"
bind-addresses: ["external:pulsar+ssl://0.0.0.0:6661"]
peer-tls-trust-certificates: /run/tls/peers.pem
topics: [orders]
cursors: local
replay-from: 2026-11-21T14:00:00Z
replay-to: "2026-11-21T16:00:00.5+01:00"
replay-speed: 2.5
replay-loop: true
""")
    config = make_config(read_config_file(file), {})
    assert config.bookkeeper_metadata_url == MetadataUrl(StoreKind.OXIA, "oxia:6648", "bookkeeper")
    assert config.metadata_url == MetadataUrl(StoreKind.ZOOKEEPER, "a:2181,b:2182", "/chroot")
    assert config.service_urls == ("pulsar+ssl://writer:6651", "pulsar+ssl://other")
    assert config.admin_urls == ("https://admin:8443", "https://[::1]:8443")
    folder = Path("/run/tls")
    assert config.broker_tls == TlsFiles(
        "broker-tls",
        folder / "writer-ca.pem",
        folder / "writer.pem",
        folder / "writer.key",
        hostname_verification=False,
    )
    assert config.bookie_tls == TlsFiles(
        "bookie-tls", folder / "bookie-ca.pem", folder / "bookie.pem", folder / "bookie.key"
    )
    zookeeper = (folder / "zookeeper-ca.pem", folder / "zookeeper.pem", folder / "zookeeper.key")
    assert config.metadata_security == StoreSecurity(
        TlsFiles("metadata-store-tls", *zookeeper, hostname_verification=False),
        Path("/run/secrets/zookeeper-login"),
        LoginScheme.DIGEST,
        NodeRights.OPEN,
    )
    assert config.tls == TlsFiles("tls", folder / "clients.pem", folder / "server.pem", folder / "server.key")
    assert config.http_files == TlsFiles("tls", None, folder / "server.pem", folder / "server.key")
    assert config.http_peers == TlsFiles("peer-tls", folder / "peers.pem")
    assert config.peer_tls == TlsFiles("peer-tls", folder / "peers.pem", folder / "server.pem", folder / "server.key")
    assert config.replay == ReplaySettings(1_795_269_600_000, 1_795_273_200_500, 2.5, True)


@pytest.mark.parametrize("key", ["metadata-store-url", "service-url", "admin-url"])
def test_what_is_missing_is_named_with_both_ways_to_give_it(key):
    settings = {name: value for name, value in REQUIRED.items() if name != key}
    with pytest.raises(ConfigError, match=f"{key} is missing: give it as --{key} or as {key} in the file of --config"):
        make_config({}, settings)


@pytest.mark.parametrize("topics", [{}, {"topics": []}])
def test_a_broker_without_topics_is_told_so(topics):
    settings = {name: value for name, value in REQUIRED.items() if name != "topics"}
    with pytest.raises(ConfigError, match="topics is missing: give --topics PATTERN, or --bindings FILE"):
        make_config(topics, settings)
    assert make_config(topics, {**settings, "bindings": "b.yaml"}).bindings == Path("b.yaml")


TIERED_KEYS = (
    "read-priority, endpoint, region, bucket, credentials-file, filesystem-root, read-size, cache-size, request-timeout"
)
INSIDE = [
    ("advertised-listeners", "pulsar://me:1", f"must be {LISTENER}, not 'pulsar://me:1'"),
    ("tiered-storage", {"buckets": "b"}, f"unknown key 'buckets'; the nearest is bucket; known are {TIERED_KEYS}"),
    ("tiered-storage", {"cache-size": "lots"}, "cache-size: must be a size such as 64MiB or 1GiB, not 'lots'"),
    (
        "tiered-storage",
        "{read-priority: fastest}",
        "read-priority: must be one of tiered-storage-first, bookkeeper-first, not 'fastest'",
    ),
    (
        "dispatch-rate-per-broker",
        {"message": 5},
        "unknown key 'message'; the nearest is messages; known are messages, bytes",
    ),
    ("dispatch-rate-per-subscription", {"messages": -1}, "messages: must be a whole number, 0 for no limit, not -1"),
    ("dispatch-rate-per-subscription", "{bytes: 5MB}", "bytes: must be a size such as 64MiB or 1GiB, not '5MB'"),
]


@pytest.mark.parametrize(("key", "value", "says"), INSIDE)
def test_an_invalid_part_of_a_value_is_shown_with_its_option(key, value, says):
    with pytest.raises(ConfigError) as error:
        make_config({}, {**REQUIRED, key: value})
    assert str(error.value) == f"--{key}: {says}"
    with pytest.raises(ConfigError) as error:
        make_config({**REQUIRED, key: value}, {})
    assert str(error.value) == f"{key} in the file of --config: {says}"


BEGIN = "2026-11-21T14:00:00Z"
LATER = "2026-11-21T15:00:00Z"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"replay-to": BEGIN}, "replay-from is missing: replay-to needs it"),
        ({"replay-speed": "5"}, "replay-from is missing: replay-speed needs it"),
        ({"replay-from": BEGIN, "replay-loop": True}, "replay-to is missing: replay-loop needs it"),
        (
            {"replay-from": BEGIN, "replay-to": LATER, "replay-loop": True, "replay-speed": "unlimited"},
            "replay-speed: must be a number with replay-loop, not unlimited",
        ),
        (
            {"replay-from": BEGIN, "replay-to": BEGIN},
            "replay-to: must be later than replay-from, 2026-11-21T14:00:00.000Z, not 2026-11-21T14:00:00.000Z",
        ),
        (
            {"replay-from": BEGIN, "cursors": "owner"},
            "cursors: owner is not possible with replay-from: a replay has cursors of its own; leave cursors out",
        ),
        (
            {"replay-from": BEGIN, "tail": "owner"},
            "tail: owner is not possible with replay-from: a replay reads from storage; leave tail out",
        ),
        (
            {"replay-from": BEGIN, "lookup-unbound": "proxy"},
            (
                "lookup-unbound: proxy is not possible with replay-from: a replay refuses topics that are not bound to it; "
                "leave lookup-unbound out"
            ),
        ),
    ],
)
def test_options_that_contradict_a_replay_are_refused(given, says):
    with pytest.raises(ConfigError) as error:
        make_config({}, {**REQUIRED, **given})
    assert str(error.value) == says


def test_the_speed_of_a_replay_may_be_unlimited_and_is_that_of_the_messages_by_default():
    replays = [
        make_config({}, {**REQUIRED, "replay-from": BEGIN, **more}).replay
        for more in ({}, {"replay-speed": "unlimited"})
    ]
    assert [one.speed for one in replays] == [1.0, float("inf")]
    assert make_config({}, REQUIRED).replay is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pol: red", "unknown key 'pol'; the nearest is pool; known are metadata-store-url, service-url,"),
        ("metadata_store: zk:a:1", "unknown key 'metadata_store'"),
        ("5: red", "unknown key '5'"),
        ("- pool", "must be a mapping of settings"),
        ("pool", "must be a mapping of settings"),
        ("pool: [", "is not YAML"),
        ("pool: 0000-00-00", "is not YAML"),
        ("[" * 1100, "is not YAML"),
        ("\udcff", "is not YAML"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, text, says):
    file = tmp_path / "engine.yaml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError) as error:
        read_config_file(file)
    assert str(error.value).startswith(f"--config {file}")
    assert says in str(error.value)


def test_a_file_of_a_newer_version_may_have_keys_that_this_one_ignores(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text(
        "{unknown-keys: warn, pool: red, colour: red, 5: red, dispatch-rate-per-broker: {acks: 5}, "
        "tiered-storage: {bucket: b, colour: red}}"
    )
    ignored: list[str] = []
    settings = read_config_file(file, ignored.append)
    assert settings == {"unknown-keys": "warn", "pool": "red", "tiered-storage": {"bucket": "b"}}
    assert ignored == ["colour", "5", "dispatch-rate-per-broker.acks", "tiered-storage.colour"]
    assert make_config(settings, REQUIRED).pool == "red"
    file.write_text("{unknown-keys: warn, pool: [red]}")
    with pytest.raises(ConfigError, match="pool in the file of --config"):
        make_config(read_config_file(file), REQUIRED)


def test_an_empty_file_has_no_settings(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text("# nothing\n")
    assert read_config_file(file) == {}
