"""Folders and files of benches."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LOAD_SOURCE: Final = Path(__file__).parent / "load"
PAGES: Final = tuple(ROOT / "docs" / "explanation" / f"performance{part}.md" for part in ("", "-growth", "-parts"))
"""Pages with the tables of benches, each between marks."""
RESULTS: Final = ROOT / "docs" / "explanation" / "performance"
"""JSON and plot of each bench; a page shows both."""
