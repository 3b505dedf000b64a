"""What the engine's unit tests share: hypothesis profiles and the golden bytes of a real cluster."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable

settings.register_profile("modest", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("modest"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "modest")

GOLDEN = Path(__file__).parent / "golden"


@cache
def read_golden(name: str) -> bytes:
    lines = (GOLDEN / f"{name}.txt").read_text(encoding="ascii").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


@pytest.fixture(scope="session")
def golden() -> Callable[[str], bytes]:
    """The bytes in a golden file, by its name."""
    return read_golden
