"""Sets of jars: resolved by Maven from a POM in locks/, compared with the checksums beside it, kept in the cache."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Final

from devstack.cache import content_key
from devstack.clients.making import ensure_folder, program, run
from devstack.console import step
from devstack.errors import DevstackError

LOCKS: Final = Path(__file__).parent / "locks"
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_SUFFIX: Final = ".pom.xml"


def names() -> list[str]:
    """The sets that there are."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in LOCKS.glob(f"*{_SUFFIX}"))


def ensure_jars(name: str) -> Path:
    """The folder of a set, fetched when it is not there.

    Raises:
        DevstackError: there is no such set, Maven is missing, or a jar is not what was pinned.
    """
    pom, checksums = _pom(name), LOCKS / f"{name}.sha512"
    return ensure_folder(f"jars-{name}-{content_key(pom, checksums)}", lambda folder: _fetch(name, folder))


def compiled(name: str, jars: Path, *sources: Path) -> Path:
    """The folder of classes that Java files come to, compiled against a set.

    Raises:
        DevstackError: there is no compiler, or they do not compile.
    """

    def make(folder: Path) -> None:
        compiler = program("javac", "run `make system`, or install a JDK of version 17 or later")
        words = [compiler, "--release", "17", "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources)]
        with step(f"compiling {name}"):
            run(f"compiling {name}", words)

    return ensure_folder(f"classes-{name}-{content_key(jars.name, *sources)}", make)


def lock(name: str) -> None:
    """Resolve a set again and write down its checksums.

    Raises:
        DevstackError: there is no such set, Maven is missing, or cannot resolve it.
    """
    with tempfile.TemporaryDirectory() as folder:
        _copy(name, Path(folder))
        (LOCKS / f"{name}.sha512").write_text(_listing(Path(folder)))


def _pom(name: str) -> Path:
    pom = LOCKS / f"{name}{_SUFFIX}"
    if not pom.exists():
        raise DevstackError(f"there is no set of jars {name}", f"there are {', '.join(names())}")
    return pom


def _fetch(name: str, folder: Path) -> None:
    with step(f"fetching the jars of {name} through Maven"):
        _copy(name, folder)
    pinned = (LOCKS / f"{name}.sha512").read_text()
    wrong = {line.split()[1] for line in set(_listing(folder).splitlines()) ^ set(pinned.splitlines())}
    if wrong:
        raise DevstackError(
            f"the jars of {name} are not the pinned ones: {', '.join(sorted(wrong))}",
            f"remove them from the local Maven repository and try again; see lab/devstack/jars/locks/{name}.sha512",
        )


def _copy(name: str, folder: Path) -> None:
    maven = program("mvn", "run `make system`, or install Maven 3.8 or newer")
    options = ["--batch-mode", "--quiet", "--no-transfer-progress", "--file", str(_pom(name))]
    words = [maven, *options, _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    run(f"fetching the jars of {name}", words)


def _listing(folder: Path) -> str:
    """One line a jar: its SHA-512 and its name."""
    return "".join(
        f"{hashlib.sha512(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in sorted(folder.glob("*.jar"))
    )
