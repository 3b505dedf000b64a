import re
from pathlib import Path

import pytest
from readonly_engine.config.kinds import Address
from readonly_engine.config.limits import DispatchRate, LimitSettings
from readonly_engine.config.listeners import BindAddress, Urls
from readonly_engine.config.option import ConfigError, keys_of
from readonly_engine.config.reader import make_config, read_config_file
from readonly_engine.config.replay import ReplaySettings
from readonly_engine.config.settings import Cursors, EngineConfig, Tail, Unbound
from readonly_engine.config.tiered import TieredConfig
from readonly_engine.metadata.security import LoginScheme, NodeRights, StoreSecurity
from readonly_engine.metadata.url import FORMS, MetadataUrl, StoreKind
from readonly_engine.net.tls import TlsFiles

KEYS = keys_of(EngineConfig)
REQUIRED = {
    "metadata-store-url": "zk:127.0.0.1:2181",
    "service-url": "pulsar://127.0.0.1:6650",
    "admin-url": "http://127.0.0.1:8080",
    "topics": ["orders"],
}


def test_defaults():
    config = make_config({}, REQUIRED)
    assert (config.listen, config.http) == (Address("*", 6650), Address("*", 8080))
    assert (config.pool, config.cache_size, config.bindings, config.advertised_url) == ("default", 256 << 20, None, "")
    assert (config.log_level, config.log_format) == ("info", "text")
    assert (config.service_urls, config.admin_urls) == (("pulsar://127.0.0.1:6650",), ("http://127.0.0.1:8080",))
    assert (config.tls, config.broker_tls, config.bookie_tls, config.admin_token_file) == (None, None, None, None)


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
        (
            {"metadata-store-tls-key": "/k"},
            "metadata-store-tls-certificate is missing: metadata-store-tls-key needs it",
        ),
        (
            {"metadata-store-login-scheme": "digest"},
            "metadata-store-login-file is missing: metadata-store-login-scheme needs it",
        ),
        (
            {"metadata-store-node-rights": "creator"},
            "metadata-store-login-file is missing: metadata-store-node-rights creator needs it",
        ),
        ({"bookie-tls-key": "/k"}, "bookie-tls-certificate is missing: bookie-tls-key needs it"),
        (
            {"tls-certificate": "/c", "tls-key": "/k"},
            "tls-certificate is given without tls-listen: it has no effect",
        ),
        ({"tls-trust-certificates": "/c"}, "tls-trust-certificates is given without tls-listen"),
        (
            {"admin-token-file": "/t", "admin-oauth2": "{issuer-url: 'https://i', key-file: /k}"},
            "admin-oauth2 and admin-token-file exclude each other: give one of them",
        ),
        ({"admin-oauth2": "{key-file: /k}"}, "admin-oauth2: issuer-url is missing: give https://HOST[/PATH]"),
        ({"admin-oauth2": "{issuer-url: 'https://i?a=b', key-file: /k}"}, "admin-oauth2: issuer-url: must be https://"),
        ({"admin-oauth2": "{issuer-url: 'https://u:p@i', key-file: /k}"}, "admin-oauth2: issuer-url: must be https://"),
        (
            {"admin-oauth2": "{issuer-url: 'https://i'}"},
            "admin-oauth2: key-file is missing: give it, or client-id-file",
        ),
        (
            {"admin-oauth2": "{issuer-url: 'https://i', client-id-file: /i}"},
            "admin-oauth2: key-file is missing: give it, or client-id-file and client-secret-file",
        ),
        (
            {"admin-oauth2": "{issuer-url: 'https://i', key-file: /k, client-id-file: /i}"},
            "admin-oauth2: key-file and client-id-file exclude each other",
        ),
        ({"peer-tls-trust-certificates": "/c"}, "peer-tls-trust-certificates is given without tls-listen"),
        ({"advertised-tls-url": "pulsar+ssl://h"}, "advertised-tls-url is given without tls-listen"),
        ({"bind-addresses": "a:pulsar://h:1"}, "bind-addresses: a:pulsar://h:1: listener a has no pulsar:// URL"),
        (
            {"bind-addresses": "a:pulsar+ssl://h:1", "advertised-listeners": "a:pulsar+ssl://h:1"},
            "tls-listen is missing: bind-addresses with pulsar+ssl:// use its certificate",
        ),
        (
            {"broker-tls-trust-certificates": "/c"},
            "broker-tls-trust-certificates is given without a service-url of pulsar+ssl:// or an admin-url of https://",
        ),
    ],
)
def test_settings_of_tls_that_do_not_go_together(settings, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        make_config({}, {**REQUIRED, **settings})


def test_every_setting_can_be_given_in_the_file(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text("""
metadata-store-url: zk:a:2181,b:2182/chroot
service-url: pulsar+ssl://writer:6651,other/
admin-url: https://admin:8443,[::1]:8443
bookkeeper-metadata-store-url: metadata-store:oxia://oxia:6648/bookkeeper
listen: 127.0.0.1:7000
http: "[::1]:7001"
listen-timeout: 30
advertised-url: pulsar://me:7000
broker-tls-trust-certificates: /run/tls/writer-ca.pem
broker-tls-certificate: /run/tls/writer.pem
broker-tls-key: /run/tls/writer.key
broker-tls-hostname-verification: false
admin-token-file: /run/secrets/token
bookie-tls-trust-certificates: /run/tls/bookie-ca.pem
bookie-tls-certificate: /run/tls/bookie.pem
bookie-tls-key: /run/tls/bookie.key
bookie-tls-hostname-verification: "true"
bookie-login-file: /run/secrets/bookie-login
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
advertised-tls-url: pulsar+ssl://me:7002
advertised-listeners: "external:pulsar://out:6650,external:pulsar+ssl://out:6651"
bind-addresses: ["external:pulsar+ssl://0.0.0.0:6661"]
peer-tls-trust-certificates: /run/tls/peers.pem
topics: [orders, "persistent://a/b/.*"]
bindings: /etc/bindings.yaml
lookup-unbound: reject
tail: auto
cursors: local
cursor-partitions: 32
replay-from: 2026-11-21T14:00:00Z
replay-to: "2026-11-21T16:00:00.5+01:00"
replay-speed: 2.5
pool: red
pool-uid: 3f0e
locality: /zone-a/rack-1
locality-file: /etc/pod/locality
cache-size: 1GiB
tiered-storage:
  read-priority: bookkeeper-first
  bucket: offloaded
  credentials-file: /run/secrets/s3
  read-size: 256KiB
dispatch-rate-per-subscription: {messages: 1000}
dispatch-rate-per-broker: {messages: 5000, bytes: 64MiB}
max-connections: 1000
max-connections-per-ip: "100"
max-consumers-per-topic: 50
max-consumers-per-subscription: 10
max-buffered-bytes: 1GiB
workers: 2
log-level: debug
log-format: json
unknown-keys: reject
""")
    settings = read_config_file(file)
    assert set(settings) == set(KEYS) - {"admin-oauth2"}, "it excludes admin-token-file"
    config = make_config(settings, {})
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
    assert config.bookie_login_file == Path("/run/secrets/bookie-login")
    zookeeper = (folder / "zookeeper-ca.pem", folder / "zookeeper.pem", folder / "zookeeper.key")
    assert config.metadata_security == StoreSecurity(
        TlsFiles("metadata-store-tls", *zookeeper, hostname_verification=False),
        Path("/run/secrets/zookeeper-login"),
        LoginScheme.DIGEST,
        NodeRights.OPEN,
    )
    assert config.tls == TlsFiles("tls", folder / "clients.pem", folder / "server.pem", folder / "server.key")
    assert config.advertised_listeners == {"external": Urls("pulsar://out:6650", "pulsar+ssl://out:6651")}
    assert config.bind_addresses == (BindAddress("external", tls=True, host="0.0.0.0", port=6661),)
    assert (config.tls_listen, config.advertised_tls_url) == (("127.0.0.1", 7002), "pulsar+ssl://me:7002")
    assert config.admin_token_file == Path("/run/secrets/token")
    assert (config.listen, config.http, config.listen_timeout) == (("127.0.0.1", 7000), ("::1", 7001), 30)
    assert config.topics == ("orders", "persistent://a/b/.*")
    assert config.limits == LimitSettings(
        connections=1000,
        connections_per_ip=100,
        consumers_per_topic=50,
        consumers_per_subscription=10,
        buffered_bytes=1 << 30,
    )
    assert config.lookup_unbound is Unbound.REJECT
    assert config.tail is Tail.AUTO
    assert (config.cursors, config.cursor_partitions) == (Cursors.LOCAL, 32)
    assert config.replay == ReplaySettings(1_795_269_600_000, 1_795_273_200_500, 2.5)
    assert (config.bindings, config.pool, config.cache_size) == (Path("/etc/bindings.yaml"), "red", 1 << 30)
    assert config.locality == "/zone-a/rack-1"
    assert config.locality_file == Path("/etc/pod/locality")
    assert config.tiered_storage == TieredConfig(
        read_priority="bookkeeper-first",
        bucket="offloaded",
        credentials_file=Path("/run/secrets/s3"),
        read_size=256 << 10,
    )
    assert config.dispatch_rate_per_subscription == DispatchRate(1000)
    assert config.dispatch_rate_per_broker == DispatchRate(5000, 64 << 20)
    assert (config.advertised_url, config.log_level, config.log_format) == ("pulsar://me:7000", "debug", "json")


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


SERVICE_URL = "pulsar://HOST:PORT[,HOST:PORT...] or pulsar+ssl://HOST:PORT[,HOST:PORT...]"
ADMIN_URL = "http://HOST:PORT[,HOST:PORT...] or https://HOST:PORT[,HOST:PORT...]"
LISTENER = "NAME:pulsar://HOST:PORT or NAME:pulsar+ssl://HOST:PORT"
PLACE = "/RACK or /ZONE/RACK (as in pulsar-admin bookies set-bookie-rack)"
A_TIME = "a time of this millennium with its zone, such as 2026-11-21T14:00:00Z or 2026-11-21T15:00:00+01:00"

MALFORMED = {
    "metadata-store-url": (
        FORMS,
        ["127.0.0.1:2181", "zk:host", "zk:a:1,b", "zk:a:1/with space", "", 5],
    ),
    "service-url": (
        SERVICE_URL,
        [
            "http://host:6650",
            "pulsar://a:1,pulsar://b:1",
            "pulsar://a:1,",
            "pulsar://host:port",
            "pulsar://host:99999",
            "pulsar://",
            "pulsar://host:6650/path",
        ],
    ),
    "bookkeeper-metadata-store-url": (FORMS, ["zk+hierarchical://a:2181/ledgers", "", 5]),
    "admin-url": (ADMIN_URL, ["host:8080", None]),
    "metadata-store-tls-trust-certificates": ("the path of a file", [""]),
    "metadata-store-tls-certificate": ("the path of a file", [True]),
    "metadata-store-tls-key": ("the path of a file", [5]),
    "metadata-store-tls-hostname-verification": ("true or false", ["no"]),
    "metadata-store-login-file": ("the path of a file", [["login"]]),
    "metadata-store-login-scheme": ("one of sasl, digest", ["kerberos", True]),
    "metadata-store-node-rights": ("one of creator, open", ["Creator", []]),
    "broker-tls-trust-certificates": ("the path of a file", [""]),
    "broker-tls-certificate": ("the path of a file", [True]),
    "broker-tls-key": ("the path of a file", [5]),
    "broker-tls-hostname-verification": ("true or false", ["yes", [], None]),
    "admin-token-file": ("the path of a file", [[]]),
    "admin-oauth2": (
        "a mapping such as {issuer-url: 'https://issuer.example.com', key-file: /run/secrets/key.json}",
        ["{}", "token", None],
    ),
    "bookie-tls-trust-certificates": ("the path of a file", [""]),
    "bookie-tls-certificate": ("the path of a file", [True]),
    "bookie-tls-key": ("the path of a file", [5]),
    "bookie-tls-hostname-verification": ("true or false", [1.5]),
    "bookie-login-file": ("the path of a file", [5]),
    "tls-listen": ("HOST:PORT", ["6651"]),
    "tls-certificate": ("the path of a file", [""]),
    "tls-key": ("the path of a file", [None]),
    "tls-trust-certificates": ("the path of a file", [""]),
    "peer-tls-trust-certificates": ("the path of a file", [""]),
    "advertised-tls-url": ("pulsar+ssl://HOST:PORT", ["pulsar://me:6651"]),
    "advertised-url": ("pulsar://HOST:PORT", ["me:6650", "pulsar://a:1,b:1"]),
    "advertised-listeners": (f"a list of texts {LISTENER}", [5, [""]]),
    "bind-addresses": (f"a list of texts {LISTENER}", [[6660], None]),
    "listen": ("HOST:PORT", ["6650", ":6650", "host:", "host:65536"]),
    "http": ("HOST:PORT", ["host:http", 8080]),
    "listen-timeout": ("a number from 0 to 600, 0 to fail at once", [-1, 601, "soon"]),
    "topics": ("a list of topics or patterns", ["orders", ["orders", 5], [""], None]),
    "bindings": ("the path of a file", [["a"]]),
    "lookup-unbound": ("one of redirect, proxy, reject", ["Proxy", []]),
    "tail": ("one of auto, bookies, owner", ["Auto", "both"]),
    "cursors": ("one of owner, local", ["Local", "both"]),
    "cursor-partitions": ("a number from 1 to 1024, best four for each broker of the pool", ["0", "1025", "many"]),
    "replay-from": (
        A_TIME,
        ["2026-11-21", "2026-11-21T14:00:00", "1999-11-21T14:00:00Z", 5, "now"],
    ),
    "replay-to": (A_TIME, ["tomorrow", ""]),
    "replay-speed": (
        "a number from 0.01 to 1000, or unlimited",
        ["0", 0.001, "1001", "-1", "fast", True, "nan", "1e3"],
    ),
    "pool": ("a non-empty text", ["", 5]),
    "pool-uid": ("a non-empty text", [""]),
    "locality": (PLACE, ["rack-1", "/a//b"]),
    "locality-file": ("the path of a file", [""]),
    "cache-size": ("a size such as 64MiB or 1GiB", ["lots", "64MB", -1, True]),
    "tiered-storage": ("a mapping such as {read-priority: bookkeeper-first}", ["{read-priority: fastest", "s3", None]),
    "dispatch-rate-per-broker": ("a mapping such as {messages: 1000, bytes: 10MiB}", ["{messages: 5", 1000, {}]),
    "dispatch-rate-per-subscription": ("a mapping such as {messages: 1000, bytes: 10MiB}", ["{}"]),
    "max-connections": ("a whole number, 0 for no limit", ["many"]),
    "max-connections-per-ip": ("a whole number, 0 for no limit", [-1]),
    "max-consumers-per-topic": ("a whole number, 0 for no limit", [True]),
    "max-consumers-per-subscription": ("a whole number, 0 for no limit", [1.5]),
    "max-buffered-bytes": ("a size such as 64MiB or 1GiB", ["1GB"]),
    "workers": ("a number from 1 to 64, best the number of cores", [0, 65, "all"]),
    "log-level": ("one of debug, info, warning, error", ["loud"]),
    "log-format": ("one of text, json", ["xml"]),
    "unknown-keys": ("one of reject, warn", ["ignore", True]),
}
"""The expected form of each option, and values of another form."""
TIERED_KEYS = (
    "read-priority, endpoint, region, bucket, credentials-file, filesystem-root, read-size, cache-size, request-timeout"
)
INVALID = [
    *(
        (key, value, f"must be {right}, not {value!r}")
        for key, (right, values) in MALFORMED.items()
        for value in values
    ),
    ("replay-from", "2026-13-21T14:00:00Z", f"must be {A_TIME}, not '2026-13-21T14:00:00Z'"),
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


@pytest.mark.parametrize(("key", "value", "says"), INVALID)
def test_an_invalid_value_is_shown_with_its_option_and_the_expected_form(key, value, says):
    with pytest.raises(ConfigError) as error:
        make_config({}, {**REQUIRED, key: value})
    assert str(error.value) == f"--{key}: {says}"
    with pytest.raises(ConfigError) as error:
        make_config({**REQUIRED, key: value}, {})
    assert str(error.value) == f"{key} in the file of --config: {says}"


BEGIN = "2026-11-21T14:00:00Z"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"replay-to": BEGIN}, "replay-from is missing: replay-to needs it"),
        ({"replay-speed": "5"}, "replay-from is missing: replay-speed needs it"),
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


def test_every_option_has_an_error():
    assert set(MALFORMED) == set(KEYS)


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


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.yaml: No such file or directory"):
        read_config_file(tmp_path / "gone.yaml")


def test_an_empty_file_has_no_settings(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text("# nothing\n")
    assert read_config_file(file) == {}
