"""An unknown option is one error that names the nearest, so a name that changed leads to the one it has now."""

import importlib

import pytest
from readonly_engine.command import PARTS
from readonly_engine.config.nearest import MAX_COMPARED, nearest
from readonly_engine.config.option import ConfigError, check_keys, keys_of
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.config.settings import EngineConfig

FORMER = {
    "writer-url": "service-url",
    "writer-tls-key": "broker-tls-key",
    "writer-tls-certificate": "broker-tls-certificate",
    "writer-tls-trust-certificates": "broker-tls-trust-certificates",
    "writer-tls-verify-hostname": "broker-tls-hostname-verification",
    "metadata-store": "metadata-store-url",
    "bookkeeper-metadata-store": "bookkeeper-metadata-store-url",
    "metadata-tls-trust-certificates": "metadata-store-tls-trust-certificates",
    "metadata-tls-verify-hostname": "metadata-store-tls-hostname-verification",
    "metadata-login-file": "metadata-store-login-file",
    "metadata-node-rights": "metadata-store-node-rights",
    "bookie-tls-verify-hostname": "bookie-tls-hostname-verification",
}
"""Names of earlier commits, and the nearest of today."""

OF_OTHERS = {
    "serviceUrl": "service-url",
    "brokerServiceUrl": "service-url",
    "webServiceUrl": "admin-url",
    "metadataStoreUrl": "metadata-store-url",
    "bookkeeperMetadataServiceUri": "bookkeeper-metadata-store-url",
    "maxBufferedBytes": "max-buffered-bytes",
    "metadataStoreLogin": "metadata-store-login-file",
    "namespaces": "topics",
}
"""Names of broker.conf and of the custom resources."""


@pytest.mark.parametrize(("name", "near"), (FORMER | OF_OTHERS).items())
def test_an_unknown_key_leads_to_the_key_of_the_setting(name, near):
    with pytest.raises(ConfigError, match=f"^unknown key '{name}'; (it is|the nearest is) {near}[ ;]"):
        check_keys(EngineConfig, {name: "x"})


@pytest.mark.parametrize(
    ("words", "near"),
    [
        *((f"serve --{name} x", f"--{name} is unknown; the nearest is --{near};") for name, near in FORMER.items()),
        ("doctor --writer-url=pulsar://a:1", "--writer-url is unknown; the nearest is --service-url;"),
        ("demo --metadata-store zk:a:1", "--metadata-store is unknown; the nearest is --metadata-store-url;"),
        ("topic ls --metadata-tls-key k", "--metadata-tls-key is unknown; the nearest is --metadata-store-tls-key;"),
        ("subscriptions show t s --json", "--json is unknown; --help"),
        ("plan --outptu json", "--outptu is unknown; the nearest is --output;"),
        ("top --outp json", "--outp is unknown; the nearest is --output;"),
        ("export --metadata-store zk:a:1", "--metadata-store is unknown; the nearest is --metadata-store-url;"),
        ("operator --engine-imag x", "--engine-imag is unknown; the nearest is --engine-image;"),
    ],
)
def test_an_unknown_option_leads_to_the_nearest(words, near, capsys):
    command, *arguments = words.split()
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(PARTS[command][0]).parser().parse_args(arguments)
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "error:" in one]
    assert ended.value.code == 2
    assert f"error: {near}" in line


def test_every_command_has_this_parser():
    assert {type(importlib.import_module(module).parser()) for module, _ in PARTS.values()} == {OptionParser}


def test_words_after_two_dashes_are_no_options(capsys):
    made = OptionParser(prog="p")
    made.add_argument("words", nargs="*")
    assert made.parse_args(["a", "--", "--b"]).words == ["a", "--b"]


def test_the_value_of_an_unknown_option_is_not_shown(capsys):
    with pytest.raises(SystemExit):
        OptionParser(prog="p").parse_args(["--password=secret"])
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "x", "é" * MAX_COMPARED * 1000, "-" * 100_000])
def test_nothing_is_near_names_of_nonsense(name):
    assert nearest(name, keys_of(EngineConfig)) == ""
    assert nearest(name, []) == ""
