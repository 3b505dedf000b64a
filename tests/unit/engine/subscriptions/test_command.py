"""The command: its settings, its login, and the places of a seek."""

import asyncio
import json
import socket
from pathlib import Path

import pytest
from readonly_engine.config.option import ConfigError
from readonly_engine.subscriptions.changes import seek_target
from readonly_engine.subscriptions.command import main
from readonly_engine.subscriptions.cursors import pool_cursors
from readonly_engine.subscriptions.forced import forced_changes
from readonly_engine.subscriptions.pool_client import client_log
from readonly_engine.subscriptions.settings import make_tool_config
from readonly_engine.tool.errors import ToolError
from readonly_engine.topic.position import Position


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--pool", "p"], "--service-url is missing: give it, or --config"),
        (["--config", "/nowhere"], "--config /nowhere: No such file"),
        (["--service-url", "http://a"], "--service-url: must be pulsar://HOST:PORT"),
    ],
)
def test_wrong_settings_are_status_2(words, text, capsys):
    admin = [] if words[0] == "--pool" else ["--admin-url", "http://a:8080"]
    assert main(["ls", "t", *words, *admin]) == 2
    assert text in capsys.readouterr().err


def test_places_of_a_seek():
    largest = (1 << 63) - 1
    assert seek_target("earliest") == (-1, -1)
    assert seek_target("latest") == (largest, largest)
    assert seek_target(Position(3, 4)) == (3, 4)
    assert seek_target(1_700_000_000_000) == 1_700_000_000_000


def test_the_reason_of_an_error_is_in_the_clients_log():
    with client_log() as log:
        path = log._path
        line = "2026 WARN [1] X:1 | [a -> b] Received error response from server: ConsumerBusy ({}) -- req_id: 2\n"
        path.write_text("other\n" + line.format("first") + line.format("second (with) more"))
        assert log.reason == "second (with) more"
        log.begin()
        assert log.reason == ""
        with path.open("a") as file:
            file.write(line.format("third") + "other\n")
        assert log.reason == "third"
    assert not path.exists()


URLS = {"service-url": "pulsar://a:6650", "admin-url": "http://a:8080,b:8080"}


def test_a_file_of_serve_has_the_connections_and_options_win():
    file = {
        **URLS,
        "metadata-store-url": "zk:a:2181",
        "pool": "p",
        "pool-uid": "7",
        "tls-trust-certificates": "/clients.pem",
        "admin-token-file": "/token",
    }
    config = make_tool_config(file, {"pool": "q", "pool-service-url": "pulsar+ssl://pool:6651"})
    assert config.identity == "q@7"
    assert config.admin_urls == ("http://a:8080", "http://b:8080")
    assert config.user_token_file == Path("/token")
    assert config.broker_tls is None
    assert config.pool_tls is not None
    assert config.pool_tls.trust is None, "of `serve`, they are the authorities of client certificates"


def test_tls_and_tokens():
    config = make_tool_config(
        {},
        {
            "service-url": "pulsar+ssl://a:6651",
            "admin-url": "https://a:8443",
            "broker-tls-trust-certificates": "/ca.pem",
            "broker-tls-hostname-verification": "false",
            "pool-token-file": "/mine",
            "admin-token-file": "/token",
        },
    )
    assert config.identity == "default"
    assert config.user_token_file == Path("/mine")
    assert config.pool_tls is None
    assert config.broker_tls is not None
    assert (config.broker_tls.trust, config.broker_tls.hostname_verification) == (Path("/ca.pem"), False)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({}, "--service-url is missing"),
        ({**URLS, "pool-service-url": "http://a"}, r"--pool-service-url: must be pulsar://HOST:PORT"),
        ({**URLS, "pool": ""}, "--pool: must be a non-empty text"),
    ],
)
def test_mistakes(flags, text):
    with pytest.raises(ConfigError, match=text):
        make_tool_config({}, flags)


@pytest.fixture
def config(tmp_path):
    key_file = tmp_path / "key.json"
    key_file.write_text(json.dumps({"client_id": "me", "client_secret": "s3cret"}))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return make_tool_config(
        {},
        {
            "service-url": "pulsar://127.0.0.1:1",
            "admin-url": "http://127.0.0.1:1",
            "pool-service-url": "pulsar://127.0.0.1:1",
            "admin-oauth2": f"{{issuer-url: 'http://127.0.0.1:{port}', key-file: {key_file}}}",
        },
    )


@pytest.mark.parametrize("make", [forced_changes, pool_cursors])
def test_the_reason_is_that_there_is_no_token_and_not_that_an_empty_one_is_refused(config, make):
    async def use():
        async with make(config):
            pass

    with pytest.raises(
        ToolError, match=r"--admin-oauth2: http://127\.0\.0\.1:\d+: request failed, ClientConnector"
    ) as error:
        asyncio.run(use())
    assert "s3cret" not in str(error.value)
