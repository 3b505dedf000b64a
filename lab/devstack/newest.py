"""`make -C lab newest`: versions in the registries that are newer than those of the tests, as a table.

The registries are those that pip, Maven and Go are configured for. A registry may list a version of which it lacks parts.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.clients.versions import CLIENTS
from devstack.common.run import run
from devstack.console import say
from devstack.errors import DevstackError
from devstack.kube import programs
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.spec import STOCK_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON_PACKAGES: Final = (
    *("aiohttp", "fastavro", "grpcio", "kazoo", "kopf", "kubernetes", "obstore", "protobuf", "pulsar-client"),
    *("pyarrow", "pyiceberg", "pyspark", "uvloop"),
)
"""Packages whose behaviour users see."""
_SECONDS: Final = 300.0
_FINAL: Final = re.compile(r"v?\d+(\.\d+)*")
_POM: Final = """<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.pulsar</groupId><artifactId>{artifact}</artifactId><version>{range}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency></dependencies></project>
"""


@dataclass(frozen=True, slots=True)
class Subject:
    """Something with versions.

    Attributes:
        name: what it is, in the table.
        tested: version of the tests.
        newest: asks a registry for the newest version; empty if it has none.
    """

    name: str
    tested: str
    newest: Callable[[], str]


def key(version: str) -> tuple[int, ...]:
    """Return a sort key of a release, without a leading v and a suffix such as -M1."""
    return tuple(map(int, re.findall(r"\d+", version.partition("-")[0])))


def newest_of(versions: Iterable[str], line: str = "") -> str:
    """Return the newest release of a list, without pre-releases; empty for none.

    Args:
        versions: as a registry lists them.
        line: a release line, such as 4.0: only versions of it.
    """
    found = [
        one
        for one in versions
        if _FINAL.fullmatch(one) and f"{one.lstrip('v')}.".startswith(f"{line}." if line else "")
    ]
    return max(found, key=key, default="").lstrip("v")


def pinned(lock: str, package: str) -> str:
    """Return the version of a package in a lock file.

    Raises:
        DevstackError: the lock does not have it.
    """
    found = re.search(rf"^{re.escape(package)}==(\S+)", lock, re.MULTILINE)
    if found is None:
        raise DevstackError(f"requirements/dev.txt has no version of {package}")
    return found[1]


def _of_pip(package: str) -> str:
    command = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", package]
    text = run(command, what=f"asking for versions of {package}", timeout=_SECONDS)
    return newest_of(
        re.sub(r".*Available versions:", "", text, flags=re.DOTALL).partition("\n")[0].replace(",", " ").split()
    )


def _of_maven(artifact: str, line: str) -> str:
    """Return the newest version of an artifact of Pulsar, of a line or, with an empty one, of all."""
    head, _, last = line.rpartition(".")
    wanted = f"[{line},{head}.{int(last) + 1}-alpha)" if line else "[4,)"
    with tempfile.TemporaryDirectory() as folder:
        pom, out = Path(folder) / "pom.xml", Path(folder) / "found.txt"
        pom.write_text(_POM.format(artifact=artifact, range=wanted), encoding="utf-8")
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:list", f"-DoutputFile={out}"]
        run(command, what=f"asking for versions of {artifact}", timeout=_SECONDS)
        found = re.search(rf":{re.escape(artifact)}:jar:([^:]+):", out.read_text(encoding="utf-8"))
    return found[1] if found else ""


def _of_go(module: str, line: str = "") -> str:
    text = run(
        ["go", "list", "-m", "-versions", module], what=f"asking for versions of {module}", timeout=_SECONDS, cwd=ROOT
    )
    return newest_of(text.split()[1:], line)


def subjects() -> list[Subject]:
    """Return what the tests run with, from the pins of this checkout."""
    lock = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    oxia = (ROOT / "lab" / "devstack" / "oxia" / "src" / "go.mod").read_text(encoding="utf-8")
    found = [
        Subject("Pulsar, newest release", max(assembled_versions(), key=key), partial(_of_maven, "pulsar-common", ""))
    ]
    for version in (STOCK_VERSION, *(one for one in assembled_versions() if "-" not in one)):
        line = version.rpartition(".")[0]
        found.append(Subject(f"Pulsar {line}", version, partial(_of_maven, "pulsar-common", line)))
    for build in (programs.KUBE, programs.OLDEST_KUBE):
        version = build.version().lstrip("v")
        line = version.rpartition(".")[0]
        found.append(Subject(f"Kubernetes {line}", version, partial(_of_go, "k8s.io/kubernetes", line)))
    module = "github.com/oxia-db/oxia"
    found.append(Subject("Oxia", programs.module_version(oxia, module).lstrip("v"), partial(_of_go, module)))
    go = "github.com/apache/pulsar-client-go"
    newest: dict[str, Callable[[], str]] = {"java": partial(_of_maven, "pulsar-client", ""), "go": partial(_of_go, go)}
    for language, ask in newest.items():
        tested = max((one.version for one in CLIENTS if one.language == language), key=key)
        found.append(Subject(f"client in {language}", tested, ask))
    return found + [Subject(one, pinned(lock, one), partial(_of_pip, one)) for one in PYTHON_PACKAGES]


def table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return the table: name, tested version, newest version; a newer one is marked."""
    lines = ["| subject | tested | newest | |", "|---|---|---|---|"]
    for name, tested, newest in rows:
        mark = "newer" if newest and key(newest) > key(tested) else ""
        lines.append(f"| {name} | {tested} | {newest or 'none found'} | {mark} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status: 0, or 1 if a registry did not answer."""
    argparse.ArgumentParser(prog="make -C lab newest", description=__doc__).parse_args(argv)
    rows, failed = [], False
    for one in subjects():
        say(one.name)
        try:
            rows.append((one.name, one.tested, one.newest()))
        except DevstackError as error:
            failed = True
            say(str(error))
    print(table(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
