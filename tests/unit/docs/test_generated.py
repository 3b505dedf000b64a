"""Generated pages are what the code gives: `make docs-pages` writes them again."""

import pytest
from readonly_engine.broker.pool import bindings

from docsite import configuration, metrics
from docsite.__main__ import DOCS, PAGES
from tests.support.yaml_documents import load_yaml


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_gives(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), f"docs/{name} is behind: make docs-pages"


def test_a_metric_without_a_unit_is_named():
    with pytest.raises(ValueError, match="pulsar_readonly_unheard_of: add a word"):
        metrics.unit("pulsar_readonly_unheard_of")


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
