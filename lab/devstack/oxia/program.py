"""Oxia's program, which is server, coordinator and client."""

from __future__ import annotations

from pathlib import Path

from devstack.cache import cache_root
from devstack.common.go_program import built_program
from devstack.oxia.mend import mended

SOURCE = Path(__file__).parent / "src"


def ensure_program() -> Path:
    """Return Oxia; it is fetched and built when it is not in the cache.

    Raises:
        DevstackError: Go is missing, or the build failed.
    """
    return built_program(SOURCE, "github.com/oxia-db/oxia/cmd", "Oxia", cache_root() / "oxia", mended)
