"""Java clients: the jars of each release, resolved by Maven and checked, and a driver compiled with them."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Final

from devstack.cache import content_key
from devstack.clients.making import ensure_folder, program, run
from devstack.clients.versions import LOCKS
from devstack.console import step
from devstack.errors import DevstackError

_POM: Final = LOCKS / "java.pom.xml"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def ensure_java(version: str, source: Path, main: str) -> tuple[str, ...]:
    """Return the arguments of `java` for a program that uses this release.

    Args:
        version: the release.
        source: a folder of Java files.
        main: the class that has the main method.

    Raises:
        DevstackError: Maven or the compiler is missing, a jar is not what was pinned, or the program does not compile.
    """
    checksums = LOCKS / f"java-{version}.sha512"
    jars = ensure_folder(f"java-{version}-{content_key(_POM, checksums)}", lambda folder: _fetch(version, folder))

    def make(folder: Path) -> None:
        compiler = program("javac", "run `make system`, or install a JDK of version 17 or later")
        files = sorted(map(str, source.glob("*.java")))
        words = [compiler, "--release", "17", "-Xlint:all", "-Werror", "-cp", f"{jars}/*", "-d", str(folder), *files]
        with step(f"compiling the driver of the Java client {version}"):
            run(f"compiling the driver of the Java client {version}", words)

    classes = ensure_folder(f"java-driver-{version}-{content_key(_POM, checksums, source)}", make)
    return ("-cp", f"{classes}:{jars}/*", main)


def lock(version: str) -> None:
    """Resolve the release's jars again, and write down their checksums.

    Raises:
        DevstackError: Maven is missing, or cannot resolve them.
    """
    with tempfile.TemporaryDirectory() as folder:
        _copy(version, Path(folder))
        (LOCKS / f"java-{version}.sha512").write_text(_listing(Path(folder)))


def _fetch(version: str, folder: Path) -> None:
    with step(f"fetching the Java client {version} (up to 60 MB) through Maven"):
        _copy(version, folder)
    pinned = (LOCKS / f"java-{version}.sha512").read_text()
    wrong = {line.split()[1] for line in set(_listing(folder).splitlines()) ^ set(pinned.splitlines())}
    if wrong:
        raise DevstackError(
            f"the jars of the Java client {version} are not the pinned ones: {', '.join(sorted(wrong))}",
            f"remove them from the local Maven repository and try again; see lab/devstack/clients/locks/java-{version}.sha512",
        )


def _copy(version: str, folder: Path) -> None:
    maven = program("mvn", "run `make system`, or install Maven 3.8 or newer")
    options = ["--batch-mode", "--quiet", "--no-transfer-progress", "--file", str(_POM), f"-Dclient.version={version}"]
    words = [maven, *options, _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    run(f"fetching the Java client {version}", words)


def _listing(folder: Path) -> str:
    """One line a jar: its SHA-512 and its name."""
    return "".join(
        f"{hashlib.sha512(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in sorted(folder.glob("*.jar"))
    )
