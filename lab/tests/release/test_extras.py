"""Each extra installs all that its modules import, in an environment of its own with nothing else.

The newest packages that pyproject.toml allows are installed, as a user gets them, not the locked ones.
"""

import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from devstack.common.run import run
from lab.tests.release.conftest import ROOT

pytestmark = pytest.mark.slow

SERVER: Final = ("demo", "serve", "doctor", "plan", "top", "topic", "subscriptions")
EXTRAS: Final = {
    "": (("readonly_operator.kubectl",), ()),
    "engine": (("readonly_engine",), SERVER),
    "demo": (("readonly_engine",), SERVER),
    "operator": (("readonly_operator",), ("operator",)),
    "spark": (("readonly_engine", "readonly_spark"), (*SERVER, "export")),
}
"""Packages and commands of each extra."""

IMPORT_ALL: Final = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    for one in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if not one.name.endswith("__main__"):
            importlib.import_module(one.name)
"""
INSTALL_S: Final = 1200.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy: a build leaves files in its folder."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in ("engine", "operator", "spark"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__"))
    command = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tree / "made"), str(tree)]
    run([sys.executable, *command], what="building the wheel", timeout=INSTALL_S)
    (made,) = (tree / "made").glob("*.whl")
    return made


@pytest.mark.parametrize(("extra", "packages", "commands"), [(extra, *of) for extra, of in EXTRAS.items()])
def test_an_extra_installs_what_it_imports(extra, packages, commands, wheel, tmp_path):
    venv = tmp_path / "venv"
    run([sys.executable, "-m", "venv", str(venv)], what="making the environment", timeout=INSTALL_S)
    try:
        pip = [str(venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        run([*pip, f"{wheel}[{extra}]" if extra else str(wheel)], what=f"installing {extra}", timeout=INSTALL_S)
        run(
            [str(venv / "bin" / "python"), "-I", "-c", IMPORT_ALL, *packages],
            what="importing",
            timeout=INSTALL_S,
            cwd=tmp_path,
        )
        for arguments in ([], *([one] for one in commands)):
            program = [str(venv / "bin" / "pulsar-readonly"), *arguments, "--help"]
            assert "usage: " in run(program, what="its help", cwd=tmp_path)
        assert "usage: " in run([str(venv / "bin" / "kubectl-readonly"), "--help"], what="its help", cwd=tmp_path)
    finally:
        shutil.rmtree(venv)
