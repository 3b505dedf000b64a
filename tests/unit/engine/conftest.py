"""What the engine's unit tests share: the golden bytes of a real cluster."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from readonly_engine import log_bounds

GOLDEN = Path(__file__).parent / "golden"


@cache
def read_golden(name: str) -> bytes:
    lines = (GOLDEN / f"{name}.txt").read_text(encoding="ascii").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


@pytest.fixture(scope="session")
def golden() -> Callable[[str], bytes]:
    """The bytes in a golden file, by its name."""
    return read_golden


@pytest.fixture(autouse=True)
def all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log each line, whatever an earlier test has logged in this second."""
    monkeypatch.setattr(log_bounds, "LINE_S", 0.0)
