"""The pinned Go, which an older Go of this machine fetches as a module: Debian's either cannot fetch one by itself or may not."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from devstack.common.run import run
from devstack.console import step
from devstack.errors import DevstackError

VERSION: Final = (1, 26, 8)
"""At least the version of each go.mod."""

_MODULE: Final = "golang.org/toolchain"
_SUMS: Final = {
    "amd64": "h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=",
    "arm64": "h1:sYL/O6MqS68ML0kjsQ36WoYIpJqkw60TxizWUYUKQMc=",
}
_FETCH_TIMEOUT_S: Final = 900.0
_PROGRAMS: Final = ("bin/", "pkg/tool/")
_MODULE_FILE: Final = "_go.mod"
"""Name of each go.mod in the module's archive, in which a module cannot contain others."""


@cache
def program_path(folder: Path) -> str:
    """Return a PATH whose first Go is new enough; the caller's if its Go is, or if it has none.

    Args:
        folder: folder of the cache for the fetched Go.

    Raises:
        DevstackError: the pinned Go cannot be fetched, or is another one than pinned.
    """
    path = os.environ.get("PATH", os.defpath)
    if shutil.which("go") is None:
        return path
    # In a folder without go.mod, and without the flags for builds, which an old Go may not know.
    environment = {**os.environ, "GOFLAGS": "", "GO111MODULE": "on", "GOMODCACHE": str(folder / "gomod")}

    def go(*arguments: str) -> str:
        return run(["go", *arguments], what="asking for the version of Go", env=environment, cwd=Path("/"))

    found, machine = go("env", "GOVERSION", "GOARCH").splitlines()
    if version_of(found) >= VERSION:
        return path
    wanted = ".".join(map(str, VERSION))
    home = folder / f"go-{wanted}"
    if not home.exists():
        module = f"{_MODULE}@v0.0.1-go{wanted}.linux-{machine}"
        with step(f"fetching Go {wanted}, because this machine has {found}"):
            words = ["go", "mod", "download", "-json", module]
            what = f"fetching Go {wanted} (or put it first in PATH)"
            fetched = json.loads(run(words, what=what, timeout=_FETCH_TIMEOUT_S, env=environment, cwd=Path("/")))
            if fetched["Sum"] != _SUMS.get(machine):
                raise DevstackError(
                    f"{module} has the checksum {fetched['Sum']}, and {_SUMS.get(machine, 'none')} is pinned",
                    f"see GOPROXY, or put Go {wanted} or later first in PATH",
                )
            _unpack(Path(fetched["Zip"]), module, home)
    return f"{home / 'bin'}:{path}"


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers of the version in a text such as `go1.19.8`, `devel go1.27-d2a0fe7`, or a line of go.mod."""
    found = re.search(r"go ?(\d+(?:\.\d+)*)", text)
    return tuple(map(int, found[1].split("."))) if found else ()


def _unpack(archive: Path, prefix: str, home: Path) -> None:
    draft = home.with_name(f".{home.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                inside = name.removeprefix(f"{prefix}/")
                path = draft / inside
                if path.name == _MODULE_FILE:
                    path = path.with_name("go.mod")
                path.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(name) as source, path.open("wb") as target:
                    shutil.copyfileobj(source, target)
                if inside.startswith(_PROGRAMS):
                    path.chmod(0o755)
        draft.rename(home)
    except OSError:
        if not home.is_dir():  # otherwise another process was quicker
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
