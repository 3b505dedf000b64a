"""Folders and files of benches."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LOAD_SOURCE: Final = Path(__file__).parent / "load"
DOCUMENT: Final = ROOT / "docs" / "explanation" / "performance.md"
RESULTS: Final = ROOT / "docs" / "explanation" / "performance"
"""JSON and plot of each bench; the document shows both."""
