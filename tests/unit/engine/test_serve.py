"""What `pulsar-readonly serve` says before it has started anything."""

import pytest
from readonly_engine.assembly import COMMIT_VARIABLE, about, published_http_port
from readonly_engine.config.arguments import parser
from readonly_engine.config.kinds import Address
from readonly_engine.config.option import keys_of
from readonly_engine.config.reader import make_config
from readonly_engine.config.settings import EngineConfig
from readonly_engine.listening import advertised_tls_url, advertised_url
from readonly_engine.serve import main
from readonly_engine.workers.plan import worker_config

from tests.unit.engine.config.values import REQUIRED


def test_every_setting_is_a_flag_and_the_other_way_round():
    flags = {option for action in parser()._actions for option in action.option_strings}
    assert flags - {"-h", "--help", "--config", "--check"} == {f"--{key}" for key in keys_of(EngineConfig)}


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
