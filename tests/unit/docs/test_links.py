"""The documentation's navigation and links, without MkDocs; `make docs` has MkDocs check the same, strictly."""

import os
import re
from pathlib import Path

import pytest

from tests.support.yaml_documents import load_yaml

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "lab/README.md")]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)


def prose(path: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as MkDocs and GitHub both make them of plain words."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE):
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())
        found.add(slug if slug not in found else f"{slug}_1")
    return found


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere; in docs/ also those that leave it, which the site does not have."""
    found = []
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = Path(os.path.normpath(page.parent / name)) if name else page
        inside = DOCS not in page.parents or DOCS in file.parents
        if not (file.exists() and inside) or (anchor and anchor not in anchors(file)):
            found.append(target)
    return found


def navigation(entries: list) -> list[str]:
    """The files that mkdocs.yml's navigation names, in its order."""
    found: list[str] = []
    for entry in entries:
        value = next(iter(entry.values())) if isinstance(entry, dict) else entry
        found += navigation(value) if isinstance(value, list) else [value]
    return found


@pytest.mark.parametrize("page", [*PAGES, *TOP], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_list_follows_an_empty_line(page):
    """Python-Markdown takes the items for text otherwise."""
    assert re.findall(r"^(?![-*#\s]|\d+\.|<!--).*\n[-*] .*$", prose(page), re.MULTILINE) == []


@pytest.mark.parametrize("page", [*PAGES, *TOP], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_its_target(page):
    assert broken(page) == []


def test_the_navigation_has_every_page_once():
    config = load_yaml((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(navigation(config["nav"])) == sorted(str(page.relative_to(DOCS)) for page in PAGES)
    assert config["strict"] is True


def test_links_that_lead_nowhere_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n```\n[code](none.md)\n```\n[a](page.md#a-page) `[b](none.md)` [c](none.md) [d](#none) [e](https://x)\n"
    )
    assert broken(page) == ["none.md", "#none"]


def test_a_page_has_one_title_and_every_fence_is_closed():
    for page in PAGES:
        text = re.sub(r"\A---\n.*?\n---\n+", "", prose(page), flags=re.DOTALL)  # settings of MkDocs for the page
        assert text.startswith("# "), page
        assert "```" not in prose(page), page
