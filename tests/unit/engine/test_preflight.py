"""What `pulsar-readonly serve` says before it has started anything; with `--check` every mistake that needs no server."""

import socket
import threading

import pytest
from readonly_engine import preflight
from readonly_engine.assembly import COMMIT_VARIABLE, about, published_http_port
from readonly_engine.config.kinds import Address
from readonly_engine.config.option import options_of
from readonly_engine.config.reader import make_config
from readonly_engine.config.settings import EngineConfig
from readonly_engine.listening import advertised_tls_url, advertised_url
from readonly_engine.serve import main
from readonly_engine.workers.plan import worker_config

from devstack.pulsar.security import Credentials
from tests.unit.engine.config.values import REQUIRED

GIVEN = {
    "metadata-store-url": "zk:127.0.0.1:1",
    "service-url": "pulsar://127.0.0.1:1",
    "admin-url": "http://127.0.0.1:1",
    "topics": "persistent://public/default/orders",
    "advertised-url": "pulsar://me:6650",
}


def check(given):
    return main(["--check", *(word for key, value in {**GIVEN, **given}.items() for word in (f"--{key}", str(value)))])


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    credentials = Credentials.make(tmp_path_factory.mktemp("preflight"))
    credentials.certificate("other")
    return credentials.folder


@pytest.fixture
def files(tmp_path, pem):
    """Files by name: good ones, and broken ones."""
    (tmp_path / "token").write_text("t0ken\n")
    (tmp_path / "login").write_text("user:pa55word\n")
    (tmp_path / "login-without-password").write_text("user-pa55word\n")
    (tmp_path / "bindings.yaml").write_text("{revision: a, bindings: [{name: a, topics: [orders]}]}")
    (tmp_path / "no-revision.yaml").write_text("{bindings: []}")
    (tmp_path / "rack").write_text("/zone/rack\n")
    (tmp_path / "no-rack").write_text("rack\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "key.json").write_text('{"client_id": "a", "client_secret": "pa55word"}')
    return lambda name: pem / name if name.endswith((".pem", ".key")) else tmp_path / name


@pytest.fixture
def offline(monkeypatch):
    """No connection and no listener may be made."""

    def refuse(*_):
        raise AssertionError("a socket was used")

    for name in ("connect", "connect_ex", "bind", "listen"):
        monkeypatch.setattr(socket.socket, name, refuse, raising=True)
    before = threading.active_count()
    yield
    assert threading.active_count() == before, "a client was started"


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"metadata-store-url": "oxia://127.0.0.1:1/ns"},
        {"tls-listen": "127.0.0.1:6651", "advertised-tls-url": "pulsar+ssl://me:6651", "tls-certificate": "@broker.pem",
         "tls-key": "@broker.key", "tls-trust-certificates": "@ca.pem", "peer-tls-trust-certificates": "@ca.pem"},
        {"metadata-store-tls-trust-certificates": "@ca.pem", "metadata-store-login-file": "@login"},
        {"bookie-login-file": "@login"},
        {"admin-token-file": "@token", "bindings": "@bindings.yaml", "locality-file": "@rack"},
        {"locality-file": "@not-written-yet"},
        {"locality-file": "@empty"},
        {"workers": "2"},
        {"listen": "127.0.0.1:6650", "http": "127.0.0.2:6650"},
        {"listen": "0.0.0.0:6650", "http": "[::1]:6650"},
        {"listen": "127.0.0.1:0", "http": "127.0.0.1:0"},
    ],
)  # fmt: skip
def test_a_valid_configuration_is_said_to_be_valid(given, files, capsys):
    given = {key: files(value[1:]) if value.startswith("@") else value for key, value in given.items()}
    assert check(given) == 0
    out, err = capsys.readouterr()
    assert out == "pulsar-readonly serve: the configuration is valid; no server was asked\n"
    assert err == ""


MISTAKES = [
    ({"cache-size": "lots"}, 2, "--cache-size: must be a size"),
    ({"workers": "2", "http": "127.0.0.1:6750"}, 2, "workers: two processes need port 6750"),
    ({"listen": "127.0.0.1:8080"}, 1, "--http *:8080: --listen has port 8080 too"),
    ({"listen": "0.0.0.0:6650", "http": "127.0.0.1:6650"}, 1, "--http 127.0.0.1:6650: --listen has port 6650 too"),
    ({"listen": "[::]:6650", "http": "[::1]:6650"}, 1, "--http [::1]:6650: --listen has port 6650 too"),
    ({"listen": "[::1]:6650", "http": "[::1]:6650"}, 1, "--http [::1]:6650: --listen has port 6650 too"),
    ({"tls-listen": "*:6650", "tls-certificate": "@broker.pem", "tls-key": "@broker.key", "advertised-tls-url": "pulsar+ssl://me:1"},
     1, "--tls-listen *:6650: --listen has port 6650 too"),
    ({"advertised-listeners": "a:pulsar://a:1", "bind-addresses": "a:pulsar://127.0.0.1:8080"}, 1,
     "--bind-addresses 127.0.0.1:8080: --http has port 8080 too"),
    ({"tls-listen": "127.0.0.1:6651"}, 2, "tls-certificate and tls-key are missing"),
    ({"topics": "orders-.*"}, 1, "--topics: 'orders-.*' is not a topic pattern"),
    ({"tls-listen": "*:6651", "tls-certificate": "@broker.pem", "tls-key": "@broker.key"}, 1, "--advertised-tls-url is missing"),
    ({"tls-listen": "127.0.0.1:6651", "tls-certificate": "@broker.pem", "tls-key": "@other.key"}, 1,
     "--tls-certificate and tls-key: "),
    ({"service-url": "pulsar+ssl://a:1", "broker-tls-trust-certificates": "@gone.pem"}, 1, "--broker-tls-trust-certificates: "),
    ({"bookie-tls-trust-certificates": "@broker.key"}, 1, "--bookie-tls-trust-certificates: "),
    ({"bookie-login-file": "@login-without-password"}, 1, "--bookie-login-file: "),
    ({"metadata-store-login-file": "@gone"}, 1, "--metadata-store-login-file: "),
    ({"metadata-store-tls-trust-certificates": "@gone.pem"}, 1, "--metadata-store-tls-trust-certificates: "),
    ({"metadata-store-url": "oxia://a:1", "metadata-store-login-file": "@login"}, 1,
     "--metadata-store-login-file: a login is of ZooKeeper"),
    ({"bookkeeper-metadata-store-url": "oxia://a:1", "metadata-store-login-file": "@login"}, 1, "--metadata-store-login-file: "),
    ({"admin-token-file": "@empty"}, 1, "--admin-token-file: "),
    ({"http": "127.0.0.1:8081", "http-token-file": "@empty"}, 1, "--http-token-file: "),
    ({"admin-oauth2": "{issuer-url: 'https://i', key-file: /gone/key.json}"}, 1, "--admin-oauth2: "),
    ({"bindings": "@no-revision.yaml"}, 1, "--bindings: bindings file "),
    ({"bindings": "@gone"}, 1, "--bindings: bindings file "),
    ({"locality-file": "@no-rack"}, 1, "--locality-file: "),
    ({"tiered-storage": "{credentials-file: /gone/credentials}"}, 1, "--tiered-storage: credentials-file /gone/credentials"),
    ({"tiered-storage": "{filesystem-root: /gone/root}"}, 1, "--tiered-storage: filesystem-root /gone/root must be a folder"),
]  # fmt: skip


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(("given", "status", "says"), MISTAKES)
def test_a_mistake_is_one_line_that_names_the_option(given, status, says, files, capsys):
    given = {key: files(value[1:]) if value.startswith("@") else value for key, value in given.items()}
    assert check(given) == status
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"pulsar-readonly serve: {says}")
    assert "pa55word" not in line


def test_every_option_with_a_file_has_a_mistake_here():
    tried = {key for given, *_ in MISTAKES for key, value in given.items() if "gone" in value or "@" in value}
    covered_with = {
        "metadata-store-tls-certificate": "metadata-store-tls-trust-certificates",
        "metadata-store-tls-key": "metadata-store-tls-trust-certificates",
        "broker-tls-certificate": "broker-tls-trust-certificates",
        "broker-tls-key": "broker-tls-trust-certificates",
        "bookie-tls-certificate": "bookie-tls-trust-certificates",
        "bookie-tls-key": "bookie-tls-trust-certificates",
        "tls-trust-certificates": "tls-certificate",
        "peer-tls-trust-certificates": "tls-certificate",
    }
    files = {one.key for one in options_of(EngineConfig) if one.kind.form == "FILE"}
    assert {key for key in files if covered_with.get(key, key) not in tried} == set()


@pytest.mark.usefixtures("offline")
def test_keys_of_a_newer_version_are_named_and_do_no_harm(tmp_path, capsys):
    file = tmp_path / "engine.yaml"
    file.write_text("{unknown-keys: warn, colour: red}")
    assert check({"config": file}) == 0
    assert "unknown key 'colour'" in capsys.readouterr().err


def test_without_the_option_nothing_is_checked_twice(monkeypatch, capsys):
    monkeypatch.setattr(preflight, "check", lambda _: pytest.fail("checked without --check"))
    assert main([word for key, value in {**GIVEN, "topics": "a-.*"}.items() for word in (f"--{key}", value)]) == 1
    assert "--topics" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"listen": "127.0.0.1:7000"}, "pulsar://127.0.0.1:7000"),
        ({"advertised-url": "pulsar://me:1", "listen": "0.0.0.0:7000"}, "pulsar://me:1"),
    ],
)
def test_where_clients_are_sent(settings, url):
    assert advertised_url(make_config(REQUIRED, settings)) == url


LISTENING = {**REQUIRED, "listen": "127.0.0.1:6650", "tls-certificate": "/c", "tls-key": "/k"}


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (REQUIRED, ""),
        ({**LISTENING, "tls-listen": "127.0.0.1:6651"}, "pulsar+ssl://127.0.0.1:6651"),
        ({**LISTENING, "tls-listen": "0.0.0.0:6651", "advertised-tls-url": "pulsar+ssl://me:1"}, "pulsar+ssl://me:1"),
    ],
)
def test_where_clients_with_tls_are_sent(settings, url):
    assert advertised_tls_url(make_config({}, settings)) == url


def test_ignored_keys_of_the_file_are_in_the_log(tmp_path, monkeypatch, caplog):
    file = tmp_path / "engine.yaml"
    file.write_text("{unknown-keys: warn, colour: red, topics: [orders-(]}")
    monkeypatch.setattr("readonly_engine.serve.set_up_logging", lambda *_: None)
    required = {"--metadata-store-url": "zk:127.0.0.1:1", "--service-url": "pulsar://a:1", "--admin-url": "http://a:1"}
    flags = [word for pair in required.items() for word in pair]
    assert main(["--config", str(file), *flags, "--advertised-url", "pulsar://a:1"]) == 1
    assert [record.getMessage() for record in caplog.records if "unknown key" in record.getMessage()] == [
        "unknown key in the file of --config is ignored; a newer version has it: key=colour"
    ]


@pytest.mark.parametrize(
    ("host", "url", "port"),
    [
        ("*", "pulsar://orders-0:6650", 8080),
        ("10.0.0.1", "pulsar://orders-0:6650", 8080),
        ("127.0.0.1", "pulsar://orders-0:6650", 0),
        ("localhost", "pulsar://orders-0:6650", 0),
        ("127.0.0.1", "pulsar://127.0.0.1:6650", 8080),
        ("::1", "pulsar://[::1]:6650", 8080),
    ],
)
def test_a_status_page_is_published_where_others_reach_it(host, url, port):
    assert published_http_port(Address(host, 8080), url) == port


@pytest.mark.parametrize(("commit", "known"), [("0123abcd", "0123abcd"), ("", ""), ("<b>", ""), ("HEAD", "")])
def test_the_commit_is_known_if_the_image_names_it(monkeypatch, commit, known):
    monkeypatch.setenv(COMMIT_VARIABLE, commit)
    monkeypatch.setattr("readonly_engine.assembly.built_commit", lambda: "")
    config = make_config(REQUIRED, {"workers": 4})
    assert about(config, None) == ("pulsar://127.0.0.1:6650", "zk:127.0.0.1:2181", known, -1, 1)
    assert about(worker_config(config, 2), config)[2:] == (known, 2, 4)


def test_an_image_of_a_release_has_its_commit_in_the_package(monkeypatch):
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    monkeypatch.setattr("readonly_engine.assembly.built_commit", lambda: 10 * "0123")
    assert about(make_config(REQUIRED, {}), None).commit == 10 * "0123"
    monkeypatch.setenv(COMMIT_VARIABLE, "abcdef0")
    assert about(make_config(REQUIRED, {}), None).commit == "abcdef0"
