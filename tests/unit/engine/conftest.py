"""What the engine's unit tests share: the golden bytes of a real cluster."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@cache
def read_golden(name: str) -> bytes:
    lines = (GOLDEN / f"{name}.txt").read_text(encoding="ascii").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


@pytest.fixture(scope="session")
def golden() -> Callable[[str], bytes]:
    """The bytes in a golden file, by its name."""
    return read_golden
