"""Golden files: the expected output of a renderer, which UPDATE_GOLDEN=1 writes again."""

import os
from difflib import unified_diff
from itertools import islice
from pathlib import Path

SHOWN_LINES = 30
"""Lines of the difference that an error shows."""


def check_golden(path: Path, shown: str) -> None:
    """Compare an output with its golden file.

    Raises:
        AssertionError: they differ; it has the difference, and the command that writes the file again.
    """
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(shown, encoding="utf-8")
    written = path.read_text(encoding="utf-8") if path.exists() else ""
    if shown != written:
        test = os.environ.get("PYTEST_CURRENT_TEST", "TEST").partition("::")[0]
        difference = unified_diff(written.splitlines(), shown.splitlines(), str(path), "the code", lineterm="")
        raise AssertionError(
            f"{path} is not what the code gives. If the change is meant: UPDATE_GOLDEN=1 .venv/bin/python -m pytest {test}, "
            "then read the difference\n" + "\n".join(islice(difference, SHOWN_LINES))
        )
