from pathlib import Path

import pytest
from readonly_engine.config.option import ConfigError
from readonly_engine.subscriptions.settings import make_tool_config

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
