"""Source distribution and wheels, with all C modules inside.

Each wheel is built from the source distribution, so a file that is missing there fails here. Facts: platform tags are those of
PEP 600; auditwheel finds the oldest manylinux policy that the C modules satisfy.
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine import build_info

from devstack.common.run import run, succeeds
from devstack.console import step
from devstack.errors import DevstackError
from devstack.release.archives import repack
from devstack.release.inputs import MACHINES

if TYPE_CHECKING:
    from devstack.release.inputs import ReleaseInputs
    from devstack.release.outcome import Outcome

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python that CI tests; a wheel with C modules is for one of them."""
_ELF_MACHINES: Final = {62: "amd64", 183: "arm64"}
_ELF_MACHINE_OFFSET: Final = 18
_BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
_DEADLINE_S: Final = 900.0
_DROPPED: Final = re.compile(
    "_?PYTHON.*|SETUPTOOLS_.*|DISTUTILS_.*|(CPP|C|CXX|LD|BASEC|AR|ARCH)FLAGS.*|CC|CPP|CXX|AR|OPT|LDSHARED|LDCXXSHARED|"
    "CPATH|C_INCLUDE_PATH|LIBRARY_PATH|COMPILER_PATH|GCC_EXEC_PREFIX|LD_RUN_PATH"
)
"""Variables by which setuptools, the compiler and the linker would make something else, or name it otherwise."""


@dataclass(frozen=True, slots=True)
class WheelTarget:
    """One wheel.

    Attributes:
        python: version of Python, such as 3.11.
        architecture: amd64 or arm64.
    """

    python: str
    architecture: str

    def __str__(self) -> str:
        """Return its name in reports."""
        return f"wheel for Python {self.python} on {self.architecture}"


def build_environment(inputs: ReleaseInputs) -> dict[str, str]:
    """Return the variables that make a build depend on its files alone: no compiler flags, paths or times of this machine."""
    kept = {name: value for name, value in os.environ.items() if not _DROPPED.fullmatch(name)}
    fixed = {"SOURCE_DATE_EPOCH": str(inputs.epoch), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    # debug information has the path of the build's folder
    return {**kept, **fixed, "CFLAGS": "-g0", "PYTHONDONTWRITEBYTECODE": "1"}


def cross_environment(target: WheelTarget) -> dict[str, str]:
    """Return the variables by which setuptools compiles for another architecture."""
    machine = MACHINES[target.architecture]
    compiler = f"{machine}-linux-gnu-gcc"
    return {
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared",
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{target.python.replace('.', '')}-{machine}-linux-gnu.so",
    }


def obstacle(target: WheelTarget, host: str) -> str | None:
    """Return why a wheel cannot be built on this machine; None if nothing is known to be missing.

    Args:
        target: the wheel.
        host: architecture of this machine.
    """
    if not succeeds([f"python{target.python}", "-c", "import venv, ensurepip"]):
        return f"python{target.python} with its module venv is not on this machine: install it"
    if target.architecture == host:
        return None
    machine = MACHINES[target.architecture]
    compiler = f"{machine}-linux-gnu-gcc"
    if shutil.which(compiler) is None:
        return (
            f"this machine is {host} and has no cross compiler {compiler}: install gcc-{machine}-linux-gnu, "
            f"or run make -C lab release on a machine that is {target.architecture}, and join both "
            "(python -m devstack release join)"
        )
    where = "import sysconfig; print(sysconfig.get_path('include'))"
    include = Path(run([f"python{target.python}", "-c", where], what=f"release: asking Python {target.python}").strip())
    settings = include / "pyconfig.h"
    if not settings.exists():
        return f"python{target.python} has no headers ({settings}): install them"
    # Debian's header includes one of the architecture
    own = include.parent / f"{machine}-linux-gnu" / include.name / "pyconfig.h"
    if f"{machine}-linux-gnu" in settings.read_text(encoding="utf-8") and not own.exists():
        return f"python{target.python} has no headers for {target.architecture} ({own}): install libpython-dev of it"
    return None


def build_sdist(tree: Path, inputs: ReleaseInputs, work: Path, out: Path) -> Path:
    """Build the source distribution; returns its path."""
    python = _environment(f"python{PYTHONS[0]}", work / f"build-{PYTHONS[0]}", tree / "requirements" / "build.txt")
    out.mkdir(parents=True, exist_ok=True)
    with step("building the source distribution"):
        command = [str(python), "-c", _BUILD.format("sdist"), str(out)]
        run(command, what="release: building the source distribution", env=build_environment(inputs), cwd=tree)
    path = out / f"pulsar_readonly-{inputs.version}.tar.gz"
    if not path.exists():
        raise DevstackError(f"release: the build made no {path.name}")
    repack(path, inputs.epoch)
    return path


def build_wheels(
    tree: Path,
    sdist: Path,
    inputs: ReleaseInputs,
    targets: list[WheelTarget],
    host: str,
    work: Path,
    out: Path,
    outcome: Outcome,
) -> None:
    """Build the wheels that this machine can build, and record the others in the outcome.

    Args:
        tree: the commit's files, for the locks of the build tools.
        sdist: the source distribution.
        inputs: the release.
        targets: wheels of the release.
        host: architecture of this machine.
        work: folder for environments and sources.
        out: folder of the wheels.
        outcome: gets a reason for each wheel that is not made.

    Raises:
        DevstackError: a build for this machine's own architecture fails, or a wheel lacks a C module.
    """
    for target in targets:
        reason = obstacle(target, host)
        if reason is not None:
            outcome.miss(str(target), reason)
            continue
        try:
            with step(f"building the {target}"):
                plain = _build(tree, sdist, inputs, target, host, work)
        except DevstackError as error:
            if target.architecture == host:
                raise
            outcome.miss(str(target), f"{error} {error.hint}")
            continue
        _tag(tree, plain, target, inputs, work, out, outcome)
        outcome.made.add(str(target))


def expected_modules(tree: Path) -> set[str]:
    """Return the paths of the C modules in a wheel, without the suffix of their platform."""
    with (tree / "pyproject.toml").open("rb") as file:
        listed = tomllib.load(file)["tool"]["setuptools"]["ext-modules"]
    return {one["name"].replace(".", "/") for one in listed}


def check_tag(folder: Path, target: WheelTarget, version: str) -> None:
    """Check that a release has the wheel of a target once, with a manylinux tag of its Python and its architecture.

    Raises:
        DevstackError: it has none, or several.
    """
    python = f"cp{target.python.replace('.', '')}"
    start = f"pulsar_readonly-{version}-{python}-{python}-"
    found = [
        path.name for path in folder.glob(f"{start}*.whl") if path.stem.endswith(f"_{MACHINES[target.architecture]}")
    ]
    if len(found) != 1 or not found[0].removeprefix(start).startswith("manylinux"):
        raise DevstackError(
            f"release: auditwheel made {', '.join(sorted(found)) or 'no wheel'} for the {target}, not one with a manylinux tag"
        )


def check_commit(path: Path, commit: str) -> None:
    """Check that a wheel has the commit, which `pulsar-readonly --version` shows.

    Raises:
        DevstackError: it has none, or another one.
    """
    with zipfile.ZipFile(path) as wheel:
        name = f"readonly_engine/{build_info.FILE}"
        found = wheel.read(name).decode() if name in wheel.namelist() else ""
    if found != build_info.content(commit):
        raise DevstackError(f"release: {path.name} does not have the commit {commit[:12]} in {name}")


def check_wheel(path: Path, modules: set[str], architecture: str) -> None:
    """Check that a wheel has all C modules, and compiled for its architecture.

    Raises:
        DevstackError: one is missing or for another architecture. setuptools leaves out a module that does not compile.
    """
    with zipfile.ZipFile(path) as wheel:
        found = {name.partition(".")[0]: wheel.read(name)[:20] for name in wheel.namelist() if name.endswith(".so")}
    lacking = sorted(modules - set(found))
    if lacking:
        raise DevstackError(
            f"release: {path.name} lacks the C modules {', '.join(lacking)}",
            "the compiler's error is in: python -m pip wheel -v --no-deps .",
        )
    for name, head in found.items():
        machine = int.from_bytes(head[_ELF_MACHINE_OFFSET : _ELF_MACHINE_OFFSET + 2], "little")
        if head[:4] != b"\x7fELF" or _ELF_MACHINES.get(machine) != architecture:
            raise DevstackError(f"release: {name} in {path.name} is not compiled for {architecture}")


def _build(tree: Path, sdist: Path, inputs: ReleaseInputs, target: WheelTarget, host: str, work: Path) -> Path:
    """Build one wheel from the source distribution; returns its path."""
    folder = work / f"wheel-{target.python}-{target.architecture}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(sdist, "r:gz") as tar:
        # our own archive, of plain files
        tar.extractall(folder)  # noqa: S202
    (sources,) = folder.iterdir()
    python = _environment(
        f"python{target.python}", work / f"build-{target.python}", tree / "requirements" / "build.txt"
    )
    variables = build_environment(inputs)
    if target.architecture != host:
        variables |= cross_environment(target)
    made = folder / "made"
    made.mkdir()
    command = [str(python), "-c", _BUILD.format("wheel"), str(made)]
    run(command, what=f"release: building the {target}", env=variables, cwd=sources, timeout=_DEADLINE_S)
    (path,) = made.glob("*.whl")
    check_wheel(path, expected_modules(tree), target.architecture)
    check_commit(path, inputs.commit)
    return path


def _tag(
    tree: Path, plain: Path, target: WheelTarget, inputs: ReleaseInputs, work: Path, out: Path, outcome: Outcome
) -> None:
    """Put a wheel with a manylinux tag into the release; with its plain tag where auditwheel is not to be had."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        python = _environment(f"python{PYTHONS[0]}", work / "auditwheel", tree / "requirements" / "release.txt")
    except DevstackError as error:
        shutil.copy2(plain, out)
        reason = f"auditwheel cannot be installed ({error} {error.hint}); {plain.name} is in its place"
        outcome.miss(f"manylinux tag of the {target}", reason)
        return
    variables = {**build_environment(inputs), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(python), "-m", "auditwheel", "repair", "--plat", "auto", "-w", str(out), str(plain)]
    run(command, what=f"release: finding the manylinux tag of the {target}", env=variables, timeout=_DEADLINE_S)
    check_tag(out, target, inputs.version)


def _environment(python: str, folder: Path, locked: Path) -> Path:
    """Make a virtual environment with locked packages, unless it is there; returns its Python."""
    made = folder / "bin" / "python"
    mark = folder / f".{re.sub(r'[^a-z]', '-', locked.name)}"
    if mark.exists() and mark.read_bytes() == locked.read_bytes():
        return made
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, "-m", "venv", "--clear", str(folder)]
    run(command, what=f"release: making an environment of {python}", timeout=300, env=variables)
    command = [
        str(made),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
        str(locked),
    ]
    run(command, what=f"release: installing the packages of {locked.name}", timeout=_DEADLINE_S, env=variables)
    mark.write_bytes(locked.read_bytes())
    return made


def host_architecture() -> str:
    """Return this machine's architecture, amd64 or arm64.

    Raises:
        DevstackError: it is another one.
    """
    machine = sysconfig.get_platform().rpartition("-")[2]
    for name, kernel in MACHINES.items():
        if machine == kernel:
            return name
    raise DevstackError(f"release: packages are built on {' or '.join(MACHINES)}, and this machine is {machine}")
