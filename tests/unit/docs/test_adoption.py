"""Guides for a Pulsar that runs already: each has all steps in their order, and says whether anybody has walked through it."""

from __future__ import annotations

import re

import pytest

from docsite.__main__ import DOCS

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
