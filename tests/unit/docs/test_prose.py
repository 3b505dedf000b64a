"""Prose of the documentation: short sentences, headings of nouns or tasks, and the glossary's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docsite.__main__ import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = DOCS.parent
GENERATED = {
    "reference/api.md",
    "reference/cli.md",
    "reference/configuration.md",
    "reference/conditions.md",
    "reference/metrics.md",
}
PAGES = [
    *(path for path in sorted(DOCS.rglob("*.md")) if str(path.relative_to(DOCS)) not in GENERATED),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "lab/README.md")),
]
MAX_WORDS = 25
"""Of a sentence, parentheses left out."""
HOME_MADE = (
    "mute consumer",
    "mute twin",
    "fleet",
    "comings",
    "goings",
    "come to rest",
    "comes to rest",
    "owners tell",
    "is told",
    "are told",
)
"""Words that have a better one in the field: zero-permit consumer, pool, connects, go idle."""

_CODE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
_MADE = re.compile(
    r"<!-- [^>]*\b(?:made|written)\b[^>]*-->.*?<!-- (?:end|made by make -C lab compat: end)[^>]*-->", re.DOTALL
)
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def prose(path: Path) -> str:
    """A page without code and without what tools write into it."""
    return _MADE.sub("", _CODE.sub("", path.read_text(encoding="utf-8")))


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs and items of lists; no headings, tables, pictures and indented code."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        bare = line.strip()
        code = line.startswith("    ") and not lines
        if not bare or code or bare.startswith(("|", "#", "![", "<", "!!!")) or _ITEM.match(bare):
            if lines:
                yield " ".join(lines)
            lines = [_ITEM.sub("", bare, count=1)] if _ITEM.match(bare) else []
        else:
            lines.append(bare)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, code and links reduced to a word each."""
    for paragraph in paragraphs(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "Code", paragraph)).replace("**", "")
        while "(" in plain and plain != (less := re.sub(r"\([^()]*\)", "", plain)):
            plain = less
        yield from re.split(r"(?<=[.!?])\s+(?=[A-Z0-9])", plain)


def words(sentence: str) -> int:
    return len(re.findall(r"[\w'%./-]+", sentence))


def test_sentences_are_found_and_counted():
    text = "# No heading\n\nOne two `a b c` (not these). Three\nfour.\n\n| no | table |\n\n- An item: five.\n  Six seven.\n"
    assert [(one, words(one)) for one in sentences(text)] == [
        ("One two Code .", 4),
        ("Three four.", 2),
        ("An item: five.", 3),
        ("Six seven.", 2),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_too_long(page):
    assert {one: count for one in sentences(prose(page)) if (count := words(one)) > MAX_WORDS} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_are_nouns_or_tasks_and_words_are_the_glossary(page):
    text = prose(page)
    asking = [
        one for one in re.findall(r"^#+ (.*)$", text, re.MULTILINE) if re.match(r"(What|Who|Whose|How(?!-)|Why)\b", one)
    ]
    assert asking == []
    low = re.sub(r"`[^`]*`", "", text).lower()
    assert [word for word in HOME_MADE if word in low] == []
