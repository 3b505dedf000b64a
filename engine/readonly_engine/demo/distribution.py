"""The stock Pulsar of the demo: one that is installed, or Maven's archive, verified and unpacked once into the cache."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine.demo.console import print_progress
from readonly_engine.demo.errors import DemoError

if TYPE_CHECKING:
    from readonly_engine.demo.children import Children

VERSION: Final = "4.0.8"
ARTIFACT: Final = "pulsar-server-distribution"
SHA512: Final = (
    "65b769b10696cdfebf7fc5bcdc95dd663702e27051e616c1a13cb100e9127952"
    "5be35352171befe7b0011176330aab29bd0a6c8a0f2f0646641af46d2e33cbd6"
)
ARCHIVE_MB: Final = 245
MB: Final = 1_000_000
COPY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
FETCH_TIMEOUT_S: Final = 1800.0
PROGRESS_S: Final = 2.0
JAVA_VERSION: Final = 17
_JAVA_VERSION: Final = re.compile(r'version "(\d+)')
_MAVEN_ERROR: Final = re.compile(r"^\[ERROR\] (.+?)(?: -> \[Help 1\])?$", re.MULTILINE)
"""Maven's first error has the whole reason in one line; the lines after it are advice."""


def cache_folder() -> Path:
    """Return the cache folder: PULSAR_READONLY_CACHE, XDG_CACHE_HOME/pulsar-readonly or ~/.cache/pulsar-readonly."""
    if chosen := os.environ.get("PULSAR_READONLY_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pulsar-readonly"


def unpacked() -> Path:
    """Return the folder of the unpacked archive in the cache, whether or not it exists."""
    return cache_folder() / "pulsar" / f"apache-pulsar-{VERSION}"


def archive() -> Path:
    """Return the file of the archive in the cache, whether or not it exists."""
    return cache_folder() / "downloads" / f"{ARTIFACT}-{VERSION}-bin.tar.gz"


def installed(option: Path | None) -> Path | None:
    """Return the folder of an installed Pulsar: the option, PULSAR_HOME or `pulsar` in the PATH; None without one.

    Raises:
        DemoError: the option or PULSAR_HOME has no bin/pulsar.
    """
    variable = os.environ.get("PULSAR_HOME")
    for source, folder in (("--pulsar-home", option), ("PULSAR_HOME", Path(variable) if variable else None)):
        if folder is not None:
            if not (folder / "bin" / "pulsar").is_file():
                raise DemoError(f"{source} {folder}: there is no bin/pulsar; give the folder of an unpacked Pulsar")
            return folder
    program = shutil.which("pulsar")
    home = Path(program).resolve().parents[1] if program else None
    return home if home is not None and (home / "conf" / "broker.conf").is_file() else None


def missing_programs(home: Path | None) -> list[str]:
    """Return the missing or outdated programs of the embedded Pulsar, each with its Debian package.

    Args:
        home: folder of an installed Pulsar; None for the archive.
    """
    found: list[str] = []
    java_home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{java_home}/bin/java" if java_home else "java")
    version = None
    if java is not None:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr  # noqa: S603
        version = _JAVA_VERSION.search(printed)
    if version is None or int(version[1]) < JAVA_VERSION:
        found.append(f"java {JAVA_VERSION} or newer (default-jre-headless)")
    if home is None and not unpacked().is_dir() and not archive().exists() and shutil.which("mvn") is None:
        found.append("mvn (maven)")
    return found


async def ensure_distribution(children: Children) -> Path:
    """Return the folder of the stock Pulsar in the cache; fetch, verify and unpack it if necessary.

    Raises:
        DemoError: Maven cannot fetch it, or serves another file.
    """
    home = unpacked()
    if home.is_dir():
        return home
    file = archive()
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".fetch-") as folder:
            fetched = await _fetch(children, Path(folder))
            await _verify(fetched)
            fetched.replace(file)
    else:
        await _verify(file)
    print_progress(f"unpacking Pulsar {VERSION}")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".unpack-") as folder:
        await asyncio.to_thread(unpack, file, Path(folder))
        try:
            (Path(folder) / home.name).rename(home)
        except OSError:
            if not home.is_dir():  # otherwise another process has unpacked it meanwhile
                raise
    return home


async def _fetch(children: Children, folder: Path) -> Path:
    """Fetch the archive by Maven into a folder, with a local repository in it, which shows the progress.

    Raises:
        DemoError: Maven fails, or is not ready in time.
    """
    repository = folder / "repository"
    fetched = repository / "org" / "apache" / "pulsar" / ARTIFACT
    print_progress(f"fetching Pulsar {VERSION} by Maven: {ARCHIVE_MB} MB, once")
    maven = await children.start(
        "Maven",
        [
            *("mvn", "--batch-mode", "--no-transfer-progress", COPY_PLUGIN),
            f"-Dartifact=org.apache.pulsar:{ARTIFACT}:{VERSION}:tar.gz:bin",
            f"-DoutputDirectory={folder}",
            f"-Dmaven.repo.local={repository}",
        ],
    )
    running = asyncio.ensure_future(maven.output())
    printed = ""
    try:
        async with asyncio.timeout(FETCH_TIMEOUT_S):
            while not (await asyncio.wait({running}, timeout=PROGRESS_S))[0]:
                if (text := progress(folder_bytes(fetched))) != printed:
                    print_progress(f"  {text}")
                    printed = text
        await running
    except DemoError as error:
        reason = maven_reason(maven.log.read_text(encoding="utf-8", errors="replace"))
        raise DemoError(f"Maven cannot fetch Pulsar {VERSION}: {reason}" if reason else str(error)) from None
    except TimeoutError:
        raise DemoError(f"Maven took more than {FETCH_TIMEOUT_S / 60:.0f} minutes: check the network") from None
    finally:
        running.cancel()  # after an interrupt nothing awaits it
        maven.kill()
    return folder / f"{ARTIFACT}-{VERSION}-bin.tar.gz"


def progress(fetched: int) -> str:
    """Describe the progress of the download by the bytes of the archive so far; Maven's own plug-in comes before it."""
    return f"{min(fetched // MB, ARCHIVE_MB)} of {ARCHIVE_MB} MB" if fetched >= MB else "Maven fetches its plug-in"


def maven_reason(log: str) -> str:
    """Return the reason in the output of a failed Maven; empty if it has none."""
    found = _MAVEN_ERROR.search(log)
    return found[1] if found else ""


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder, in which files come and go."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size
    return total


async def _verify(file: Path) -> None:
    with file.open("rb") as opened:
        digest = await asyncio.to_thread(hashlib.file_digest, opened, "sha512")
    if digest.hexdigest() != SHA512:
        file.unlink()  # noqa: ASYNC240 - at once
        raise DemoError(
            f"{file.name} does not have its pinned SHA-512, and was removed: run the demo again. If that does not help, "
            "Maven's repository serves another file; give an unpacked Pulsar with --pulsar-home"
        )


def unpack(file: Path, folder: Path) -> None:
    """Unpack an archive whose digest was verified. Python before 3.11.4, as in Debian 12, has no filters."""
    with tarfile.open(file) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter="data")
        else:
            opened.extractall(folder)  # noqa: S202 - see above
