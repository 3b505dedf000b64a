"""SHA256SUMS of a release: `sha256sum --check SHA256SUMS` in its folder checks every file."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "SHA256SUMS"
_BLOCK: Final = 1 << 20


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def digests(folder: Path, *leave_out: str) -> dict[str, str]:
    """Return the digests of all files of a release by their path, sorted; without SHA256SUMS and the files to leave out.

    Raises:
        DevstackError: a name has a line break, which the format of SHA256SUMS cannot hold.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if "\n" in name or "\\" in name:
            raise DevstackError(f"release: {name!r} has a line break or a backslash in its name: rename it")
        if path.is_file() and name not in {FILE, *leave_out}:
            found[name] = sha256(path)
    return found


def write(folder: Path) -> None:
    """Write SHA256SUMS of a folder."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in digests(folder).items())
    (folder / FILE).write_text(lines, encoding="utf-8")


def read(folder: Path) -> dict[str, str]:
    """Return the digests of SHA256SUMS by path.

    Raises:
        DevstackError: the folder has no such file, or a line is of another form.
    """
    try:
        lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise DevstackError(
            f"release: {folder} has no {FILE}: it is no complete release", "run make -C lab release"
        ) from error
    found = {}
    for line in lines:
        digest, gap, name = line.partition("  ")
        if not (len(digest) == 64 and gap and name):
            raise DevstackError(f"release: a line of {folder / FILE} is not 'DIGEST  NAME': {line[:80]!r}")
        found[name] = digest
    return found
