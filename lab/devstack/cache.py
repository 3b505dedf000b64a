"""The cache of large downloads and builds, outside of the tree, keyed by their inputs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def cache_root() -> Path:
    """Return the cache folder: PULSAR_READONLY_CACHE, else XDG_CACHE_HOME/pulsar-readonly, else ~/.cache/pulsar-readonly."""
    chosen = os.environ.get("PULSAR_READONLY_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pulsar-readonly"


def content_key(*parts: str | bytes | Path) -> str:
    """Return a short hash of a build's inputs: texts, bytes, files, or folders with their content."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            files = sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]
            for file in files:
                digest.update(str(file.relative_to(part) if part.is_dir() else file.name).encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
        else:
            digest.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return digest.hexdigest()[:16]
