from __future__ import annotations

import re
from pathlib import Path

import pytest
from readonly_engine.broker.bindings import Unbound
from readonly_engine.broker.dispatch.rate import DispatchRate
from readonly_engine.broker.limits import LimitSettings
from readonly_engine.broker.listeners import BindAddress, Urls
from readonly_engine.config import KEYS, Address, ConfigError, make_config, read_config_file
from readonly_engine.tiered.config import TieredConfig
from readonly_engine.tls import TlsFiles

REQUIRED = {
    "metadata-store": "zk:127.0.0.1:2181",
    "writer-url": "pulsar://127.0.0.1:6650",
    "admin-url": "http://127.0.0.1:8080",
    "topics": ["orders"],
}


def test_defaults():
    config = make_config({}, REQUIRED)
    assert (config.listen, config.http) == (Address("0.0.0.0", 6650), Address("0.0.0.0", 8080))
    assert (config.pool, config.cache_size, config.bindings, config.advertised_url) == ("default", 256 << 20, None, "")
    assert (config.log_level, config.log_format) == ("info", "text")
    assert (config.writer_urls, config.admin_urls) == (("pulsar://127.0.0.1:6650",), ("http://127.0.0.1:8080",))
    assert (config.tls, config.writer_tls, config.bookie_tls, config.admin_token_file) == (None, None, None, None)


@pytest.mark.parametrize("url", [{"writer-url": "pulsar+ssl://w"}, {"admin-url": "https://a"}])
def test_tls_to_the_writable_cluster_needs_no_files(url):
    assert make_config({}, {**REQUIRED, **url}).writer_tls == TlsFiles("writer-tls")


def test_one_setting_of_tls_to_bookies_turns_it_on():
    given = {**REQUIRED, "bookie-tls-trust-certificates": "/ca"}
    assert make_config({}, given).bookie_tls == TlsFiles("bookie-tls", Path("/ca"))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tls-listen": "h:1"}, "tls-certificate and tls-key are missing: tls-listen needs them"),
        ({"tls-listen": "h:1", "tls-key": "/k"}, "tls-certificate is missing: tls-key needs it"),
        ({"tls-listen": "h:1", "tls-certificate": "/c"}, "tls-key is missing: tls-certificate needs it"),
        ({"writer-tls-certificate": "/c"}, "writer-tls-key is missing: writer-tls-certificate needs it"),
        ({"bookie-tls-key": "/k"}, "bookie-tls-certificate is missing: bookie-tls-key needs it"),
        (
            {"tls-certificate": "/c", "tls-key": "/k"},
            "tls-certificate is given without tls-listen: nothing would use it",
        ),
        ({"tls-trust-certificates": "/c"}, "tls-trust-certificates is given without tls-listen"),
        ({"peer-tls-trust-certificates": "/c"}, "peer-tls-trust-certificates is given without tls-listen"),
        ({"advertised-tls-url": "pulsar+ssl://h"}, "advertised-tls-url is given without tls-listen"),
        ({"bind-addresses": "a:pulsar://h:1"}, "bind-addresses: a:pulsar://h:1: its clients could be sent nowhere"),
        (
            {"bind-addresses": "a:pulsar+ssl://h:1", "advertised-listeners": "a:pulsar+ssl://h:1"},
            "tls-listen is missing: bind-addresses with pulsar+ssl:// use its certificate",
        ),
        (
            {"writer-tls-trust-certificates": "/c"},
            "writer-tls-trust-certificates is given without a writer-url of pulsar+ssl:// or an admin-url of https://",
        ),
    ],
)
def test_settings_of_tls_that_do_not_go_together(settings, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        make_config({}, {**REQUIRED, **settings})


def test_every_setting_can_be_given_in_the_file(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text("""
metadata-store: zk:a:2181,b:2182/chroot
writer-url: pulsar+ssl://writer:6651,other/
admin-url: https://admin:8443,[::1]:8443
listen: 127.0.0.1:7000
http: "[::1]:7001"
advertised-url: pulsar://me:7000
writer-tls-trust-certificates: /run/tls/writer-ca.pem
writer-tls-certificate: /run/tls/writer.pem
writer-tls-key: /run/tls/writer.key
writer-tls-verify-hostname: false
admin-token-file: /run/secrets/token
bookie-tls-trust-certificates: /run/tls/bookie-ca.pem
bookie-tls-certificate: /run/tls/bookie.pem
bookie-tls-key: /run/tls/bookie.key
bookie-tls-verify-hostname: "true"
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
lookup-unbound: proxy
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
""")
    settings = read_config_file(file)
    assert set(settings) == set(KEYS)
    config = make_config(settings, {})
    assert config.zookeeper_hosts == "a:2181,b:2182/chroot"
    assert config.writer_urls == ("pulsar+ssl://writer:6651", "pulsar+ssl://other")
    assert config.admin_urls == ("https://admin:8443", "https://[::1]:8443")
    folder = Path("/run/tls")
    assert config.writer_tls == TlsFiles(
        "writer-tls", folder / "writer-ca.pem", folder / "writer.pem", folder / "writer.key", verify_hostname=False
    )
    assert config.bookie_tls == TlsFiles(
        "bookie-tls", folder / "bookie-ca.pem", folder / "bookie.pem", folder / "bookie.key"
    )
    assert config.tls == TlsFiles("tls", folder / "clients.pem", folder / "server.pem", folder / "server.key")
    assert config.advertised_listeners == {"external": Urls("pulsar://out:6650", "pulsar+ssl://out:6651")}
    assert config.bind_addresses == (BindAddress("external", tls=True, host="0.0.0.0", port=6661),)
    assert (config.tls_listen, config.advertised_tls_url) == (("127.0.0.1", 7002), "pulsar+ssl://me:7002")
    assert config.admin_token_file == Path("/run/secrets/token")
    assert (config.listen, config.http) == (("127.0.0.1", 7000), ("::1", 7001))
    assert config.topics == ("orders", "persistent://a/b/.*")
    assert config.limits == LimitSettings(
        connections=1000,
        connections_per_ip=100,
        consumers_per_topic=50,
        consumers_per_subscription=10,
        buffered_bytes=1 << 30,
    )
    assert config.lookup_unbound is Unbound.PROXY
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


def test_flags_win_over_the_file():
    config = make_config({**REQUIRED, "pool": "red", "cache-size": "1GiB"}, {"pool": "blue", "topics": ["payments"]})
    assert (config.pool, config.topics, config.cache_size) == ("blue", ("payments",), 1 << 30)


@pytest.mark.parametrize("key", ["metadata-store", "writer-url", "admin-url"])
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


WRONG = [
    ("metadata-store", "127.0.0.1:2181", "'127.0.0.1:2181' would be zk:HOST:PORT[,HOST:PORT...][/chroot]"),
    ("metadata-store", "zk:host", "would be zk:HOST:PORT"),
    ("metadata-store", "zk:a:1,b", "would be zk:HOST:PORT"),
    ("metadata-store", "zk:a:1/with space", "would be zk:HOST:PORT"),
    ("metadata-store", "", "must be a text"),
    ("metadata-store", 5, "must be a text"),
    (
        "writer-url",
        "http://host:6650",
        "'http://host:6650' would be pulsar://HOST:PORT[,HOST:PORT...] or pulsar+ssl://",
    ),
    ("writer-url", "pulsar://a:1,pulsar://b:1", "would be pulsar://HOST:PORT"),
    ("writer-url", "pulsar://a:1,", "would be pulsar://HOST:PORT"),
    ("writer-url", "pulsar://host:port", "would be pulsar://HOST:PORT"),
    ("writer-url", "pulsar://host:99999", "would be pulsar://HOST:PORT"),
    ("writer-url", "pulsar://", "would be pulsar://HOST:PORT"),
    ("writer-url", "pulsar://host:6650/path", "would be pulsar://HOST:PORT"),
    ("admin-url", "host:8080", "'host:8080' would be http://HOST:PORT"),
    ("admin-url", None, "must be a text"),
    ("writer-tls-trust-certificates", "", "must be a text"),
    ("writer-tls-certificate", True, "must be a text"),
    ("writer-tls-key", 5, "must be a text"),
    ("writer-tls-verify-hostname", "yes", "'yes' would be true or false"),
    ("admin-token-file", [], "must be a text"),
    ("bookie-tls-trust-certificates", "", "must be a text"),
    ("bookie-tls-certificate", True, "must be a text"),
    ("bookie-tls-key", 5, "must be a text"),
    ("bookie-tls-verify-hostname", 1.5, "1.5 would be true or false"),
    ("tls-listen", "6651", "'6651' would be HOST:PORT"),
    ("tls-certificate", "", "must be a text"),
    ("tls-key", None, "must be a text"),
    ("tls-trust-certificates", "", "must be a text"),
    ("peer-tls-trust-certificates", "", "must be a text"),
    ("advertised-tls-url", "pulsar://me:6651", "'pulsar://me:6651' would be pulsar+ssl://HOST:PORT"),
    ("advertised-url", "me:6650", "'me:6650' would be pulsar://HOST:PORT"),
    ("advertised-listeners", "pulsar://me:1", "'pulsar://me:1' would be NAME:pulsar://HOST:PORT"),
    ("advertised-listeners", 5, "must be a list of texts NAME:pulsar://HOST:PORT"),
    ("bind-addresses", [6660], "must be a list of texts NAME:pulsar://HOST:PORT"),
    ("listen", "6650", "'6650' would be HOST:PORT"),
    ("listen", ":6650", "would be HOST:PORT"),
    ("listen", "host:", "would be HOST:PORT"),
    ("listen", "host:65536", "would be HOST:PORT"),
    ("http", "host:http", "'host:http' would be HOST:PORT"),
    ("http", 8080, "must be a text"),
    ("topics", "orders", "must be a list of topics or patterns"),
    ("topics", ["orders", 5], "must be a list of topics or patterns"),
    ("topics", [""], "must be a list of topics or patterns"),
    ("topics", None, "must be a list of topics or patterns"),
    ("bindings", ["a"], "must be a text"),
    ("lookup-unbound", "Proxy", "'Proxy' would be one of redirect, proxy, reject"),
    ("pool", "", "must be a text"),
    ("pool-uid", "", "must be a text"),
    ("locality", "rack-1", "'rack-1' would be /RACK or /ZONE/RACK"),
    ("locality", "/a//b", "'/a//b' would be /RACK or /ZONE/RACK"),
    ("locality-file", "", "must be a text"),
    ("cache-size", "9" * 5000, "would be a size as 64MiB or 1GiB"),
    ("listen", "host:" + "9" * 5000, "would be HOST:PORT"),
    ("cache-size", "lots", "'lots' would be a size as 64MiB or 1GiB"),
    ("cache-size", "64MB", "would be a size"),
    ("cache-size", -1, "would be a size"),
    ("cache-size", True, "would be a size"),
    ("tiered-storage", "{read-priority: fastest", "would be a mapping as"),
    ("tiered-storage", "s3", "must be a mapping with keys of read-priority, endpoint"),
    ("tiered-storage", {"buckets": "b"}, "unknown key 'buckets'; known are read-priority, endpoint"),
    ("tiered-storage", {"cache-size": "lots"}, "cache-size: 'lots' would be a size as 64MiB or 1GiB"),
    ("tiered-storage", "{read-priority: fastest}", "read-priority: 'fastest' would be one of tiered-storage-first"),
    ("dispatch-rate-per-broker", "{messages: 5", "would be a mapping of what a second allows, as {messages: 1000"),
    ("dispatch-rate-per-broker", 1000, "would be a mapping of what a second allows"),
    ("dispatch-rate-per-broker", {"message": 5}, "would be a mapping of what a second allows"),
    ("dispatch-rate-per-subscription", {"messages": -1}, "messages: -1 would be a number of messages a second"),
    ("dispatch-rate-per-subscription", "{bytes: 5MB}", "bytes: '5MB' would be a size as 64MiB or 1GiB"),
    ("max-connections", "many", "'many' would be a number, 0 for no limit"),
    ("max-connections-per-ip", -1, "-1 would be a number, 0 for no limit"),
    ("max-consumers-per-topic", True, "True would be a number, 0 for no limit"),
    ("max-consumers-per-subscription", 1.5, "1.5 would be a number, 0 for no limit"),
    ("max-buffered-bytes", "1GB", "'1GB' would be a size as 64MiB or 1GiB"),
    ("workers", 0, "0 would be a number from 1 to 64, best that of the cores"),
    ("workers", "all", "'all' would be a number from 1 to 64"),
    ("log-level", "loud", "'loud' would be one of debug, info, warning, error"),
    ("log-format", "xml", "'xml' would be one of text, json"),
]


@pytest.mark.parametrize(("key", "value", "says"), WRONG)
def test_a_wrong_value_is_named_with_where_it_stands_and_what_would_be_right(key, value, says):
    with pytest.raises(ConfigError) as error:
        make_config({}, {**REQUIRED, key: value})
    assert str(error.value).startswith(f"--{key}: ")
    assert says in str(error.value)
    with pytest.raises(ConfigError) as error:
        make_config({**REQUIRED, key: value}, {})
    assert str(error.value).startswith(f"{key} in the file of --config: ")


def test_every_setting_has_an_error_of_its_own():
    assert {key for key, _, _ in WRONG} == set(KEYS)


@pytest.mark.parametrize(
    ("text", "size"), [(1024, 1024), ("1024", 1024), ("3B", 3), ("2KiB", 2048), ("64MiB", 64 << 20)]
)
def test_sizes(text, size):
    assert make_config({}, {**REQUIRED, "cache-size": text}).cache_size == size


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pol: red", "unknown key 'pol'; known are metadata-store, writer-url,"),
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


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.yaml: No such file or directory"):
        read_config_file(tmp_path / "gone.yaml")


def test_an_empty_file_has_no_settings(tmp_path):
    file = tmp_path / "engine.yaml"
    file.write_text("# nothing\n")
    assert read_config_file(file) == {}
