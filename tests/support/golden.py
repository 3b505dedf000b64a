"""Golden files: the expected output of a renderer, which UPDATE_GOLDEN=1 writes again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def check_golden(path: Path, shown: str) -> None:
    """Compare an output with its golden file.

    Raises:
        AssertionError: they differ.
    """
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")
