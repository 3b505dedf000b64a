"""Archives whose bytes depend on names and content alone: sorted, one time, no owners, two modes."""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive.

    Attributes:
        data: its content.
        executable: its mode is 0755 instead of 0644.
    """

    data: bytes
    executable: bool = False


def text_members(files: Mapping[str, str], prefix: str = "") -> dict[str, Member]:
    """Return members from texts by name, below a prefix such as `chart/`."""
    return {prefix + name: Member(text.encode()) for name, text in files.items()}


def folder_members(folder: Path, prefix: str = "") -> dict[str, Member]:
    """Return all files of a folder as members, below a prefix.

    Raises:
        DevstackError: it has a symbolic link, which could lead out of the archive.
    """
    members = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise DevstackError(f"release: {path} is a symbolic link: put a file there instead")
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            members[prefix + name] = Member(path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return members


def write_tar_gz(path: Path, members: Mapping[str, Member], epoch: int) -> None:
    """Write an archive.

    Args:
        path: the archive; its folder is made.
        members: files by name.
        epoch: time of all files and of the archive, seconds since 1970.
    """
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(members):
            member = members[name]
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(member.data), epoch, 0o755 if member.executable else 0o644
            tar.addfile(entry, io.BytesIO(member.data))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=epoch) as packed:
        packed.write(plain.getvalue())


def repack(path: Path, epoch: int) -> None:
    """Write a .tar.gz of another tool again, with the same names and content.

    Raises:
        DevstackError: it holds something other than files and folders.
    """
    members = {}
    with tarfile.open(path, "r:gz") as tar:
        for entry in tar:
            if entry.isdir():
                continue
            file = tar.extractfile(entry) if entry.isfile() else None
            if file is None:
                raise DevstackError(f"release: {path.name} holds {entry.name}, which is neither a file nor a folder")
            members[entry.name] = Member(file.read(), bool(entry.mode & 0o100))
    write_tar_gz(path, members, epoch)


def repack_layout(path: Path, epoch: int) -> None:
    """Write an archive of an OCI image layout again, in order and with one time: its blobs are named by their content.

    Raises:
        DevstackError: it is no archive, or holds something other than files and folders.
    """
    made = path.with_name(f".{path.name}")
    try:
        with tarfile.open(path, "r:") as tar, tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as out:
            for entry in sorted(tar.getmembers(), key=lambda one: one.name):
                file = tar.extractfile(entry) if entry.isfile() else None
                if file is None and not entry.isdir():
                    raise DevstackError(
                        f"release: {path.name} holds {entry.name}, which is neither a file nor a folder"
                    )
                written = tarfile.TarInfo(entry.name)
                written.type, written.size, written.mtime = entry.type, entry.size, epoch
                written.mode = 0o755 if entry.isdir() else 0o644
                out.addfile(written, file)
        made.replace(path)
    except tarfile.TarError as error:
        raise DevstackError(f"release: {path.name} is no archive ({error})") from error
    finally:
        made.unlink(missing_ok=True)
