"""Generated pages are what the code gives: `make docs-pages` writes them again."""

from __future__ import annotations

import pytest
from readonly_engine.broker.pool import bindings

from docsite import cli, conditions, configuration, metrics
from docsite.__main__ import DOCS, PAGES
from tests.support.yaml_documents import load_yaml


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_gives(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), f"docs/{name} is behind: make docs-pages"


def test_the_page_of_the_command_line_has_every_option():
    page = cli.page()
    assert page.count("\n## pulsar-readonly ") == 9
    assert page.count("\n### kubectl readonly ") == 3
    for option in (
        "--metadata-store-url URL",
        "--workers N",
        "-o, --output {text,json,raw}",
        "--adopt",
        "--subscriptions TYPE=N[xCONSUMERS]...",
        "--lease",
        "--topology",
    ):
        assert f"`{option}" in page


def test_the_page_of_the_configuration_has_defaults_and_units():
    page = configuration.page()
    for row in (
        "| `metadata-store-url` | `URL` | required |",
        "| `listen` | `HOST:PORT` | `*:6650` |",
        "| `cache-size` | `SIZE` (bytes) | `256MiB` |",
        "| `max-connections` | `N` (connections) | `0` (no limit) |",
        "| `advertised-url` | `pulsar://HOST:PORT` | made from --listen |",
        "| `topics` | `[PATTERN, ...]` |  |",
        "| `broker-tls-hostname-verification` | `true or false` | `true` |",
        "| `lookup-unbound` | `redirect or proxy or reject` | `redirect` |",
        "| `read-size` | `SIZE` (bytes) | `1MiB` |",
        "| `PULSAR_READONLY_LEASE_SECONDS` | `N` (seconds) | `15` |",
        "| `PULSAR_READONLY_ENGINE_IMAGE` | `IMAGE` | each pool names its own |",
    ):
        assert row in page


def test_the_page_of_metrics_has_type_labels_and_unit():
    page = metrics.page()
    assert (
        "| `pulsar_readonly_dispatched_bytes_total` | counter | `cluster`, `namespace`, `topic`, `subscription` | bytes |"
        in page
    )
    assert "| `pulsar_readonly_operator_reconcile_duration_seconds` | histogram |  | seconds |" in page
    with pytest.raises(ValueError, match="pulsar_readonly_unheard_of: add a word"):
        metrics.unit("pulsar_readonly_unheard_of")


def test_the_page_of_conditions_says_which_make_events():
    page = conditions.page()
    assert "| `Ready` | False | `InvalidSpec` | Warning |" in page
    assert "| `Ready` | True | `BrokersReady` | Normal |" in page
    assert "| `Progressing` | False | `Settled` |  |" in page


def test_the_file_of_bindings_on_the_page_is_valid_and_has_every_key(tmp_path):
    page = configuration.page()
    assert configuration.BINDINGS_EXAMPLE in page
    path = tmp_path / "bindings.yaml"
    path.write_text(configuration.BINDINGS_EXAMPLE)
    loaded = bindings.load_bindings(path)
    document = load_yaml(configuration.BINDINGS_EXAMPLE)
    assert [one.document() for one in loaded.bindings] == document["bindings"]
    assert loaded.revision == document["revision"]
    shown = {key for one in document["bindings"] for key in one}
    assert shown == bindings._KEYS
    section = page.partition("## The file of bindings")[2].partition("\n## ")[0]
    assert all(f"| `{key}` |" in section for key in bindings._KEYS | bindings._TOP_KEYS)
