"""Stock distributions of the server and the offloaders: fetched by Maven coordinates, verified, and unpacked once."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from readonly_engine.demo.distribution import unpack

from devstack.cache import cache_root
from devstack.console import say, step
from devstack.errors import DevstackError
from devstack.pulsar.assembled import assembled_versions, ensure_assembled

_COPY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_ATTEMPTS: Final = 3
_FETCH_SECONDS: Final = 1800.0
_PROGRESS_SECONDS: Final = 10.0


BASE_VERSION: Final = "4.0.8"
"""The release whose scripts run those that Maven has as jars only."""

SERVER: Final = "pulsar-server-distribution"
OFFLOADERS: Final = "pulsar-offloader-distribution"


def checksums(artifact: str = SERVER) -> dict[str, str]:
    """Return the pinned SHA-512 of each archive by version, as lower-case hexadecimal text."""
    lines = (Path(__file__).parent / "checksums.txt").read_text().splitlines()
    rows = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    return {version: digest for digest, version, named in rows if named == artifact}


def ensure_tarball(version: str, artifact: str = SERVER) -> Path:
    """Fetch the archive of a Pulsar version into the cache, unless it is there with its pinned checksum.

    Args:
        version: the release.
        artifact: SERVER or OFFLOADERS.

    Returns:
        Path of a file with the pinned SHA-512.

    Raises:
        DevstackError: the version has no pinned checksum, Maven is missing, or the archive cannot be fetched.
    """
    pinned = checksums(artifact)
    if version not in pinned:
        raise DevstackError(
            f"--version {version}: no checksum is pinned for this Pulsar release",
            f"known: {', '.join(sorted([*pinned, *(assembled_versions() if artifact == SERVER else ())]))}",
        )
    target = cache_root() / "downloads" / f"{artifact}-{version}-bin.tar.gz"
    if target.exists():
        if _sha512(target) == pinned[version]:
            return target
        say(f"{target.name} in the cache is damaged: fetching it again")
        target.unlink()
    maven = shutil.which("mvn")
    if maven is None:
        raise DevstackError(
            "mvn is missing: Pulsar's distribution is fetched with Apache Maven", "install Maven 3.8 or newer"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with step(f"fetching {artifact} {version} (up to 250 MB) through Maven"):
        # The second attempt uses an empty repository, because Maven does not verify an archive in the local one.
        for private in (False, True):
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
                repository = Path(folder) / "repository" if private else None
                fetched = _fetch(maven, artifact, version, Path(folder), repository)
                if _sha512(fetched) == pinned[version]:
                    fetched.replace(target)
                    return target
            say("the archive from Maven does not have its pinned SHA-512")
    raise DevstackError(
        f"the archive of Pulsar {version} does not have its pinned SHA-512, twice",
        "the Maven repository in use serves another file; see lab/devstack/pulsar/checksums.txt",
    )


def ensure_distribution(version: str) -> Path:
    """Return the folder (with bin/, conf/ and lib/) of a Pulsar version; fetch and unpack it, or put it together, if necessary.

    Raises:
        DevstackError: as `ensure_tarball` and `ensure_assembled`.
    """
    if version in assembled_versions():
        return ensure_assembled(version, ensure_distribution(BASE_VERSION))
    return _ensure_unpacked(cache_root() / "pulsar" / f"apache-pulsar-{version}", version, SERVER)


def ensure_offloaders(version: str) -> Path:
    """Return the folder with the offloaders for a Pulsar version, for a broker's `offloadersDirectory`.

    Maven has none of the assembled releases. Their brokers load those of the base release, with the same formats in storage.

    Raises:
        DevstackError: as `ensure_tarball`.
    """
    if version in assembled_versions():
        version = BASE_VERSION
    home = cache_root() / "pulsar" / f"apache-pulsar-offloaders-{version}"
    return _ensure_unpacked(home, version, OFFLOADERS) / "offloaders"


def _ensure_unpacked(home: Path, version: str, artifact: str) -> Path:
    if home.is_dir():
        return home
    tarball = ensure_tarball(version, artifact)
    home.parent.mkdir(parents=True, exist_ok=True)
    with (
        step(f"unpacking {artifact} {version}"),
        tempfile.TemporaryDirectory(dir=home.parent, prefix=".unpack-") as folder,
    ):
        unpack(tarball, Path(folder))
        try:
            (Path(folder) / home.name).rename(home)
        except OSError:
            if not home.is_dir():  # otherwise another process has unpacked it meanwhile
                raise
    return home


def _fetch(maven: str, artifact: str, version: str, folder: Path, repository: Path | None) -> Path:
    """Copy the archive by Maven into `folder`. Another attempt resumes a broken download."""
    command = [
        maven,
        "--batch-mode",
        "--no-transfer-progress",
        _COPY_PLUGIN,
        f"-Dartifact=org.apache.pulsar:{artifact}:{version}:tar.gz:bin",
        f"-DoutputDirectory={folder}",
    ]
    if repository is not None:
        command.append(f"-Dmaven.repo.local={repository}")
    watched = (repository or Path.home() / ".m2" / "repository") / "org/apache/pulsar" / artifact / version
    log = folder / "mvn.log"
    deadline = time.monotonic() + _FETCH_SECONDS
    for attempt in range(1, _ATTEMPTS + 1):
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            _follow(process, watched, deadline)
        found = sorted(folder.glob("*.tar.gz"))
        if process.returncode == 0 and found:
            return found[0]
        say(f"Maven failed (attempt {attempt} of {_ATTEMPTS}); the next attempt resumes the download")
    errors = [line for line in log.read_text(errors="replace").splitlines() if "ERROR" in line][:3]
    raise DevstackError(
        f"Maven cannot fetch Pulsar {version}: {' '.join(errors)}", "check Maven's network and settings"
    )


def _follow(process: subprocess.Popen[bytes], watched: Path, deadline: float) -> None:
    """Wait for Maven, and print its progress."""
    while True:
        try:
            process.wait(timeout=_PROGRESS_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise DevstackError(
                    f"Maven took more than {_FETCH_SECONDS / 60:.0f} minutes", "check the network"
                ) from None
            sizes = [file.stat().st_size for file in watched.glob("*.tar.gz*") if file.is_file()]
            say(f"  {max(sizes, default=0) / 1e6:.0f} MB so far")
        else:
            return


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()
