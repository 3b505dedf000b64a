"""The table of options: each is declared once, completely, and is in the help and the reference pages. An unknown one leads to
the nearest, so a name that changed leads to the one it has now."""

import argparse
import dataclasses
import importlib
from pathlib import Path

import pytest
from readonly_engine.command import PARTS
from readonly_engine.config.arguments import parser
from readonly_engine.config.kinds import COUNT, FILE, LIMIT, SECONDS, SIZE, TEXT, write_size
from readonly_engine.config.limits import DispatchRate
from readonly_engine.config.nearest import MAX_COMPARED, nearest
from readonly_engine.config.option import (
    _OTHER_NAMES,
    ConfigError,
    check_keys,
    help_of,
    keys_of,
    option,
    options_of,
    read_options,
)
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.config.settings import EngineConfig
from readonly_engine.config.tiered import TieredConfig

PAGES = Path(__file__).resolve().parents[4] / "docs" / "reference"
DECLARING = [EngineConfig, TieredConfig, DispatchRate]
ALL = [pytest.param(declaring, one, id=one.key) for declaring in DECLARING for one in options_of(declaring)]


@pytest.mark.parametrize("declaring", DECLARING)
def test_every_field_is_an_option(declaring):
    assert [one.name for one in options_of(declaring)] == [field.name for field in dataclasses.fields(declaring)]


@pytest.mark.parametrize(("declaring", "one"), ALL)
def test_every_option_is_described(declaring, one):
    assert len(one.help) > 5
    assert one.help[-1] not in ".;"
    assert one.help == " ".join(one.help.split())
    assert one.kind.form
    assert one.kind.expected
    assert declaring is not EngineConfig or one.group


@pytest.mark.parametrize(("declaring", "one"), ALL)
def test_every_number_has_a_unit(declaring, one):
    numeric = one.kind in {SIZE, COUNT, LIMIT, SECONDS} or one.kind.form in {"N", "SIZE", "SECONDS"}
    assert bool(one.unit) == (numeric or "messages: N" in one.kind.form)


@pytest.mark.parametrize(("declaring", "one"), ALL)
def test_a_default_that_users_can_write_is_read_as_the_default(declaring, one):
    (field,) = (field for field in dataclasses.fields(declaring) if field.name == one.name)
    assert one.required == (field.default is field.default_factory is dataclasses.MISSING)
    if one.default:
        written = float(one.default) if one.kind is SECONDS else one.default
        assert one.kind.parse(written) == field.default
    elif not one.required and declaring is not TieredConfig and one.kind not in {FILE, TEXT}:
        assert one.unset or one.key == "topics"  # which topics or bindings, one of them, must name


@pytest.mark.parametrize("one", options_of(EngineConfig), ids=lambda one: one.key)
def test_every_option_is_in_the_help_and_in_both_reference_pages(one):
    shown = " ".join(parser().format_help().replace("-\n", "-").split())
    assert f"{one.flag} " in shown
    assert f"| `{one.key}` |" in (PAGES / "configuration.md").read_text(encoding="utf-8")
    cli = (PAGES / "cli.md").read_text(encoding="utf-8")
    assert f"`{one.flag} " in cli


def test_every_option_of_the_file_is_a_flag_of_the_same_name_and_form_and_there_are_no_other_flags():
    flags = {action.option_strings[0]: action for action in parser()._actions}
    assert flags.keys() - {"-h", "--config", "--check"} == {one.flag for one in options_of(EngineConfig)}
    for one in options_of(EngineConfig):
        action = flags[one.flag]
        assert (action.dest, action.default) == (one.name, argparse.SUPPRESS)
        assert action.nargs == ("+" if one.kind.several else None)
        assert (action.choices or action.metavar) == (one.kind.choices or one.kind.form)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Painted:
    name: str = dataclasses.field(metadata=option(TEXT, "name of the house", group="House"))
    rooms: int = dataclasses.field(
        default=0, metadata=option(COUNT, "100% of the rooms", unit="rooms", unset="unknown")
    )
    garden_size: int = dataclasses.field(default=3 << 10, metadata=option(SIZE, "size", unit="bytes", group="Garden"))
    gate: str = dataclasses.field(default="", metadata=option(TEXT, "the gate", unset="no gate"))


def test_an_option_has_the_key_flag_group_and_default_of_its_field():
    name, rooms, size, gate = options_of(Painted)
    assert keys_of(Painted) == ("name", "rooms", "garden-size", "gate")
    assert (name.required, size.required, size.flag, size.default) == (True, False, "--garden-size", "3KiB")
    assert [one.group for one in (name, rooms, size, gate)] == ["House", "House", "Garden", "Garden"]
    assert [help_of(one) for one in (name, rooms, size, gate)] == [
        "name of the house",
        "100%% of the rooms (default 0: unknown)",
        "size (default 3KiB)",
        "the gate (default: no gate)",
    ]


def test_values_are_read_by_the_declaration():
    assert read_options(Painted, {"name": "a", "garden-size": "1MiB"}) == {"name": "a", "garden_size": 1 << 20}
    with pytest.raises(ConfigError, match=r"^rooms: must be a whole number of 0 or more, not -1$"):
        read_options(Painted, {"rooms": -1})
    with pytest.raises(ConfigError, match=r"^--garden-size: must be a size"):
        read_options(Painted, {"garden-size": "big"}, lambda one: one.flag)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0B"), (1, "1B"), (1000, "1000B"), (1 << 10, "1KiB"), (3 << 20, "3MiB"), (5 << 30, "5GiB")]
)
def test_sizes_are_written_in_the_largest_unit(size, text):
    assert write_size(size) == text
    assert SIZE.parse(text) == size


def test_hints_are_for_keys_that_exist():
    assert set(_OTHER_NAMES.values()) <= set(keys_of(EngineConfig))
    assert not set(_OTHER_NAMES) & set(keys_of(EngineConfig))


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
