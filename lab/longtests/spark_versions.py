"""`make -C lab spark-versions`: the tests of the data source that run in a real Spark, on other versions of Spark.

The version of the lock file `requirements/dev.txt` is what all other tests run on. Each other version has a lock file of its own
and a folder in the cache, which comes before the installed packages. Tests without Spark are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root
from devstack.common.locks import file_lock
from devstack.console import say
from devstack.errors import DevstackError
from devstack.program import run_program

if TYPE_CHECKING:
    import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
REQUIREMENTS: Final = ROOT / "requirements"
VERSIONS: Final = tuple(sorted(path.stem.removeprefix("spark-") for path in REQUIREMENTS.glob("spark-*.txt")))
VARIABLE: Final = "PULSAR_READONLY_SPARK_VERSION"
"""The version that the tests must find; set for the tests only."""

FILES: Final = tuple(
    f"tests/integration/spark/test_{name}.py"
    for name in (
        "analysis",
        "changes",
        "compacted",
        "export_leftovers",
        "hold",
        "java_values",
        "lag",
        "outages",
        "source",
        "sql",
        "streams",
        "tls",
        "values",
    )
)
_OF_ITS_OWN: Final = "test_sql.py"
"""Starts Spark in processes of its own."""

_EXPORTS: Final = "test_export_leftovers.py"
"""Uses private parts of Spark's file sink, as exports do. They need Spark 4.2."""

_INSTALL_S: Final = 1800.0


def installed(version: str) -> Path:
    """Install a version of pyspark into the cache, unless it is there; return its folder.

    Raises:
        DevstackError: it cannot be installed.
    """
    lock = REQUIREMENTS / f"spark-{version}.txt"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    folder = cache_root() / "spark" / f"{version}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder.with_name(f"{folder.name}.lock"), f"pyspark {version}", _INSTALL_S):
        if not folder.exists():
            say(f"installing pyspark {version}")
            draft = folder.with_name(f"{folder.name}.draft")
            pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
            # A draft that was left behind is overwritten.
            command = [*pip, "--no-deps", "--upgrade", "--target", str(draft), "-r", str(lock)]
            if subprocess.run(command, check=False, timeout=_INSTALL_S).returncode:
                raise DevstackError(f"pyspark {version} cannot be installed", "see the messages of pip above")
            draft.rename(folder)
    return folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests without Spark; pytest calls this, as the module is a plugin of its too."""
    import pyspark  # noqa: PLC0415  the one of this run, which the command itself does not need

    version = os.environ[VARIABLE]
    assert pyspark.__version__.startswith(f"{version}."), f"pyspark {pyspark.__version__} is found, not {version}"
    chosen = [item for item in items if "spark" in getattr(item, "fixturenames", ()) or item.path.name == _OF_ITS_OWN]
    if tuple(map(int, version.split("."))) < (4, 2):
        chosen = [item for item in chosen if item.path.name != _EXPORTS]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 if all tests of all versions passed."""
    parser = argparse.ArgumentParser(prog="make -C lab spark-versions", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=VERSIONS, default=VERSIONS, metavar="VERSION", help=", ".join(VERSIONS)
    )
    parser.add_argument("pytest", nargs="*", metavar="PYTEST_OPTION", help="options and tests for pytest, after --")
    args = parser.parse_args(argv)
    failed = []
    for version in args.only:
        path = os.pathsep.join([str(installed(version)), *filter(None, [os.environ.get("PYTHONPATH", "")])])
        say(f"tests on Spark {version}")
        options = ["-m", "not slow", "-p", "longtests.spark_versions", *(args.pytest or FILES)]
        code = subprocess.run(
            [sys.executable, "-m", "pytest", *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, VARIABLE: version},
            check=False,
        ).returncode
        failed += [version] if code else []
    for version in args.only:
        say(f"Spark {version}: {'FAILED' if version in failed else 'passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    run_program(main)
