"""Guides for a Pulsar that runs already: each has all steps in their order, and says whether anybody has walked through it."""

import re
import subprocess
import sys

import pytest
from readonly_engine.broker.pool.bindings import load_bindings

from docsite.__main__ import DOCS
from tests.shell_blocks.blocks import of_page

HOW_TO = DOCS / "how-to"
GUIDES = sorted(HOW_TO.glob("adopt-*.md"))
STEPS = (
    "Names",
    "Prerequisites",
    "Explicit LAC",
    "Doctor",
    "Canary",
    "Switch of service URLs",
    "Verification",
    "Rollback",
    "Upgrades",
)
WARNING = '!!! warning "Written from manifests only"'
TABLE = dict(
    re.findall(r"^\| [^|]+ \| \[[^\]]+\]\(([\w.-]+)\) \| (.+?) \|$", (HOW_TO / "adopt.md").read_text(), re.MULTILINE)
)


WITHOUT_OPERATOR = ("how-to/adopt-bare-metal.md", "how-to/adopt-compose.md")


def sections(guide) -> dict[str, str]:
    """The text below each heading of the second level."""
    parts = re.split(r"^## (.+)\n", guide.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_compares_counts_before_and_after_the_rollback(guide):
    found = sections(guide)
    assert "examples/canary/compare.py" in found["Verification"]
    assert "must be `equal`" in found["Verification"]
    assert "`lost` must be 0" in " ".join(found["Rollback"].split())
    assert "`msgBacklog`" in found["Rollback"]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_begins_with_one_subscription_and_has_upgrades_of_both_sides(guide):
    found = sections(guide)
    assert "canary" in found["Canary"]
    assert "**Of the pool.**" in found["Upgrades"] or "**Of the read-only broker.**" in found["Upgrades"]
    assert "**Of Pulsar.**" in found["Upgrades"] or "**Of the chart.**" in found["Upgrades"]


def bindings_of(page: str) -> list[str]:
    """The files of bindings on a page, in their order."""
    return [one.text for one in of_page(page) if one.language == "yaml" and one.text.startswith("revision:")]


@pytest.mark.parametrize("page", WITHOUT_OPERATOR)
def test_the_files_of_bindings_are_valid_and_the_last_one_unbinds(page, tmp_path):
    first, last = bindings_of(page)
    path = tmp_path / "bindings.yaml"
    path.write_text(first)
    (binding,) = load_bindings(path).bindings
    assert (binding.name, binding.names("canary"), binding.names("billing")) == ("canary", True, False)
    before = load_bindings(path).revision
    path.write_text(last)
    assert load_bindings(path).bindings == ()
    assert load_bindings(path).revision != before


@pytest.mark.parametrize("index", [0, 1])
def test_the_broker_of_the_guide_accepts_its_file_before_and_after_the_rollback(index, tmp_path):
    """A list of topics may not be empty, so a rollback that removes the only topic would end the brokers."""
    page = "how-to/adopt-bare-metal.md"
    (config,) = [one.text for one in of_page(page) if one.language == "yaml" and "metadata-store-url:" in one.text]
    (tmp_path / "token").write_text("t")
    (tmp_path / "bindings.yaml").write_text(bindings_of(page)[index])
    (tmp_path / "serve.yaml").write_text(config.replace("/etc/pulsar-readonly", str(tmp_path)))
    command = [
        sys.executable,
        "-m",
        "readonly_engine.command",
        "serve",
        "--config",
        str(tmp_path / "serve.yaml"),
        "--check",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_common_page_names_every_guide():
    assert len(GUIDES) == 5
    assert set(TABLE) == {guide.name for guide in GUIDES}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_has_every_step_in_order(guide):
    assert re.findall(r"^## (.+)$", guide.read_text(encoding="utf-8"), re.MULTILINE) == list(STEPS)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_page_and_table_agree_whether_it_was_walked_through(guide):
    answer = TABLE[guide.name]
    assert answer.startswith(("yes", "no"))
    assert (WARNING in guide.read_text(encoding="utf-8")) is answer.startswith("no")
