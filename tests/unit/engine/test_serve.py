"""What `pulsar-readonly serve` says before it has started anything."""

import asyncio

import pytest
from readonly_engine.assembly import COMMIT_VARIABLE, about, published_http_port, serve
from readonly_engine.config.arguments import parser
from readonly_engine.config.kinds import Address
from readonly_engine.config.option import keys_of
from readonly_engine.config.reader import make_config
from readonly_engine.config.settings import EngineConfig
from readonly_engine.listening import advertised_tls_url, advertised_url
from readonly_engine.serve import main
from readonly_engine.start_files import StartError
from readonly_engine.workers.plan import worker_config

from devstack.pulsar.security import Credentials

FLAGS = [
    "--metadata-store-url", "zk:127.0.0.1:1", "--service-url", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1",
]  # fmt: skip


def test_every_setting_is_a_flag_and_the_other_way_round():
    flags = {option for action in parser()._actions for option in action.option_strings}
    assert flags - {"-h", "--help", "--config", "--check"} == {f"--{key}" for key in keys_of(EngineConfig)}


def test_flags_that_are_not_given_are_no_settings():
    assert vars(parser().parse_args([])) == {}


def test_a_wrong_setting_ends_it_with_status_2(capsys):
    assert main([*FLAGS, "--topics", "orders", "--cache-size", "lots"]) == 2
    assert capsys.readouterr().err == (
        "pulsar-readonly serve: --cache-size: must be a size such as 64MiB or 1GiB, not 'lots'\n"
    )


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"listen": "127.0.0.1:7000"}, "pulsar://127.0.0.1:7000"),
        ({"advertised-url": "pulsar://me:1", "listen": "0.0.0.0:7000"}, "pulsar://me:1"),
    ],
)
def test_where_clients_are_sent(settings, url):
    given = {"metadata-store-url": "zk:a:1", "service-url": "pulsar://a:1", "admin-url": "http://a:1", "topics": ["t"]}
    assert advertised_url(make_config(given, settings)) == url


def test_clients_cannot_be_sent_to_all_interfaces():
    given = {"metadata-store-url": "zk:a:1", "service-url": "pulsar://a:1", "admin-url": "http://a:1", "topics": ["t"]}
    config = make_config(given, {})
    assert config.listen == Address("*", 6650)
    with pytest.raises(StartError, match=r"--advertised-url is missing: .* give pulsar://HOST:6650"):
        advertised_url(config)


GIVEN = {
    "metadata-store-url": "zk:127.0.0.1:1",
    "service-url": "pulsar://a:1",
    "admin-url": "http://a:1",
    "topics": ["orders"],
}
LISTENING = {**GIVEN, "listen": "127.0.0.1:6650", "tls-certificate": "/c", "tls-key": "/k"}


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (GIVEN, ""),
        ({**LISTENING, "tls-listen": "127.0.0.1:6651"}, "pulsar+ssl://127.0.0.1:6651"),
        ({**LISTENING, "tls-listen": "0.0.0.0:6651", "advertised-tls-url": "pulsar+ssl://me:1"}, "pulsar+ssl://me:1"),
    ],
)
def test_where_clients_with_tls_are_sent(settings, url):
    assert advertised_tls_url(make_config({}, settings)) == url


def test_clients_with_tls_cannot_be_sent_to_all_interfaces():
    config = make_config({}, {**LISTENING, "tls-listen": "0.0.0.0:6651"})
    with pytest.raises(StartError, match=r"--advertised-tls-url is missing: .* give pulsar\+ssl://HOST:6651"):
        advertised_tls_url(config)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    credentials = Credentials.make(tmp_path_factory.mktemp("serve"))
    credentials.certificate("other")
    return credentials.folder


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
    ("settings", "says"),
    [
        (
            {"tls-listen": "127.0.0.1:0", "tls-certificate": "broker.pem", "tls-key": "other.key"},
            r"^--tls-certificate and tls-key: .*broker\.pem with .*other\.key cannot be used: KEY_VALUES_MISMATCH",
        ),
        (
            {"service-url": "pulsar+ssl://a:1", "broker-tls-trust-certificates": "gone.pem"},
            r"^--broker-tls-trust-certificates: .*gone\.pem cannot be used: No such file",
        ),
        (
            {"bookie-tls-trust-certificates": "broker.key"},
            r"^--bookie-tls-trust-certificates: .*broker\.key cannot be used",
        ),
        ({"admin-token-file": "gone"}, r"^--admin-token-file: .*No such file or directory: '.*gone'"),
        ({"admin-token-file": "empty"}, r"^--admin-token-file: .*empty: expected one token"),
        (
            {"admin-oauth2": "{issuer-url: 'https://issuer', key-file: /gone/key.json}"},
            r"^--admin-oauth2: .*No such file or directory: '/gone/key\.json'",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named_before_anything_is_started(made, settings, says):
    (made / "empty").write_text("\n")
    files = ("-certificate", "-certificates", "-key", "-file")
    given = {key: str(made / value) if key.endswith(files) else value for key, value in settings.items()}
    config = make_config({}, {**GIVEN, "listen": "127.0.0.1:6650", **given})
    with pytest.raises(StartError, match=says):
        asyncio.run(serve(config))


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
    given = {"metadata-store-url": "zk:a:1", "service-url": "pulsar://a:1", "admin-url": "http://a:1", "topics": ["t"]}
    config = make_config(given, {"workers": 4})
    assert about(config, None) == ("pulsar://a:1", "zk:a:1", known, -1, 1)
    assert about(worker_config(config, 2), config)[2:] == (known, 2, 4)


def test_an_image_of_a_release_has_its_commit_in_the_package(monkeypatch):
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    monkeypatch.setattr("readonly_engine.assembly.built_commit", lambda: 10 * "0123")
    given = {"metadata-store-url": "zk:a:1", "service-url": "pulsar://a:1", "admin-url": "http://a:1", "topics": ["t"]}
    assert about(make_config(given, {}), None).commit == 10 * "0123"
    monkeypatch.setenv(COMMIT_VARIABLE, "abcdef0")
    assert about(make_config(given, {}), None).commit == "abcdef0"
