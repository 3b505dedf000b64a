"""The object store's program, built once for each content of go.mod and go.sum."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from devstack.cache import cache_root, content_key
from devstack.console import step
from devstack.errors import DevstackError
from devstack.kube.layout import default_layout
from devstack.kube.programs import go_environment

SOURCE = Path(__file__).parent / "src"
_MODULE = "github.com/minio/minio"
_DEADLINE_S = 1800.0


def ensure_program() -> Path:
    """The program; fetched and built when it is not in the cache.

    Raises:
        DevstackError: Go is missing, or the build failed.
    """
    program = cache_root() / "objectstore" / "builds" / content_key(SOURCE) / "minio"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise DevstackError(
            "the program go is missing: the object store of the tests (MinIO) is built with it",
            "install Go 1.21 or later (it fetches the version that go.mod names) and put it on the PATH",
        )
    program.parent.mkdir(parents=True, exist_ok=True)
    draft = program.with_name(f".minio.{os.getpid()}")
    try:
        with step("building MinIO from its Go module (some minutes the first time)"):
            built = subprocess.run(
                ["go", "build", "-ldflags", "-s -w", "-o", str(draft), _MODULE],
                cwd=SOURCE,
                env=go_environment(default_layout()),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_DEADLINE_S,
                check=False,
            )
        if built.returncode != 0:
            lines = [line for line in built.stderr.splitlines() if not line.startswith("go: downloading")]
            raise DevstackError(f"building MinIO failed with status {built.returncode}", "\n    ".join(lines[-8:]))
        draft.replace(program)
    except subprocess.TimeoutExpired:
        raise DevstackError(
            f"building MinIO took more than {_DEADLINE_S / 60:.0f} minutes", "see the network"
        ) from None
    finally:
        draft.unlink(missing_ok=True)
    return program
