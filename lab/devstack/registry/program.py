"""The registry's program."""

from __future__ import annotations

from pathlib import Path

from devstack.cache import cache_root
from devstack.common.go_program import built_program

SOURCE = Path(__file__).parent / "src"


def ensure_program() -> Path:
    """Return the registry; it is fetched and built when it is not in the cache.

    Raises:
        DevstackError: Go is missing, or the build failed.
    """
    package = "github.com/distribution/distribution/v3/cmd/registry"
    return built_program(SOURCE, package, "registry", cache_root() / "registry" / "builds")
